// SPDX-License-Identifier: Apache-2.0
// mpi/allreduce/time  us: an MPI_Allreduce of a double with MPI_SUM, in a loop that checks the sum,
// on rank 0
#include "measure.h"

static int rank, size;

static double allreduce(int steps) {
  double const sum_of_ranks = 0.5 * size * (size - 1.0);
  int wrong = 0;
  double const start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    double const own = rank + step;
    double sum;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != sum_of_ranks + (double)size * step;
  }
  double const seconds = (MPI_Wtime() - start) / steps;
  require(wrong == 0, "a sum");
  return seconds;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double times[samples];
  char params[40];
  allreduce(3);
  int const steps = steps_of_sample(allreduce(5));
  allreduce(steps);
  for (int sample = 0; sample < samples; ++sample) times[sample] = allreduce(steps);
  if (rank == 0) {
    snprintf(params, sizeof params, "\"ranks\":%d,\"bytes\":8", size);
    print_times("allreduce/time", params, times, samples, 1e6, "us");
  }
  MPI_Finalize();
  return 0;
}
