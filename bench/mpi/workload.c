// SPDX-License-Identifier: Apache-2.0
// The unit benchmarks of the seed «Coalescing memory allocations for GPU MPI» (its figures 1 to 4), as an MPI program: each rank
// allocates an array of floats, fills it, computes, and frees it.
//
//   mpi/workload/malloc, mpi/workload/free  us: the call, mean over all ranks
//   mpi/workload/gflops                     of the work: the operations of all ranks by the mean time of a rank
//
// The ranks begin each part together. In the seed they did not, so that ranks whose malloc was slow worked while others waited.
//
// usage: workload FLOATS
#include "measure.h"

enum { runs = 20, warm_ups = 2 };

static float linear(float* data, int count) {
  float sum = 0.0f;
  for (int i = 0; i < count; ++i) sum += data[i];
  return data[0] = sum;
}

static float quadratic(float* data, int count) {
  float sum = 0.0f;
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j) sum += data[i] * data[j];
  return data[0] = sum;
}

typedef float work(float* data, int count);

/// Adds the seconds of malloc, the work and free to `times`, as means over all ranks.
static void run(work* compute, float expected, int count, double* times) {
  double own[3], sums[3];
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = MPI_Wtime();
  float* const data = malloc(count * sizeof *data);
  double const allocated = MPI_Wtime();
  require(data != NULL, "malloc");
  for (int i = 0; i < count; ++i) data[i] = (float)(i % 4);
  MPI_Barrier(MPI_COMM_WORLD);  // so that all ranks work at the same time, whatever malloc took
  double const filled = MPI_Wtime();
  float const result = compute(data, count);
  double const computed = MPI_Wtime();
  MPI_Barrier(MPI_COMM_WORLD);
  double const before = MPI_Wtime();
  free(data);
  double const freed = MPI_Wtime();
  require(result == expected, "the work");
  own[0] = allocated - start;
  own[1] = computed - filled;
  own[2] = freed - before;
  MPI_Allreduce(own, sums, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) times[i] = sums[i] / size;
}

static void measure(char const* name, work* compute, int count, double operations) {
  double samples_of[3][runs], times[3], rates[runs];
  float sum = 0.0f;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < count; ++i) sum += (float)(i % 4);
  float const expected = compute == linear ? sum : sum * sum;
  for (int i = 0; i < warm_ups + runs; ++i) {
    run(compute, expected, count, times);
    for (int k = 0; k < 3 && i >= warm_ups; ++k) samples_of[k][i - warm_ups] = times[k];
  }
  if (rank != 0) return;
  char params[160];
  snprintf(params, sizeof params, "\"ranks\":%d,\"malloc\":\"%s\",\"arrays\":\"%s\",\"workload\":\"%s\",\"floats\":%d", size,
           setting("QUARRY_MPI_MALLOC"), setting("QUARRY_ARRAYS"), name, count);
  for (int i = 0; i < runs; ++i) rates[i] = size * operations / samples_of[1][i] * 1e-9;
  print_times("workload/malloc", params, samples_of[0], runs, 1e6, "us");
  print_times("workload/gflops", params, rates, runs, 1.0, "Gflop/s");
  print_times("workload/free", params, samples_of[2], runs, 1e6, "us");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int const count = argc > 1 ? atoi(argv[1]) : 100;
  measure("linear", linear, count, count);
  measure("quadratic", quadratic, count, 2.0 * count * count);
  MPI_Finalize();
  return 0;
}
