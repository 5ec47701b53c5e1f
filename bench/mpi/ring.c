// SPDX-License-Identifier: Apache-2.0
// A token of 8 bytes, a local variable, travels around all ranks with MPI_Send and MPI_Recv. Each
// rank adds 1 to it.
//
// mpi/ring/hop  us: from a rank to the next; the time of a lap on rank 0, divided by the ranks. A lap
//               of more than a second is the only sample.
#include "measure.h"

static int rank, size;

/// The seconds of a hop, as the mean of `laps`.
static double hop(int laps) {
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  long token = 0;
  double const start = MPI_Wtime();
  for (int lap = 0; lap < laps; ++lap) {
    if (rank != 0) MPI_Recv(&token, 1, MPI_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ++token;
    MPI_Send(&token, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(&token, 1, MPI_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  double const seconds = MPI_Wtime() - start;
  if (rank == 0) require(token == (long)laps * size, "the token after the last lap");
  return seconds / laps / size;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  require(size > 1, "the number of ranks, which must be above 1");
  double times[samples];
  char params[40];
  hop(1);
  double const first = hop(1), lap_seconds = first * size;
  int const laps = steps_of_sample(lap_seconds);
  int count = lap_seconds > 1.0 ? 1 : lap_seconds > 0.1 ? fewest_samples : samples;
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (laps > 1) hop(laps);
  times[0] = first;
  for (int sample = 0; sample < count && count > 1; ++sample) times[sample] = hop(laps);
  if (rank == 0) {
    snprintf(params, sizeof params, "\"ranks\":%d", size);
    print_times("ring/hop", params, times, count, 1e6, "us");
  }
  MPI_Finalize();
  return 0;
}
