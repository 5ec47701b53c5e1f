// SPDX-License-Identifier: Apache-2.0
// Functions that allocate: contexts, wrappers, recursion, calls through pointers.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void* grab(size_t size) {
  return malloc(size);  // [grab(8)] CU
      // [if (rank < 2) free(grab(9))] NO by `if (rank < 2)`: `rank` from MPI_Comm_rank
}

static void* checked(size_t size) {
  void* const p = malloc(size);
  // [checked(100)] CU
  // [checked((size_t)rank + 1)] CV `rank` from MPI_Comm_rank
  // [checked(count * size) <- array( <- matrix(size, size)] CU
  // [checked(count * size) <- array( <- matrix(rank + 1, size)] CV from MPI_Comm_rank
  if (p == NULL) {
    fprintf(stderr, "no memory for %zu bytes\n", size);
    exit(EXIT_FAILURE);
  }
  return p;
}

static void* array(size_t count, size_t size) { return checked(count * size); }
static double* matrix(int rows, int columns) {
  return array((size_t)rows * (size_t)columns, sizeof(double));
}

static void deep(int depth) {
  void* const p = malloc((size_t)depth + 1);  // CU
  if (depth > 0) deep(depth - 1);
  free(p);
}

static void deep_as_rank(int depth) {
  free(malloc(16));  // NO by `if (depth > 0) deep_as_rank`: `rank` from MPI_Comm_rank
  if (depth > 0) deep_as_rank(depth - 1);
}

static void odd(int n);
static void even(int n) {
  free(malloc(8));  // CU
  if (n > 0) odd(n - 1);
}
static void odd(int n) {
  free(malloc(16));  // CU
  if (n > 0) even(n - 1);
}

static int sum_to(int n) { return n == 0 ? 0 : n + sum_to(n - 1); }

static int product_to(int n) { return n == 0 ? 1 : n * product_to(n - 1); }

static void through_pointer(void) {
  free(malloc(8));  // NO: through_pointer is called through a pointer
}
static void other_pointer(void) {
  free(malloc(8));  // NO: other_pointer is called through a pointer
}

static void (*const table[])(void) = {through_pointer, other_pointer};

static void with_callback(void* (*allocate)(size_t), size_t size) { free(allocate(size)); }
static void* plain(size_t size) {
  return malloc(size);  // CU
}

static int by_value(void const* a, void const* b) {
  free(malloc(4));  // NO: by_value is called through a pointer
  return *(int const*)a - *(int const*)b;
}

/// Allocates through an out parameter, and reports an error by its result.
static int make(char** out, int size) {
  *out = malloc((size_t)size);  // [make(&text, size)] CU
                                // [make(&text, rank + 1)] CV `rank` from MPI_Comm_rank
  if (*out == NULL) return -1;
  return 0;
}

typedef struct {
  int count;
  int* values;
} list;

static list new_list(int count) {
  list result = {count, malloc(sizeof(int) * (size_t)count)};  // [list a = new_list(size)] CU
  // [list b = new_list(rank + 1)] CV `rank` from MPI_Comm_rank
  return result;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  free(grab(8));
  if (rank < 2) free(grab(9));
  free(checked(100));
  free(checked((size_t)rank + 1));
  free(matrix(size, size));
  free(matrix(rank + 1, size));
  deep(4);
  deep_as_rank(rank);
  even(5);
  free(malloc((size_t)sum_to(size)));          // CU
  free(malloc((size_t)product_to(rank) + 1));  // CV from MPI_Comm_rank
  for (int i = 0; i < 2; ++i) table[i]();
  with_callback(plain, 24);
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof(int), by_value);
  char* text;
  if (make(&text, size) == 0) free(text);
  if (make(&text, rank + 1) == 0) free(text);
  list a = new_list(size);
  list b = new_list(rank + 1);
  free(malloc((size_t)a.count));  // CU
  free(malloc((size_t)b.count));  // CV `rank` from MPI_Comm_rank
  free(a.values);
  free(b.values);
  MPI_Finalize();
  return 0;
}
