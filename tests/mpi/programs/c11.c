// SPDX-License-Identifier: Apache-2.0
// The language: what C99 and C11 added, recursion, function pointers, and large local arrays.
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(int) == 4, "MPI_INT has four bytes");

#define KIND(x)         \
  _Generic((x),         \
      int: "int",       \
      long: "long",     \
      double: "double", \
      float: "float",   \
      char*: "text",    \
      default: "other")

typedef struct {
  enum { CIRCLE, BOX } shape;
  union {
    double radius;
    struct {
      double width, height;
    };
  };
} figure;

typedef struct {
  int count;
  alignas(64) double first;
  double rest[];
} row;

static atomic_int calls;
static _Thread_local int own_steps;
static int rank, size;

static inline double area(figure f) {
  return f.shape == CIRCLE ? 3.0 * f.radius * f.radius : f.width * f.height;
}

/// Ackermann's function is deep.
static int ackermann(int m, int n) {
  atomic_fetch_add(&calls, 1);
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

typedef double (*step)(double);
static double twice(double x) { return 2.0 * x; }
static double half(double x) { return x / 2.0; }
static double next(double x) { return x + 1.0; }
static step choose(int i) { return (step const[]){twice, half, next}[i % 3]; }

/// 100 KB of locals, of which another function gets the address.
static void fill(long n, long* values) {
  for (long i = 0; i < n; ++i) values[i] = (i * 13 + rank) % 1009;
}
static long large_locals(int depth) {
  long values[12800];
  fill(12800, values);
  long sum = 0;
  for (int i = 0; i < 12800; i += 100 + rank) sum += values[i];
  return depth == 0 ? sum : sum + large_locals(depth - 1);
}

static int depth_of(int n) {
  char volatile kept[64];
  kept[n % 64] = (char)n;
  return n == 0 ? 0 : depth_of(n - 1) + (kept[n % 64] == (char)n);
}

static double vla(int n) {
  double matrix[n][n + 1];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= n; ++j) matrix[i][j] = i * j + rank;
  double sum = 0.0;
  for (int i = 0; i < n; ++i) sum += matrix[i][n - i];
  return sum + (double)(sizeof matrix / sizeof matrix[0]);
}

static void complexes(void) {
  double complex const z = rank + 1.0 + 2.0 * I, w = cexp(I * M_PI / 6.0);
  double complex const own[2] = {z * w, conj(z) / w};
  double complex all[2];
  MPI_Allreduce(own, all, 2, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
  float complex const f = 3.0f - 4.0f * I;
  printf("rank %d: |z| %.9f, arg %.9f, sqrt %.9f %+.9f\n", rank, cabs(z), carg(z), creal(csqrt(z)),
         cimag(csqrt(z)));
  printf("rank %d: sums %.9f %+.9f, %.9f %+.9f; %.1f\n", rank, creal(all[0]), cimag(all[0]),
         creal(all[1]), cimag(all[1]), cabsf(f));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("rank %d: %s %s %s %s %s %s\n", rank, KIND(rank), KIND(1.0), KIND(1.0f), KIND(argv[0]),
         KIND(1l), KIND(&rank));
  figure const figures[] = {{.shape = CIRCLE, .radius = rank}, {BOX, {.width = 2, .height = rank}}};
  row* const r = aligned_alloc(64, 1024);
  r->count = 4;
  for (int i = 0; i < r->count; ++i) r->rest[i] = i + area(figures[i % 2]);
  printf("rank %d: areas %g, rest %g, aligned %d, offset %zu\n", rank, area(figures[0]), r->rest[3],
         (int)((uintptr_t)&r->first % 64), offsetof(row, first));
  free(r);
  int const deep = ackermann(2, 3 + rank % 3);
  printf("rank %d: %d after %d calls, depth %d\n", rank, deep, atomic_load(&calls), depth_of(100));
  double x = rank;
  for (int i = 0; i < 7; ++i) x = choose(rank + i)(x);
  own_steps += rank;
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d: chosen %g, own %d, locals %ld, array %g\n", rank, x, own_steps, large_locals(2),
         vla(5 + rank));
  complexes();
  bool const is_last = rank == size - 1;
  int64_t const wide = INT64_C(1) << (40 + rank % 8);
  printf("rank %d: %d %lld %s %d\n", rank, is_last, (long long)wide, __func__,
         (int)strlen(u8"\u00e4") + (int)sizeof(L'x'));
  MPI_Finalize();
  return 0;
}
