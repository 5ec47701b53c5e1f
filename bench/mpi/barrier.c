// SPDX-License-Identifier: Apache-2.0
// mpi/barrier/time  us: an MPI_Barrier of all ranks, in a loop without other work, on rank 0
#include "measure.h"

static double barrier(int steps) {
  double const start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) MPI_Barrier(MPI_COMM_WORLD);
  return (MPI_Wtime() - start) / steps;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double times[samples];
  char params[40];
  barrier(3);
  int const steps = steps_of_sample(barrier(5));
  barrier(steps);
  for (int sample = 0; sample < samples; ++sample) times[sample] = barrier(steps);
  if (rank == 0) {
    snprintf(params, sizeof params, "\"ranks\":%d", size);
    print_times("barrier/time", params, times, samples, 1e6, "us");
  }
  MPI_Finalize();
  return 0;
}
