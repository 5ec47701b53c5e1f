// SPDX-License-Identifier: Apache-2.0
// A rank that ends by exit(0) does not end the others.
#include <mpi.h>
#include <stdlib.h>

static void leave(int code) {
  MPI_Finalize();
  exit(code);
}

static void worker(int rank) {
  free(malloc((size_t)rank));  // NO by `if (rank > 2)`: `rank` from MPI_Comm_rank
  leave(0);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  free(malloc(8));  // CU
  if (argc > 50) leave(0);
  if (rank == 55) leave(3);
  free(malloc(16));  // CU
  if (rank > 2) worker(rank);
  free(malloc(24));  // NO by `if (rank > 2)`: `rank` from MPI_Comm_rank
  MPI_Finalize();
  exit(0);
}
