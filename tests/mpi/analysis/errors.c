// SPDX-License-Identifier: Apache-2.0
// Error handling: codes that callers pass on, macros, and loops that end early.
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                   \
  do {                              \
    int const status = (call);      \
    if (status != 0) return status; \
  } while (0)

#define NEW(type, count) ((type*)allocate((count) * sizeof(type), #type))

static void* allocate(size_t bytes, char const* what) {
  void* const p = calloc(1, bytes);
  // [NEW(double, 16)] CU
  // [NEW(int, (size_t)rank + 1)] CV `rank` from MPI_Comm_rank
  // [NEW(char, 8)] NO by `if (rank < 3)`: `rank` from MPI_Comm_rank
  if (!p) {
    fprintf(stderr, "no memory for %s: %s\n", what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return p;
}

typedef struct {
  double* field;
  int* index;
} solver;

static int open_solver(solver* s, int n) {
  s->field = malloc(sizeof(double) * (size_t)n);  // [TRY(open_solver(&s, 64))] CU
  // [open_solver(&own, rank + 1)] CV `rank` from MPI_Comm_rank
  if (s->field == NULL) return -1;
  s->index = malloc(sizeof(int) * (size_t)n);  // [TRY(open_solver(&s, 64))] CU
  // [open_solver(&own, rank + 1)] CV `rank` from MPI_Comm_rank
  if (s->index == NULL) {
    free(s->field);
    return -1;
  }
  return 0;
}

static void close_solver(solver* s) {
  free(s->field);
  free(s->index);
}

static int check(int value) { return value > 1000 ? -1 : 0; }

static int steps(int rank) {
  solver s, own;
  TRY(open_solver(&s, 64));
  TRY(open_solver(&own, rank + 1));
  free(malloc(8));  // CU
  close_solver(&s);
  close_solver(&own);
  TRY(check(7));
  free(malloc(8));  // CU
  TRY(check(rank));
  free(malloc(8));  // NO by `TRY(check(rank))`: `rank` from MPI_Comm_rank
  return 0;
}

static int find(int const* values, int count, int wanted) {
  for (int i = 0; i < count; ++i)
    if (values[i] == wanted) return i;
  return count;
}

static void searches(int rank) {
  int const values[] = {4, 3, 2, 1, 0};
  free(malloc((size_t)find(values, 5, 2)));         // CU
  free(malloc((size_t)find(values, 5, rank) + 1));  // CV from MPI_Comm_rank
  for (int i = 0; i < 3; ++i) {
    int j = 0;
    while (1) {
      if (j++ > rank) break;
    }
    free(malloc(8));  // NO by `if (j > 3) break`: from MPI_Comm_rank
    if (j > 3) break;
  }
  free(malloc(8));  // CU
}

/// A search for a time, with a decision that rank 0 makes for all.
static void decided(int rank) {
  double const start = MPI_Wtime();
  int goes_on = 1, step = 0;
  while (goes_on) {
    free(malloc(8));  // CU
    if (rank == 0) goes_on = ++step < 3 && MPI_Wtime() - start < 1000;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  free(malloc((size_t)step + 1));  // CV from MPI_Comm_rank
  step = 0;
  while (step < 3 && MPI_Wtime() - start < 1000) {
    free(malloc(8));  // NO by `while (step < 3`: from MPI_Wtime
    ++step;
  }
}

static int failures(int rank) {
  int failed = rank == 1000;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
  if (failed) return 1;
  free(malloc(8));  // CU
  return 0;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (steps(rank) != 0) fprintf(stderr, "failed\n");
  free(malloc(8));  // CU
  searches(rank);
  decided(rank);
  if (failures(rank)) return 1;
  free(malloc(8));  // CU
  free(NEW(double, 16));
  free(NEW(int, (size_t)rank + 1));
  if (rank < 3) free(NEW(char, 8));
  MPI_Finalize();
  return 0;
}
