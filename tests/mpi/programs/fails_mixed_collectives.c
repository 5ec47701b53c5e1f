// SPDX-License-Identifier: Apache-2.0
// Rank 0 waits in a barrier, the other ranks in a reduction: an error of the program.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    MPI_Barrier(MPI_COMM_WORLD);
  else
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d: not reached, %d\n", rank, sum);
  MPI_Finalize();
  return 0;
}
