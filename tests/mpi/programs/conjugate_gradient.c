// SPDX-License-Identifier: Apache-2.0
// Conjugate gradient for Poisson's equation on a square, with a sparse matrix in rows.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { side = 12, unknowns = side * side };

typedef struct {
  int rows, entries;
  int *starts, *columns;
  double *values;
} matrix;

static MPI_Comm world_copy;

static void append(matrix *a, int column, double value) {
  a->columns[a->entries] = column;
  a->values[a->entries++] = value;
}

static matrix make_rows(int first, int count) {
  matrix a = {count, 0, NULL, NULL, NULL};
  a.starts = malloc(sizeof(int) * (size_t)(count + 1));
  a.columns = malloc(sizeof(int) * 5 * (size_t)count);
  a.values = malloc(sizeof(double) * 5 * (size_t)count);
  for (int i = 0; i < count; ++i) {
    int const row = first + i, x = row % side, y = row / side;
    a.starts[i] = a.entries;
    if (y > 0) append(&a, row - side, -1.0);
    if (x > 0) append(&a, row - 1, -1.0);
    append(&a, row, 4.0);
    if (x < side - 1) append(&a, row + 1, -1.0);
    if (y < side - 1) append(&a, row + side, -1.0);
  }
  a.starts[count] = a.entries;
  return a;
}

static double dot(const double *x, const double *y, int count) {
  double own = 0.0, all;
  for (int i = 0; i < count; ++i) own += x[i] * y[i];
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, world_copy);
  return all;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world_copy);
  MPI_Comm_rank(world_copy, &rank);
  MPI_Comm_size(world_copy, &size);
  int counts[size], offsets[size];
  for (int i = 0; i < size; ++i) {
    offsets[i] = unknowns * i / size;
    counts[i] = unknowns * (i + 1) / size - offsets[i];
  }
  int const count = counts[rank], first = offsets[rank];
  matrix a = make_rows(first, count);
  size_t const bytes = sizeof(double) * (size_t)(count > 0 ? count : 1);
  double *x = malloc(bytes), *residual = malloc(bytes), *product = malloc(bytes);
  double direction[unknowns];  // of all ranks
  for (int i = 0; i < count; ++i) {
    x[i] = 0.0;
    residual[i] = 1.0 / ((side + 1) * (side + 1));
    direction[first + i] = residual[i];
  }
  double squared = dot(residual, residual, count);
  int iteration = 0;
  for (; iteration < 200 && sqrt(squared) > 1e-10; ++iteration) {
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, direction, counts, offsets, MPI_DOUBLE,
                   world_copy);
    for (int i = 0; i < count; ++i) {
      product[i] = 0.0;
      for (int k = a.starts[i]; k < a.starts[i + 1]; ++k)
        product[i] += a.values[k] * direction[a.columns[k]];
    }
    double const alpha = squared / dot(direction + first, product, count);
    for (int i = 0; i < count; ++i) {
      x[i] += alpha * direction[first + i];
      residual[i] -= alpha * product[i];
    }
    double const next = dot(residual, residual, count);
    for (int i = 0; i < count; ++i)
      direction[first + i] = residual[i] + next / squared * direction[first + i];
    squared = next;
  }
  if (rank == 0) printf("converged: %s\n", iteration < 60 ? "yes" : "no");
  for (int i = 0; i < count; ++i)
    if ((first + i) % (side + 1) == 0) printf("u(%2d) = %.8f\n", (first + i) / (side + 1), x[i]);
  struct {
    double value;
    int where;
  } own = {-1.0, -1}, best;
  for (int i = 0; i < count; ++i)
    if (x[i] > own.value + 1e-9) {
      own.value = x[i];
      own.where = first + i;
    }
  MPI_Reduce(&own, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, 0, world_copy);
  if (rank == 0) printf("largest value %.8f\n", best.value);
  MPI_Comm_free(&world_copy);
  MPI_Finalize();
  return 0;
}
