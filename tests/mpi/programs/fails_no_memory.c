// SPDX-License-Identifier: Apache-2.0
// One rank asks for more memory than there is, and uses the null pointer that it gets.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t const count = rank == size - 1 ? (size_t)1 << 50 : 4;
  volatile char *const items = malloc(count);
  items[0] = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d: not reached, %d\n", rank, items[0]);
  MPI_Finalize();
  return 0;
}
