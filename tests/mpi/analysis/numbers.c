// SPDX-License-Identifier: Apache-2.0
// Pointers that a program takes apart: as bytes, as numbers, as text. Where a variable lies differs
// between ranks.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wide[5000];  // larger than the variables that the model follows as values
static long number = (long)wide;
static struct {
  int* first;
  long fourth;
} const places = {wide, (long)&wide[4]};

static void bytes(int rank) {
  int x = 1, y = 2, z = 3;
  int *p = &x, *q = &y;
  for (unsigned i = 0; i < sizeof p; i++) ((char*)&q)[i] = ((char*)&p)[i];
  *q = rank + 1;
  free(malloc((size_t)x));  // CV
  free(malloc((size_t)z));  // CU
}

static void bytes_in_the_heap(int rank) {
  int x = 1;
  int **p = malloc(sizeof *p), **q = malloc(sizeof *q);  // CU
                                                         // CU
  *p = &x;
  for (unsigned i = 0; i < sizeof *p; i++) ((char*)q)[i] = ((char*)p)[i];
  **q = rank + 1;
  free(malloc((size_t)x));  // CV
  free(p);
  free(q);
}

static void halves(int rank) {
  int x = 1;
  uintptr_t const p = (uintptr_t)&x;
  unsigned const parts[2] = {(unsigned)p, (unsigned)(p >> 32)};
  int* q;
  memcpy(&q, parts, sizeof q);
  *q = rank + 1;
  free(malloc((size_t)x));  // CV
}

static void as_double(int rank) {
  union {
    int* p;
    double d;
  } a, b;
  int x = 1;
  a.p = &x;
  double const volatile d = a.d;
  b.d = d;
  *b.p = rank + 1;
  free(malloc((size_t)x));  // CV
}

static void as_number(int argc, int rank) {
  int x = 1, y = 2;
  int* a[8] = {&y, &y, &y, &y, &y, &y, &y, &y};
  *(uintptr_t*)&a[argc] = (uintptr_t)&x;
  *a[argc] = rank + 1;
  free(malloc((size_t)x));  // CV
}

static void constants(int argc) {
  free(malloc(((size_t)wide + 3) / 16 % 61 + 1));             // CV
  free(malloc((size_t)&wide[argc] / 16 % 61 + 1));            // CV
  free(malloc((size_t)number / 16 % 61 + 1));                 // CV
  free(malloc((size_t)(&places)[argc > 9].fourth % 61 + 1));  // CV
}

static void exchanged(int rank) {
  int x = 1, y = 1;
  int *p = NULL, *q = NULL, *expected = NULL;
  __atomic_exchange_n(&p, &x, __ATOMIC_SEQ_CST);
  *p = rank + 1;
  free(malloc((size_t)x));  // CV
  __atomic_compare_exchange_n(&q, &expected, &y, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  *q = rank + 1;
  free(malloc((size_t)y));  // CV
}

static void compared(int rank) {
  int *p = malloc(4), *q = malloc(4 + 4 * (size_t)rank);          // CU
                                                                  // CV `rank` from MPI_Comm_rank
  free(malloc(memcmp(&p, &q, sizeof p) < 0 ? 8 : 16));            // CV
  free(malloc(memcmp("abc", "abd", sizeof "abc") < 0 ? 8 : 16));  // CU
  free(p);
  free(q);
}

static void shown(int size) {
  char address[64], text[64];
  snprintf(address, sizeof address, "%p", (void*)address);
  free(malloc((size_t)strtol(address + 2, NULL, 16) % 61 + 1));  // CV
  snprintf(text, sizeof text, "100%% of %-3d", size);
  free(malloc(strlen(text)));  // CU
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bytes(rank);
  bytes_in_the_heap(rank);
  halves(rank);
  as_double(rank);
  as_number(argc, rank);
  constants(argc);
  exchanged(rank);
  compared(rank);
  shown(size);
  MPI_Finalize();
  return 0;
}
