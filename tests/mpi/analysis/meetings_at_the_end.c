// SPDX-License-Identifier: Apache-2.0
// A rank whose job will end calls a barrier first, which can be the one that others call elsewhere.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, token = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  free(malloc(8));  // CU; sync-safe
  if (rank > 100) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(malloc(8));  // CU; not sync-safe after MPI_Barrier
  if (rank == 0 && token == 1) MPI_Send(&token, 1, MPI_INT, 101, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
