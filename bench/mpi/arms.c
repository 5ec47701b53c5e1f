// SPDX-License-Identifier: Apache-2.0
// Even and odd ranks allocate an array of floats in two arms of a branch, fill it, and compute. quarry-mpicc makes one call of both
// allocations; with --separate-arms it does not. LLVM then makes one call of the arms «short», which has no class, but not of the arms
// «long», which begin and go on with other code.
//
//   mpi/arms/malloc  us: from the branch to the end of the allocation, mean over all ranks
//   mpi/arms/work    us: the sum of the squares of the array, mean over all ranks. «together»: after the branch; «in arms»: in a second
//                    branch on the same condition, where even and odd ranks of a warp take turns
//
// usage: arms FLOATS COMPILED      what COMPILED says is printed: one call, or two calls
#include "measure.h"

enum { runs = 20, warm_ups = 2, passes = 4 };

static int counts[2];

static float* filled_array(int rank, int count, int is_long, double* seconds) {
  float* data;
  double const start = MPI_Wtime();
  if (!is_long) {
    if (rank % 2 == 0)
      data = malloc(count * sizeof *data);
    else
      data = malloc(count * sizeof *data);
    *seconds = MPI_Wtime() - start;
    require(data != NULL, "malloc");
    for (int i = 0; i < count; ++i) data[i] = (float)(i % 4);
  } else if (rank % 2 == 0) {
    counts[0] += 2;
    data = malloc(count * sizeof *data);
    *seconds = MPI_Wtime() - start;
    require(data != NULL, "malloc");
    for (int i = 0; i < count; ++i) data[i] = (float)(i % 4);
  } else {
    counts[1] += 3;
    data = malloc(count * sizeof *data);
    *seconds = MPI_Wtime() - start;
    require(data != NULL, "malloc");
    for (int i = count; i-- > 0;) data[i] = (float)(i % 4);
  }
  return data;
}

static float squares(float const* data, int count) {
  float sum = 0.0f;
  for (int pass = 0; pass < passes; ++pass)
    for (int i = 0; i < count; ++i) sum += data[i] * data[i];
  return sum;
}

/// Adds the seconds of the allocation and of the work to `times`, as means over all ranks.
static void run(int is_long, int in_arms, float expected, int count, double* times) {
  double own[2], sums[2];
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  float* const data = filled_array(rank, count, is_long, &own[0]);
  MPI_Barrier(MPI_COMM_WORLD);
  double const filled = MPI_Wtime();
  float result = 0.0f;
  if (!in_arms)
    result = squares(data, count);
  else if (rank % 2 == 0)
    result = squares(data, count) + 1.0f;
  else
    result = squares(data, count) + 2.0f;
  double const computed = MPI_Wtime();
  require(result == expected + (in_arms ? 1 + rank % 2 : 0), "the work");
  free(data);
  own[1] = computed - filled;
  MPI_Allreduce(own, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i) times[i] = sums[i] / size;
}

static void measure(int is_long, int in_arms, int count, char const* compiled) {
  double samples_of[2][runs], times[2];
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  float expected = 0.0f;
  for (int i = 0; i < passes * count; ++i) {
    float const value = (float)(i % count % 4);
    expected += value * value;
  }
  for (int i = 0; i < warm_ups + runs; ++i) {
    run(is_long, in_arms, expected, count, times);
    for (int k = 0; k < 2 && i >= warm_ups; ++k) samples_of[k][i - warm_ups] = times[k];
  }
  if (rank != 0) return;
  char params[160];
  snprintf(params, sizeof params,
           "\"ranks\":%d,\"floats\":%d,\"arms\":\"%s\",\"work\":\"%s\",\"compiled\":\"%s\"", size,
           count, is_long ? "long" : "short", in_arms ? "in arms" : "together", compiled);
  print_times("arms/malloc", params, samples_of[0], runs, 1e6, "us");
  print_times("arms/work", params, samples_of[1], runs, 1e6, "us");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int const count = argc > 1 ? atoi(argv[1]) : 100;
  char const* const compiled = argc > 2 ? argv[2] : "unknown";
  for (int i = 0; i < 4; ++i) measure(i / 2, i % 2, count, compiled);
  require(counts[0] % 2 == 0 && counts[1] % 3 == 0, "counts");  // so that the stores stay
  MPI_Finalize();
  return 0;
}
