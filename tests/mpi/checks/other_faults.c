// SPDX-License-Identifier: Apache-2.0
// More faults in the use of MPI. The first argument says which.
#include <mpi.h>
#include <string.h>

static int rank, size;

typedef int (*sender)(void const*, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*receiver)();  // C17 allows a pointer that does not name its parameters
#pragma clang diagnostic ignored "-Wdeprecated-non-prototype"
static int (*volatile rank_of)(MPI_Comm, int*) = MPI_Comm_rank;
static sender volatile sends = MPI_Ssend;
static receiver volatile receives = (receiver)MPI_Irecv;

static void pointers(void) {
  static int buffer[3];
  MPI_Request made;
  receives(buffer, 2, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &made);  // POINTED RECEIVE
  sends(buffer + 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  sends(buffer + 1, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);  // POINTED SEND
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A rank without targets sends nothing, so that its buffer may be in use: no fault.
static void no_targets(void) {
  int buffer[4] = {0}, received[4], next = 1, first = 0;
  MPI_Comm to_the_first, grid;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank == 0 && size > 1, &next, MPI_UNWEIGHTED,
                                 rank == 1, &first, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &to_the_first);
  MPI_Request request;
  MPI_Irecv(buffer, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &request);
  MPI_Neighbor_allgather(rank == 1 ? buffer + 1 : buffer, 1, MPI_INT, received, 1, MPI_INT,
                         to_the_first);
  int const one = 1, does_not_wrap = 0;
  MPI_Cart_create(MPI_COMM_SELF, 1, &one, &does_not_wrap, 0, &grid);
  MPI_Neighbor_allgather(buffer, 1, MPI_INT, buffer, 1, MPI_INT, grid);
  MPI_Send(buffer + 2, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&to_the_first);
  MPI_Comm_free(&grid);
}

/// The bytes that each call receives into.
static void received_twice(void) {
  static int buffer[64], sent[64];
  int counts[3] = {4, 4, 4}, places[3] = {8, 0, 3}, apart[3] = {8, 0, 4};
  MPI_Datatype column, columns, overlapping;
  MPI_Type_vector(4, 1, 3, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, sizeof(int), &columns);  // one after another: no fault
  MPI_Type_create_resized(column, 0, 3 * sizeof(int), &overlapping);
  MPI_Type_commit(&columns);
  MPI_Type_commit(&overlapping);
  MPI_Comm const all = MPI_COMM_WORLD;
  MPI_Gatherv(sent, 4, MPI_INT, buffer, counts, places, MPI_INT, 0, all);             // BY THE ROOT
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INT, buffer, counts, places, MPI_INT, all);     // IN PLACE
  MPI_Alltoallv(sent, counts, apart, MPI_INT, buffer, counts, places, MPI_INT, all);  // BY ALL
  MPI_Allgather(sent, 4, MPI_INT, buffer, 1, overlapping, all);                       // COLUMNS
  MPI_Allgather(sent, 4, MPI_INT, buffer, 1, columns, all);
  MPI_Alltoallv(sent, counts, places, MPI_INT, buffer, counts, apart, MPI_INT, all);
  MPI_Scatterv(sent, counts, places, MPI_INT, buffer, 4, MPI_INT, 0, all);
  MPI_Type_free(&column);
  MPI_Type_free(&columns);
  MPI_Type_free(&overlapping);
}

/// What a rank sends to itself is not what it receives from itself.
static void own_parts(void) {
  static int sent[64], received[64];
  int const ones[3] = {1, 1, 1}, places[3] = {0, 2, 4};
  int more[3] = {1, 1, 1};
  more[rank] = 2;
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Comm const all = MPI_COMM_WORLD;
  MPI_Gather(sent, 2, MPI_INT, received, 4, MPI_INT, 0, all);   // MORE OF EACH
  MPI_Scatter(sent, 2, MPI_INT, received, 4, MPI_INT, 0, all);  // MORE OF THE ROOT
  MPI_Allgather(sent, 1, MPI_INT, received, 2, MPI_INT, all);   // MORE OF ALL
  MPI_Alltoall(sent, 1, MPI_FLOAT, received, 1, MPI_INT, all);  // OTHER TYPES
  MPI_Alltoallv(sent, ones, ones, MPI_INT, received, more, places, MPI_INT, all);  // MORE ITSELF
  void* const own = rank == 1 ? MPI_IN_PLACE : sent;
  MPI_Gather(own, 1, MPI_INT, received, 1, MPI_INT, 0, all);  // NOT THE ROOT
  // Equal in other forms.
  MPI_Allgather(sent, 2, MPI_INT, received, 1, pair, all);
  MPI_Gather(rank == 0 ? MPI_IN_PLACE : sent, 2, MPI_INT, received, 1, pair, 0, all);
  MPI_Alltoall(sent, 0, MPI_FLOAT, received, 0, MPI_INT, all);
  MPI_Type_free(&pair);
}

