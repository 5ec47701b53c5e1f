// SPDX-License-Identifier: Apache-2.0
// Allocations in straight lines, branches and loops.
#include <mpi.h>
#include <stdlib.h>

static void branches(int rank, int size) {
  free(malloc(48));  // CU
  if (rank == 0) {
    free(malloc(48));  // NO by `if (rank == 0)`: `rank` from MPI_Comm_rank
  }
  if (size >= 4) {
    free(malloc(64));  // CU
  } else {
    free(malloc(32));  // CU
  }
  if (rank % 2 == 0)
    free(malloc(8));  // NO by `if (rank % 2 == 0)`: `rank` from MPI_Comm_rank
  else
    free(malloc(16));  // NO by `if (rank % 2 == 0)`: `rank` from MPI_Comm_rank
  if (size > 2) {
    if (rank > 1) {
      if (size > 3) free(malloc(4));  // NO by `if (rank > 1)`: `rank` from MPI_Comm_rank
    }
  }
  free(malloc(128));  // CU
}

static void sizes(int rank, int size, int argc, char** argv) {
  free(malloc(sizeof(double) * (size_t)size));        // CU
  free(malloc((size_t)atoi(argv[1]) * sizeof(int)));  // CU
  free(malloc((size_t)argc));                         // CU
  free(malloc(8 * (size_t)rank + 8));                 // CV `rank` from MPI_Comm_rank
  free(calloc((size_t)size, sizeof(int)));            // CU
  free(calloc((size_t)rank + 1, sizeof(int)));        // CV `rank` from MPI_Comm_rank
  free(calloc(4, (size_t)rank + 1));                  // CV `rank` from MPI_Comm_rank
  int const share = (size + 100 - rank - 1) / size;
  free(malloc((size_t)share));  // CV from MPI_Comm_rank
  int const rounded = (100 + size - 1) / size;
  free(malloc((size_t)rounded * sizeof(double)));  // CU
}

static void loops(int rank, int size) {
  for (int i = 0; i < size; ++i) free(malloc(8 * (size_t)i + 8));  // CU
  for (int i = 0; i < rank; ++i) free(malloc(8));
  // NO by `i < rank`: `rank` from MPI_Comm_rank
  free(malloc(8));  // CU
  int steps = 0;
  for (int x = rank; x > 0; x /= 2) ++steps;
  free(malloc(8));                  // CU
  free(malloc((size_t)steps + 1));  // CV from MPI_Comm_rank
  int turns = 0;
  do {
    free(malloc((size_t)turns + 1));  // CU
    ++turns;
  } while (turns < size);
  free(malloc((size_t)turns));  // CU
  int left = rank + 1;
  do {
    free(malloc(24));  // NO by `while (--left > 0)`: `rank` from MPI_Comm_rank
  } while (--left > 0);
}

static void jumps(int rank, int size) {
  for (int i = 0; i < 3; ++i) {
    free(malloc(8));  // CU
    if (i == rank) continue;
    free(malloc(8));  // NO by `if (i == rank) continue`: `rank` from MPI_Comm_rank
  }
  for (int i = 0; i < 3; ++i) {
    if (i == size) continue;
    free(malloc(8));  // CU
  }
  for (int i = 0; i < 9; ++i) {
    free(malloc(8));  // NO by `if (i > rank) break`: `rank` from MPI_Comm_rank
    if (i > rank) break;
  }
  if (rank > 2) goto done;
  free(malloc(8));  // NO by `if (rank > 2) goto done`: `rank` from MPI_Comm_rank
done:
  free(malloc(8));  // CU
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  branches(rank, size);
  sizes(rank, size, argc, argv);
  loops(rank, size);
  jumps(rank, size);
  MPI_Finalize();
  return 0;
}
