// SPDX-License-Identifier: Apache-2.0
// Cannon's matrix product on a square grid of ranks, with a communicator for each row and column.
// usage: cannon [ORDER]: a multiple of the grid's side
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int order = 24;

static double a_at(int i, int j) { return (double)((i * 7 + j * 3) % 11) - 5.0; }
static double b_at(int i, int j) { return (double)((i * 5 + j * 2) % 13) - 6.0; }

typedef double (*entry)(int, int);

static double *make_block(int n, int row, int column, entry at) {
  double *const block = malloc(sizeof *block * (size_t)(n * n));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) block[i * n + j] = at(row * n + i, column * n + j);
  return block;
}

static void multiply_add(int n, const double *a, const double *b, double *c) {
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

/// Shifts the block by `distance` ranks to the left, or upwards.
static void shift(double *block, int count, int distance, MPI_Comm line) {
  int place, length;
  MPI_Comm_rank(line, &place);
  MPI_Comm_size(line, &length);
  int const to = (place - distance + length) % length, from = (place + distance) % length;
  MPI_Sendrecv_replace(block, count, MPI_DOUBLE, to, 7, from, 7, line, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int rank, size, side = 1;
  MPI_Comm row_line, column_line;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) order = atoi(argv[1]);
  while (side * side < size) ++side;
  if (side * side != size || order % side != 0) {
    if (rank == 0) fprintf(stderr, "the number of ranks must be a square\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int const row = rank / side, column = rank % side, n = order / side;
  MPI_Comm_split(MPI_COMM_WORLD, row, column, &row_line);
  MPI_Comm_split(MPI_COMM_WORLD, column, row, &column_line);
  double *const a = make_block(n, row, column, a_at);
  double *const b = make_block(n, row, column, b_at);
  double *const c = calloc((size_t)(n * n), sizeof *c);
  shift(a, n * n, row, row_line);
  shift(b, n * n, column, column_line);
  for (int step = 0; step < side; ++step) {
    multiply_add(n, a, b, c);
    shift(a, n * n, 1, row_line);
    shift(b, n * n, 1, column_line);
  }

  int wrong = 0, all_wrong = 0;
  double trace = 0.0, whole_trace = 0.0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      double expected = 0.0;
      for (int k = 0; k < order; ++k) expected += a_at(row * n + i, k) * b_at(k, column * n + j);
      if (c[i * n + j] != expected) ++wrong;  // all are integers: the sums are exact
      if (row * n + i == column * n + j) trace += c[i * n + j];
    }
  double corner = c[0];
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&trace, &whole_trace, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(&corner, 1, MPI_DOUBLE, 0, row_line);
  for (int i = 0; i < n; ++i)
    printf("entry (%02d, %02d) = %g\n", row * n + i, column * n, c[i * n]);
  printf("rank %d: the first block of its row begins with %g\n", rank, corner);
  if (rank == 0) printf("%d wrong entries, trace %g\n", all_wrong, whole_trace);
  MPI_Comm_free(&row_line);
  MPI_Comm_free(&column_line);
  free(a);
  free(b);
  free(c);
  MPI_Finalize();
  return all_wrong != 0;
}
