// SPDX-License-Identifier: Apache-2.0
// All ranks of a ring exchange 8 bytes with their neighbours at once, from and to static variables.
//
// usage: neighbours [long]
//
// mpi/neighbours/time  us: a step, by the rank that takes longest; some milliseconds of steps
//                      behind a barrier
// mpi/neighbours/long  us: the same, 1,000 steps behind a barrier, in which the ranks that share a
//                      warp of a GPU may come apart and run one after another
//
// calls: "sendrecv" is MPI_Sendrecv, once a direction; "isend" is MPI_Irecv and MPI_Isend for
// each direction, then MPI_Waitall.
// directions: 1 sends to the right and receives from the left; 2 also does the reverse.
#include "measure.h"

#include <string.h>

enum { long_steps = 1000 };

static int rank, size;
static long out[2], in[2];  // to and from: right and left, left and right
static MPI_Request requests[4];

static void sendrecv(int directions, int const neighbours[2]) {
  for (int d = 0; d < directions; ++d)
    MPI_Sendrecv(&out[d], 1, MPI_LONG, neighbours[d], d, &in[d], 1, MPI_LONG, neighbours[1 - d], d,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void isend(int directions, int const neighbours[2]) {
  for (int d = 0; d < directions; ++d)
    MPI_Irecv(&in[d], 1, MPI_LONG, neighbours[1 - d], d, MPI_COMM_WORLD, &requests[d]);
  for (int d = 0; d < directions; ++d)
    MPI_Isend(&out[d], 1, MPI_LONG, neighbours[d], d, MPI_COMM_WORLD, &requests[directions + d]);
  MPI_Waitall(2 * directions, requests, MPI_STATUSES_IGNORE);
}

/// The seconds of a step on the slowest rank. The result is right on rank 0 only.
static double exchange(int is_sendrecv, int directions, int steps) {
  int const neighbours[2] = {(rank + 1) % size, (rank + size - 1) % size};
  double seconds, longest = 0.0;
  int wrong = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    out[0] = out[1] = (long)rank * 20011 + step;
    if (is_sendrecv)
      sendrecv(directions, neighbours);
    else
      isend(directions, neighbours);
    for (int d = 0; d < directions; ++d) wrong += in[d] != (long)neighbours[1 - d] * 20011 + step;
  }
  seconds = (MPI_Wtime() - start) / steps;
  require(wrong == 0, "a number of a neighbour");
  MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  return longest;
}

static void measure(int is_sendrecv, int directions, int is_long) {
  double times[samples];
  char params[100];
  int const count = is_long ? fewest_samples : samples;
  exchange(is_sendrecv, directions, 3);
  double const seconds = exchange(is_sendrecv, directions, 5);
  int const steps = is_long ? long_steps : steps_of_sample(seconds);
  if (!is_long) exchange(is_sendrecv, directions, steps);
  for (int sample = 0; sample < count; ++sample)
    times[sample] = exchange(is_sendrecv, directions, steps);
  if (rank != 0) return;
  snprintf(params, sizeof params, "\"ranks\":%d,\"bytes\":8,\"calls\":\"%s\",\"directions\":%d",
           size, is_sendrecv ? "sendrecv" : "isend", directions);
  print_times(is_long ? "neighbours/long" : "neighbours/time", params, times, count, 1e6, "us");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const is_long = argc > 1 && strcmp(argv[1], "long") == 0;
  for (int is_sendrecv = 1; is_sendrecv >= 0; --is_sendrecv)
    for (int directions = 1; directions <= 2; ++directions)
      measure(is_sendrecv, directions, is_long);
  MPI_Finalize();
  return 0;
}
