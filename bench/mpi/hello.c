// SPDX-License-Identifier: Apache-2.0
// Each rank prints a line. scripts/run_mpi_bench.sh measures the whole run, and checks the lines.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("hello from rank %d of %d\n", rank, size);
  MPI_Finalize();
  return 0;
}
