// SPDX-License-Identifier: Apache-2.0
// Arms of a branch that begin with equal allocations: one call before the branch serves them all.
#include <mpi.h>
#include <stdlib.h>

static int sizes[2] = {8, 16};
static int table = 8;

static int same(int x) { return x; }

static char* two(int rank) {
  char* p;
  if (rank % 2 == 0)
    p = malloc(24);  // [first = two] CU: one call before the branch
                     // [rank < 2] NO by `if (rank < 2)`: `rank` from MPI_Comm_rank, one call
  else
    p = malloc(24);  // [first = two] CU: one call before the branch
                     // [rank < 2] NO by `if (rank < 2)`: `rank` from MPI_Comm_rank, one call
  return p;
}

static void merged(int rank, int size, int n) {
  char* p = NULL;
  double* q = NULL;
  switch (rank & 3) {
    case 0:
      p = malloc(24);  // CU: one call before the branch
      break;
    case 1:
    case 2:
      p = malloc(24);  // CU: one call before the branch
      break;
    default:
      p = malloc(24);  // CU: one call before the branch
  }
  free(p);
  if (rank == 0) {
    p = malloc(8);  // CU: one call before the branch
  } else if (rank == 1) {
    p = malloc(8);  // CU: one call before the branch
  } else {
    p = malloc(8);  // CU: one call before the branch
  }
  free(p);
  if (rank > 0 && size > 2)
    q = malloc((size_t)n * sizeof(double));  // CU: one call before the branch
  else
    q = malloc((size_t)n * sizeof(double));  // CU: one call before the branch
  free(q);
  if (rank > 2)
    q = calloc((size_t)table, sizeof(double));  // CU: one call before the branch
  else
    q = calloc((size_t)table, sizeof(double));  // CU: one call before the branch
  free(q);
  p = rank ? malloc((size_t)sizes[1]) : malloc((size_t)sizes[1]);  // CU: one call before the branch
                                                                   // CU: one call before the branch
  free(p);
  if (rank % 2) {
    p = malloc(100);  // CU: one call before the branch
    q = malloc(64);   // CU: one call before the branch
    q[0] = 1;
  } else {
    q = malloc(100);  // CU: one call before the branch
    p = malloc(64);   // CU: one call before the branch
    p[0] = 1;
  }
  free(p);
  free(q);
  for (int i = 0; i < size; ++i) {
    if (rank < i)
      p = malloc((size_t)i + 1);  // CU: one call before the branch
    else
      p = malloc((size_t)i + 1);  // CU: one call before the branch
    free(p);
  }
  if (rank % 2)
    p = malloc((size_t)rank + 1);  // CV `rank` from MPI_Comm_rank, one call
  else
    p = malloc((size_t)rank + 1);  // CV `rank` from MPI_Comm_rank, one call
  free(p);
  if (rank == 0) goto inside;
  if (rank % 2) {
    p = malloc(24);  // CU: one call before the branch
  } else {
  inside:
    p = malloc(24);  // CU: one call before the branch
  }
  free(p);
  if (size > 2)
    p = malloc(40);  // CU: all ranks call it, with one size
  else
    p = malloc(40);  // CU: all ranks call it, with one size
  free(p);
  if (rank > 1) {  // the outer branch has other arms: the inner one is merged alone
    if (rank % 2)
      p = malloc(32);  // NO by `if (rank > 1)`: `rank` from MPI_Comm_rank, one call
    else
      p = malloc(32);  // NO by `if (rank > 1)`: `rank` from MPI_Comm_rank, one call
  } else {
    p = NULL;
  }
  free(p);
}

static void apart(int rank, int n, int* shared, int volatile* flag) {
  char* p = NULL;
  if (rank % 2)
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  else
    p = malloc(32);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  free(p);
  if (rank % 2)
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  else
    p = calloc(24, 1);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  free(p);
  if (rank % 2) {
    same(1);
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  if (rank % 2) {
    free(p);
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
    p = realloc(p, 24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  free(p);
  int own = 8;
  if (rank % 2) {
    own = 16;
    p = malloc((size_t)own);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
    p = malloc((size_t)own);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  free(p);
  if (rank % 2) {
    *shared = 16;               // may be the variable `table`
    p = malloc((size_t)table);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
    p = malloc((size_t)table);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  free(p);
  p = NULL;
  if (rank % 3 == 0)
    p = malloc(24);  // NO by `if (rank % 3 == 0)`: `rank` from MPI_Comm_rank
  else if (rank % 3 == 1)
    p = malloc(24);  // NO by `if (rank % 3 == 1)`: `rank` from MPI_Comm_rank
  free(p);
  switch (rank & 1) {  // falls through: rank 0 allocates twice
    case 0:
      free(malloc(24));  // NO by `switch (rank & 1)`: `rank` from MPI_Comm_rank
    default:
      free(malloc(24));  // CU
  }
  if (rank > 1) {
    switch (rank & 1) {  // no call here is collective, but rank 2 still allocates twice
      case 0:
        free(malloc(56));  // NO by `switch (rank & 1)`: `rank` from MPI_Comm_rank
      default:
        free(malloc(56));  // NO by `if (rank > 1)`: `rank` from MPI_Comm_rank
    }
    if (rank & 1) {
      p = malloc(72);  // NO by `if (rank & 1)`: `rank` from MPI_Comm_rank
      free(p);
    } else if (rank & 2) {
      do {
        p = malloc(72);  // NO by `while (++own % 3)`: `rank` from MPI_Comm_rank
        free(p);
      } while (++own % 3);
    } else {
      p = malloc(72);  // NO by `else if (rank & 2)`: `rank` from MPI_Comm_rank
      free(p);
    }
  }
  if (rank % 2) {
    *flag = 1;
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  free(p);
  if (rank % 2) {
    for (int i = 0; i < n; ++i) own += i;
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  free(p);
  if (rank % 2)
    p = malloc((size_t)same(24));  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  else
    p = malloc((size_t)same(24));  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  free(p);
  if (rank == 0) goto inside;
  free(malloc(8));  // NO by `if (rank == 0)`: `rank` from MPI_Comm_rank
  if (rank % 2) {
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  } else {
  inside:
    p = malloc(24);  // NO by `if (rank % 2)`: `rank` from MPI_Comm_rank
  }
  free(p);
  for (int i = 0; i < rank; ++i) free(malloc(80));  // NO by `i < rank`: `rank` from MPI_Comm_rank
  free(malloc(80));                                 // CU: all ranks call it, with one size
  for (int i = 0; i < 2 + rank; ++i) {  // one of the arms leaves the loop without an allocation
    if (rank % 2 == i) break;
    free(malloc(24));  // NO by `if (rank % 2 == i)`: `rank` from MPI_Comm_rank
  }
}

int main(int argc, char** argv) {
  int rank, size, flag = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char* first = two(rank);
  free(first);
  merged(rank, size, argc * 8);
  apart(rank, argc, &table, &flag);
  if (rank < 2) free(two(rank));
  MPI_Finalize();
  return 0;
}
