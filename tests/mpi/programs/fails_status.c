// SPDX-License-Identifier: Apache-2.0
// All ranks end well but one, whose main returns a status after MPI_Finalize.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("rank %d has finished\n", rank);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return rank == size - 1 ? 5 : 0;
}
