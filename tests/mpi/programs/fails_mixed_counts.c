// SPDX-License-Identifier: Apache-2.0
// The last rank reduces more numbers than the others: none of them can continue.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size;
  double numbers[5] = {1.0, 2.0, 3.0, 4.0, 5.0}, sums[5];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(numbers, sums, rank == size - 1 ? 5 : 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d: not reached, %f\n", rank, sums[0]);
  MPI_Finalize();
  return 0;
}
