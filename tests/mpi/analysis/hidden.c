// SPDX-License-Identifier: Apache-2.0
// Control flow that is easy to overlook: jumps out of functions, state of library functions,
// recursion that ends a rank, functions that are known by their addresses.
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static jmp_buf back;

static void jump(int rank) {
  if (rank == 2) longjmp(back, 1);
}

static void with_jump(int rank) {
  if (setjmp(back) == 0) {
    jump(rank);
    free(malloc(8));  // NO by `if (rank == 2) longjmp`: `rank` from MPI_Comm_rank
  }
  free(malloc(8));  // NO by `if (rank == 2) longjmp`: `rank` from MPI_Comm_rank
}

/// Rank 2 goes back once, and so allocates twice.
static void twice(int rank) {
  static jmp_buf start;
  static int jumps = 0;
  setjmp(start);
  free(malloc(8));  // NO: twice calls setjmp
  if (rank == 2 && jumps++ == 0) longjmp(start, 1);
}

/// Only rank 0 reads an option.
static void options(int argc, char** argv, int rank) {
  if (rank == 0) getopt(argc, argv, "n:");
  free(malloc((size_t)optind));  // CV from MPI_Comm_rank
}

/// Only rank 1 goes on in the text.
static void words(int rank) {
  char text[] = "1 22 333";
  char* word = strtok(text, " ");
  free(malloc(strlen(word)));  // CU
  if (rank == 1) strtok(NULL, " ");
  word = strtok(NULL, " ");
  free(malloc(word == NULL ? 1 : strlen(word)));  // CV from MPI_Comm_rank
}

static int counter;

static int count(void) { return ++counter; }

static void counted(int rank) {
  count();
  free(malloc((size_t)counter));  // CU
  if (rank == 3) count();
  free(malloc((size_t)counter));  // CV from MPI_Comm_rank
}

typedef struct shape {
  int (*size)(struct shape const*);
  int edge;
} shape;

static int square(shape const* s) { return s->edge * s->edge; }
static int line(shape const* s) { return s->edge; }

/// Objects with functions: the calls do not make the rest of the objects unknown.
static void objects(int rank, int size) {
  shape* const a = malloc(sizeof *a);  // CU
  shape* const b = malloc(sizeof *b);  // CU
  a->size = square;
  a->edge = size;
  b->size = size > 3 ? line : square;
  b->edge = rank + 1;
  free(malloc((size_t)a->size(a)));  // CV: a call through a pointer
  free(malloc((size_t)b->size(b)));  // CV: a call through a pointer
  free(malloc((size_t)a->edge));     // CU
  free(malloc((size_t)b->edge));     // CV from MPI_Comm_rank
  free(a);
  free(b);
}

static void set(int* where, int value) { *where = value; }
static void (*setter)(int*, int) = set;

static void by_address(int rank) {
  int n = 1;
  setter(&n, rank + 1);
  free(malloc((size_t)n));  // CV
  int m = 1;
  set(&m, 5);
  free(malloc((size_t)m));  // CU
}

static int order(void const* a, void const* b) { return *(int const*)a - *(int const*)b; }

static void sorted(int rank) {
  int values[4] = {3, 1, 2, rank};
  int other = 9;
  qsort(values, 4, sizeof(int), order);
  free(malloc((size_t)values[3] + 1));  // CV from qsort
  free(malloc((size_t)other));          // CU
}

static void swap(int* a, int* b) {
  int const t = *a;
  *a = *b;
  *b = t;
}

static void swapped(int rank) {
  int a = 8, b = rank + 1;
  swap(&a, &b);
  free(malloc((size_t)a));               // CV `rank` from MPI_Comm_rank
  free(malloc((size_t)b));               // CU
  char *p = malloc(8), *q = malloc(16);  // CU
  if (rank == 0) {
    char* const t = p;
    p = q;
    q = t;
  }
  p[0] = 1;
  q[0] = 2;
  free(malloc((size_t)p[0]));  // CV from MPI_Comm_rank
  free(p);
  free(q);
}

static void leave(int depth) {
  if (depth > 1000) {
    MPI_Finalize();
    exit(0);
  }
  if (depth > 0) leave(depth / 2);
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  options(argc, argv, rank);
  words(rank);
  counted(rank);
  objects(rank, size);
  by_address(rank);
  sorted(rank);
  swapped(rank);
  with_jump(rank);
  twice(rank);
  leave(rank);
  free(malloc(8));  // NO by `leave(rank)`
  MPI_Finalize();
  return 0;
}
