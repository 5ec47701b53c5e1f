// SPDX-License-Identifier: Apache-2.0
// Faults in the use of MPI. The first argument says which.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size;
static int values[64];

static void leak(void) {
  MPI_Comm copy;
  MPI_Datatype pair;
  MPI_Group all, one;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);              // LEAK communicator
  MPI_Datatype single;
  MPI_Type_contiguous(2, MPI_INT, &single);
  MPI_Type_create_resized(single, 0, 16, &pair);    // LEAK datatype
  MPI_Type_free(&single);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &rank, &one);              // LEAK group
  MPI_Group_free(&all);
}

static void request(void) {
  MPI_Request never;
  MPI_Irecv(values, 4, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &never);  // NEVER COMPLETED
}

static void overlap(void) {
  MPI_Request both[2];
  MPI_Irecv(values, 8, MPI_INT, rank, 1, MPI_COMM_WORLD, &both[0]);      // FIRST
  MPI_Irecv(values + 7, 8, MPI_INT, rank, 2, MPI_COMM_WORLD, &both[1]);  // OVERLAPS
  MPI_Send(values + 32, 8, MPI_INT, rank, 1, MPI_COMM_WORLD);
  MPI_Send(values + 32, 8, MPI_INT, rank, 2, MPI_COMM_WORLD);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void changed(void) {
  MPI_Request sent;
  MPI_Isend(values, 8, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &sent);  // CHANGED
  values[5] = 77;
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Recv(values + 32, 8, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void unreceived(void) {
  if (rank == 0) MPI_Send(values, 3, MPI_INT, 1, 5, MPI_COMM_WORLD);
}

static void roots(void) {
  MPI_Bcast(values, 4, MPI_INT, rank == 2 ? 1 : 0, MPI_COMM_WORLD);  // ROOT
}

static void operations(void) {
  if (rank == 1) {
    MPI_Barrier(MPI_COMM_WORLD);  // BARRIER
  } else {
    MPI_Allreduce(values, values + 32, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // ALLREDUCE
  }
}

static void reductions(void) {
  MPI_Allreduce(values, values + 32, 8, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static void types(void) {
  MPI_Bcast(values, 4, rank == 1 ? MPI_FLOAT : MPI_INT, 0, MPI_COMM_WORLD);
}

static void sizes(void) { MPI_Bcast(values, rank == 1 ? 5 : 4, MPI_INT, 0, MPI_COMM_WORLD); }

// Uses everything as it should be used, more often than the checks keep operations.
static void good(void) {
  MPI_Comm copy, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(copy, rank % 2, rank, &half);
  for (int i = 0; i < 200; ++i) {
    int sum = 0, half_size, from = (rank + size - 1) % size;
    MPI_Request requests[4];
    MPI_Status status;
    int index, done, indices[4];
    MPI_Irecv(values, 8, MPI_INT, from, 1, copy, &requests[0]);
    MPI_Irecv(values + 8, 8, MPI_INT, from, 2, copy, &requests[1]);
    MPI_Isend(values + 32, 8, MPI_INT, (rank + 1) % size, 1, copy, &requests[2]);
    MPI_Isend(values + 32, 8, MPI_INT, (rank + 1) % size, 2, copy, &requests[3]);
    MPI_Waitany(2, requests, &index, &status);
    MPI_Waitsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < 4; ++k)
      if (requests[k] != MPI_REQUEST_NULL) printf("request %d is left\n", k);
    MPI_Irecv(values, 8, MPI_INT, from, 3, copy, &requests[0]);
    MPI_Recv_init(values + 8, 8, MPI_INT, from, 4, copy, &requests[1]);
    MPI_Issend(values + 32, 8, MPI_INT, (rank + 1) % size, 5, copy, &requests[2]);
    MPI_Start(&requests[1]);
    for (int k = 0; k < 3; ++k) MPI_Cancel(&requests[k]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[1]);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    MPI_Bcast(&sum, 1, MPI_INT, 0, half);
    MPI_Comm_size(half, &half_size);
    if (rank == 0) MPI_Reduce(MPI_IN_PLACE, values, 4, MPI_INT, MPI_MAX, 0, copy);
    else MPI_Reduce(values, NULL, 4, MPI_INT, MPI_MAX, 0, copy);
  }
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  struct {
    char const* name;
    void (*run)(void);
  } const cases[] = {{"leak", leak},
                     {"request", request},
                     {"overlap", overlap},
                     {"changed", changed},
                     {"unreceived", unreceived},
                     {"roots", roots},
                     {"operations", operations},
                     {"reductions", reductions},
                     {"types", types},
                     {"sizes", sizes},
                     {"good", good}};
  for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) cases[i].run();
  MPI_Finalize();
  return 0;
}
