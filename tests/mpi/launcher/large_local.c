// SPDX-License-Identifier: Apache-2.0
// The last rank takes a large local array after a barrier.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int large(int rank) {
  char values[3000000];
  memset(values, rank, sizeof(values));
  MPI_Bcast(values, 1, MPI_CHAR, 0, MPI_COMM_SELF);
  return values[rank];
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);  // before the array
  if (rank == size - 1 && large(rank) != rank) return 1;
  MPI_Finalize();
  return 0;
}
