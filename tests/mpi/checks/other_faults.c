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
  } const cases[] = {
      {"pointers", pointers}, {"no_targets", no_targets}, {"received_twice", received_twice}};
  for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (strcmp(wanted, cases[i].name) == 0) cases[i].run();
  MPI_Finalize();
  if (has_pointers) rank_of(MPI_COMM_WORLD, &rank);  // POINTED TOO LATE
  return 0;
}
