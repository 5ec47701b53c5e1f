// SPDX-License-Identifier: Apache-2.0
// Reads of private arrays in orders that suit interleaved arrays, and in orders that do not.
//
//   mpi/arrays  Gread/s: the reads of all ranks by the mean time of a rank that reads
//
// ORDER: walk    all ranks read their elements in order
//        apart   in order, from an own first element, so that ranks read other indices at a time
//        random  each rank in a random order of its own
//        single  one rank in 32 walks, the others wait
//
// usage: arrays ORDER DOUBLES
#include "measure.h"

enum { runs = 20, warm_ups = 2, passes = 16 };

static double walk(double const* data, int count, unsigned first) {
  double sum = 0.0;
  for (int pass = 0; pass < passes; ++pass) {
    for (int i = (int)first; i < count; ++i) sum += data[i];
    for (int i = 0; i < (int)first; ++i) sum += data[i];
  }
  return sum;
}

/// `count` is a power of two: then each pass reads every element once.
static double random_order(double const* data, int count, unsigned seed) {
  double sum = 0.0;
  unsigned place = seed;
  for (int i = 0; i < passes * count; ++i) {
    place = place * 1664525u + 1013904223u;
    sum += data[place >> 8 & (unsigned)(count - 1)];
  }
  return sum;
}

/// The seconds that the reads take, as a mean over the ranks that read.
static double run(char order, int count, int rank, double* sum) {
  double* const data = malloc(count * sizeof *data);
  double own = 0.0, total;
  require(data != NULL, "malloc");
  for (int i = 0; i < count; ++i) data[i] = i % 4 + rank % 2;
  int const reads = order != 's' || rank % 32 == 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (reads) {
    double const start = MPI_Wtime();
    *sum = order == 'r' ? random_order(data, count, (unsigned)rank * 7919u)
                        : walk(data, count, order == 'a' ? (unsigned)rank * 37u % (unsigned)count : 0u);
    own = MPI_Wtime() - start;
  }
  free(data);
  MPI_Allreduce(&own, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  char const* const order = argc > 1 ? argv[1] : "walk";
  int const count = argc > 2 ? atoi(argv[2]) : 64;
  int rank, size;
  double rates[runs], sum = 0.0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double const readers = order[0] == 's' ? (size + 31) / 32 : size;
  for (int i = 0; i < warm_ups + runs; ++i) {
    double const seconds = run(order[0], count, rank, &sum) / readers;
    if (i >= warm_ups) rates[i - warm_ups] = readers * count * passes / seconds * 1e-9;
  }
  require(order[0] != 'w' || sum == passes * (count / 4 * 6.0 + count * (rank % 2)), "the sum");
  if (rank == 0) {
    char params[160];
    snprintf(params, sizeof params, "\"ranks\":%d,\"malloc\":\"%s\",\"arrays\":\"%s\",\"order\":\"%s\",\"doubles\":%d", size,
             setting("QUARRY_MPI_MALLOC"), setting("QUARRY_ARRAYS"), order, count);
    print_times("arrays", params, rates, runs, 1.0, "Gread/s");
  }
  MPI_Finalize();
  return 0;
}