static void first_of_both(void* left, void* right, int* count, MPI_Datatype* type) {
  (void)type;
  memcpy(right, left, (size_t)*count * sizeof(int));
}
static void user_reductions(void) {
  int const own = rank;
  int result;
  MPI_Op op;
  MPI_Op_create(first_of_both, 1, &op);
  MPI_Allreduce(&own, &result, 1, MPI_INT, rank == 1 ? MPI_SUM : op, MPI_COMM_WORLD);  // USER
  MPI_Op_free(&op);
}
static void scattered_counts(void) {
  static int sent[64], received[64];
  int const counts[3] = {1, rank == 1 ? 3 : 2, rank == 1 ? 2 : 3};
  MPI_Reduce_scatter(sent, received, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // COUNTS
}
static void gathered_counts(void) {
  static int sent[64], received[64];
  int const counts[3] = {2, 2, rank == 1 ? 3 : 2}, places[3] = {0, 8, 16};
  MPI_Comm const all = MPI_COMM_WORLD;
  MPI_Allgatherv(sent, 2, MPI_INT, received, counts, places, MPI_INT, all);  // ALL COUNTS
}

/// An operation is complete as soon as MPI says so, though the request is not freed: no fault.
static void looks_at_requests(void) {
  int const next = (rank + 1) % size, last = (rank + size - 1) % size;
  int sent = rank, received = -1, flag = 0;
  MPI_Request requests[2], persistent;
  MPI_Isend(&sent, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&received, 1, MPI_INT, last, 0, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 2; ++i)
    for (flag = 0; !flag;) MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
  sent = 7;
  MPI_Bcast(&received, 1, MPI_INT, 0, MPI_COMM_SELF);
  MPI_Sendrecv_replace(&received, 1, MPI_INT, next, 1, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Send_init(&sent, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &persistent);
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&persistent);
    MPI_Recv(&received, 1, MPI_INT, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (flag = 0; !flag;) MPI_Request_get_status(persistent, &flag, MPI_STATUS_IGNORE);
    sent = 8 + i;
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&persistent);
}
/// A buffer that changed before: a fault. And a request that is never freed.
static void looks_too_late(void) {
  static int sent;
  int received, flag = 0;
  MPI_Request request;
  MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &request);  // LOOKED AT
  sent = rank + 1;
  MPI_Recv(&received, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  while (!flag) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);  // LOOKS
}

static int query(void* state, MPI_Status* status) {
  (void)state;
  MPI_Status_set_elements(status, MPI_INT, 0);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
static int release(void* state) { return state == &rank ? MPI_SUCCESS : MPI_ERR_OTHER; }
static int cancel(void* state, int is_complete) {
  (void)state;
  return is_complete ? MPI_SUCCESS : MPI_ERR_OTHER;
}
/// A request of the program's own, and an info object that MPI made. The first of each is no fault.
static void leaves_more(void) {
  MPI_Request request;
  MPI_Info info;
  MPI_Grequest_start(query, release, cancel, &rank, &request);
  MPI_Grequest_complete(request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_get_info(MPI_COMM_WORLD, &info);
  MPI_Info_free(&info);
  MPI_Grequest_start(query, release, cancel, &rank, &request);  // OWN REQUEST
  MPI_Comm_get_info(MPI_COMM_WORLD, &info);                     // INFO OF MPI
}

int main(int argc, char** argv) {
  char const* const wanted = argc > 1 ? argv[1] : "";
  int const has_pointers = strcmp(wanted, "pointers") == 0;
  if (has_pointers) rank_of(MPI_COMM_WORLD, &rank);  // POINTED TOO EARLY
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  struct {
    char const* name;
    void (*run)(void);
  } const cases[] = {{"pointers", pointers},
                     {"no_targets", no_targets},
                     {"received_twice", received_twice},
                     {"own_parts", own_parts},
                     {"user_reductions", user_reductions},
                     {"scattered_counts", scattered_counts},
                     {"gathered_counts", gathered_counts},
                     {"looks_at_requests", looks_at_requests},
                     {"looks_too_late", looks_too_late},
                     {"leaves_more", leaves_more}};
  for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (strcmp(wanted, cases[i].name) == 0) cases[i].run();
  MPI_Finalize();
  if (has_pointers) rank_of(MPI_COMM_WORLD, &rank);  // POINTED TOO LATE
  return 0;
}
