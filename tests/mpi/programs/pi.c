// SPDX-License-Identifier: Apache-2.0
// Integrates 4 / (1 + x^2) over [0, 1] by the midpoint rule, with several integrands behind pointers.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef double (*integrand)(double);

typedef struct {
  const char *name;
  integrand function;
  double low, high;
} problem;

static int calls;  // of the integrands, on this rank

static double quarter_circle(double x) {
  ++calls;
  return 4.0 / (1.0 + x * x);
}

static double half_circle(double x) {
  ++calls;
  return 2.0 * sqrt(1.0 - x * x);
}

static const problem problems[] = {
    {"arc tangent", quarter_circle, 0.0, 1.0},
    {"half circle", half_circle, -1.0, 1.0},
};

static double integrate(const problem *p, long steps, int rank, int size) {
  double const width = (p->high - p->low) / (double)steps;
  double sum = 0.0;
  for (long i = rank; i < steps; i += size) sum += p->function(p->low + ((double)i + 0.5) * width);
  return sum * width;
}

int main(int argc, char **argv) {
  int rank, size;
  long steps = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) steps = argc > 1 ? atol(argv[1]) : 2000;
  MPI_Bcast(&steps, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  if (steps <= 0) {
    if (rank == 0) fprintf(stderr, "usage: %s STEPS\n", argv[0]);
    MPI_Finalize();
    return 2;
  }
  double const pi = acos(-1.0);
  for (size_t k = 0; k < sizeof problems / sizeof problems[0]; ++k) {
    double const part = integrate(&problems[k], steps, rank, size);
    double whole = 0.0;
    MPI_Reduce(&part, &whole, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
      printf("%-12s %.8f, error below 0.001: %s\n", problems[k].name, whole,
             fabs(whole - pi) < 0.001 ? "yes" : "no");
  }
  printf("rank %d of %d evaluated %d points\n", rank, size, calls);
  MPI_Finalize();
  return 0;
}
