/* SPDX-License-Identifier: Apache-2.0 */
/* A rank needs about 24 KB of stack, as in molecular dynamics codes: three arrays, each smaller than what the
   compiler moves to the heap. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1000 };

static void fill(double *values, int seed) {
  for (int i = 0; i < COUNT; ++i) values[i] = (seed * 31 + i * 7) % 1000;
}

__attribute__((noinline)) static double work(int rank) {
  double a[COUNT], b[COUNT], c[COUNT];
  fill(a, rank);
  fill(b, rank + 1);
  for (int i = 0; i < COUNT; ++i) c[(i * 17 + rank) % COUNT] = a[i] - b[COUNT - 1 - i];
  double sum = 0;
  for (int i = 0; i < COUNT; ++i) sum += c[i] * a[(i + rank) % COUNT];
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double own = work(rank), sum = 0;
  MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: %.0f\n", size, sum);
  MPI_Finalize();
  return 0;
}
