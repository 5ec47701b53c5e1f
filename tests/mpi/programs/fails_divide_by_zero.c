// SPDX-License-Identifier: Apache-2.0
// One rank divides an integer by zero while the others wait for it.
#include <mpi.h>
#include <stdio.h>

static volatile int parts;

int main(int argc, char **argv) {
  int rank, size, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  parts = rank == size - 1 ? 0 : 1;
  int const share = 100 / parts;
  MPI_Allreduce(&share, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d: not reached, %d\n", rank, sum);
  MPI_Finalize();
  return 0;
}
