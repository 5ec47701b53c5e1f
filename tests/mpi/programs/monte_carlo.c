// SPDX-License-Identifier: Apache-2.0
// Monte Carlo: each rank counts darts and throws dice with a random generator of its own.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  uint64_t state, stream;
} generator;

static generator own_generator = {0, 1};
static long histogram[11];  // of the sums of two dice
static int throws = 3000;

static uint32_t next_number(void) {
  own_generator.state = own_generator.state * 6364136223846793005u + own_generator.stream;
  uint32_t const mixed =
      (uint32_t)((own_generator.state ^ (own_generator.state >> 22)) >> 22);
  return mixed ^ (mixed >> 13);
}

static double next_fraction(void) { return next_number() / 4294967296.0; }

static void start_generator(int rank) {
  own_generator.stream = 2u * (uint64_t)rank + 1u;
  own_generator.state = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1);
  for (int i = 0; i < 10; ++i) next_number();
}

/// The larger of two values by its magnitude; an operation of the user.
static void largest_magnitude(void *in, void *inout, int *length, MPI_Datatype *type) {
  const double *a = in;
  double *b = inout;
  (void)type;
  for (int i = 0; i < *length; ++i)
    if (a[i] * a[i] > b[i] * b[i]) b[i] = a[i];
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) throws = atoi(argv[1]);
  start_generator(rank);

  long hits = 0, all_hits;
  for (int i = 0; i < throws; ++i) {
    double const x = next_fraction(), y = next_fraction();
    if (x * x + y * y < 1.0) ++hits;
  }
  for (int i = 0; i < throws; ++i) {
    int const first = (int)(next_number() % 6u), second = (int)(next_number() % 6u);
    ++histogram[first + second];
  }
  double position = 0.0, farthest = 0.0, all_farthest = 0.0;
  for (int i = 0; i < throws; ++i) {
    position += next_number() & 1u ? 1.0 : -1.0;
    if (position * position > farthest * farthest) farthest = position;
  }

  MPI_Op larger;
  MPI_Op_create(largest_magnitude, 1, &larger);
  MPI_Allreduce(&farthest, &all_farthest, 1, MPI_DOUBLE, larger, MPI_COMM_WORLD);
  MPI_Op_free(&larger);
  MPI_Reduce(&hits, &all_hits, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    MPI_Reduce(MPI_IN_PLACE, histogram, 11, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  else
    MPI_Reduce(histogram, NULL, 11, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  printf("rank %d: %ld hits\n", rank, hits);
  if (rank == 0) {
    printf("pi is about %.4f\n", 4.0 * (double)all_hits / ((double)throws * size));
    for (int i = 0; i < 11; ++i) printf("two dice, sum %2d: %ld\n", i + 2, histogram[i]);
    double const magnitude = all_farthest < 0 ? -all_farthest : all_farthest;
    printf("the farthest walk reached distance %.0f\n", magnitude);
  }
  MPI_Finalize();
  return 0;
}
