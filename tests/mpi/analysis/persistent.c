// SPDX-License-Identifier: Apache-2.0
// Persistent and nonblocking collective operations: what they write, and when.
#include <mpi.h>
#include <stdlib.h>

static void started_later(int rank) {
  int n = rank;
  MPI_Request request;
  MPI_Bcast_init(&n, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  n = 5;                    // allowed until MPI_Start
  free(malloc((size_t)n));  // CV from MPI_Start
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(malloc((size_t)n + 1));  // CV from MPI_Start
  MPI_Request_free(&request);
}

static void scanned(int rank) {
  int n = rank + 1, sum = 1;
  MPI_Request request;
  MPI_Iscan(&n, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(malloc((size_t)sum));  // CV `sum` from MPI_Iscan
}

static void beside_others(int rank) {
  int n = rank, unrelated = 7;
  MPI_Request request;
  MPI_Allreduce_init(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &request);
  for (int i = 0; i < 2; ++i) {
    MPI_Startall(1, &request);
    MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    free(malloc((size_t)unrelated));  // CU
    free(malloc((size_t)n + 1));      // CV from MPI_Allreduce_init
  }
  MPI_Request_free(&request);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  started_later(rank);
  scanned(rank);
  beside_others(rank);
  MPI_Finalize();
  return 0;
}
