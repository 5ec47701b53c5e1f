// SPDX-License-Identifier: Apache-2.0
// Branches inside expressions, switches, and nested loops.
#include <mpi.h>
#include <stdlib.h>

static void conditions(int rank, int size) {
  free(malloc(rank == 0 ? 64 : 32));       // CV `rank` from MPI_Comm_rank
  free(malloc(rank == 0 ? 64 : 64));       // CU
  char* a = rank == 0 ? malloc(8) : NULL;  // NO by `rank == 0 ? malloc`: `rank` from MPI_Comm_rank
  char* b = size > 1 ? malloc(8) : NULL;   // CU
  free(a);
  free(b);
  void* c = NULL;
  int const has_both = size > 1 && (c = malloc(8)) != NULL;  // CU
  free(c);
  c = NULL;
  int const has_one =
      rank && (c = malloc(8)) != NULL;  // NO by `rank && (c`: `rank` from MPI_Comm_rank
  free(c);
  c = NULL;
  int const has_other = rank == 1 || (c = malloc(8)) != NULL;
  // NO by `rank == 1 || (c`: `rank` from MPI_Comm_rank
  free(c);
  int n;
  free((n = size * 2, malloc((size_t)n)));                     // CU
  free((n = rank * 2, malloc((size_t)n)));                     // CV `rank` from MPI_Comm_rank
  free(malloc((size_t)(has_both + has_one + has_other) + 1));  // CV from MPI_Comm_rank
}

static void switches(int rank, int size) {
  switch (size & 3) {
    case 0:
      free(malloc(8));  // CU
      break;
    case 1:
      free(malloc(16));  // CU
      // fall through
    case 2:
      free(malloc(24));  // CU
      break;
    default:
      free(malloc(32));  // CU
  }
  switch (rank & 3) {
    case 0:
      free(malloc(8));  // NO by `switch (rank & 3)`: `rank` from MPI_Comm_rank
      break;
    case 1:
      free(malloc(16));  // NO by `switch (rank & 3)`: `rank` from MPI_Comm_rank
      // fall through
    default:
      free(malloc(32));  // NO by `switch (rank & 3)`: `rank` from MPI_Comm_rank
  }
  free(malloc(40));  // CU
  size_t bytes;
  switch (rank % 2) {
    case 0:
      bytes = 8;
      break;
    default:
      bytes = 16;
  }
  free(malloc(bytes));  // CV `rank` from MPI_Comm_rank
  switch (size) {
    case 1:
      bytes = 8;
      break;
    default:
      bytes = 16;
  }
  free(malloc(bytes));  // CU
}

static void nested(int rank, int size) {
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < i; ++j) free(malloc((size_t)(i + j) + 1));  // CU
    for (int j = 0; j < rank; ++j) free(malloc((size_t)i + 1));
    // NO by `j < rank`: `rank` from MPI_Comm_rank
    free(malloc((size_t)i + 1));  // CU
  }
  for (int i = 0; i < 2; ++i) {
    int j = 0;
    while (1) {
      if (j++ > rank) break;
    }
    free(malloc((size_t)j));  // CV from MPI_Comm_rank
  }
  for (int i = 0; i < rank; ++i)
    for (int j = 0; j < size; ++j) free(malloc(8));  // NO by `i < rank`: `rank` from MPI_Comm_rank
}

static void joins(int rank, int size) {
  int n = 0;
  if (rank == 0) n = 10;
  free(malloc((size_t)n + 1));  // CV from MPI_Comm_rank
  int m = 0;
  if (size > 3) m = 10;
  free(malloc((size_t)m + 1));  // CU
  n = 7;                        // the old value does not matter
  free(malloc((size_t)n));      // CU
  int const is_even = rank % 2 == 0;
  int const differs = is_even != (rank % 2 == 0);  // nobody computes that this is always 0
  free(malloc((size_t)differs + 1));               // CV from MPI_Comm_rank
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  conditions(rank, size);
  switches(rank, size);
  nested(rank, size);
  joins(rank, size);
  MPI_Finalize();
  return 0;
}
