// SPDX-License-Identifier: Apache-2.0
// Calls the function that the argument names. Ranks of several processes cannot have it.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char const* const function = argc > 1 ? argv[1] : "";
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request;
  if (strcmp(function, "MPI_Intercomm_create") == 0) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &made);
  } else if (strcmp(function, "MPI_Comm_idup") == 0) {
    MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
  } else if (strcmp(function, "MPI_Dist_graph_create") == 0) {
    int const degree = 1, next = (rank + 1) % size;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  } else if (strcmp(function, "MPI_Cancel") == 0) {
    if (rank == 0) {
      MPI_Issend(&rank, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, &request);
      MPI_Cancel(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  printf("not reached\n");
  MPI_Finalize();
  return 0;
}
