// SPDX-License-Identifier: Apache-2.0
// A collective operation for messages of 8 B up to what fits in memory.
//
// mpi/collectives/time       us: an operation in a loop without other work, by the slowest rank
// mpi/collectives/bandwidth  GB/s: the bytes that memory must at least move, divided by this time
//
// bytes: of the message. For an all-to-all, this is the message from one rank to another one.
// The bytes that memory must move, for P ranks and B bytes:
//   bcast      P B        each rank's buffer is written; the root's buffer is read once
//   allreduce  2 P B      each rank's operand is read, and each result is written
//   alltoall   2 P P B    each message is read once and written once
//
// usage: collectives OPERATION [GIB]    bcast, allreduce, alltoall; the buffers of all ranks
//                                       together take at most GIB GiB (16)
#include <string.h>

#include "measure.h"

typedef enum { bcast, allreduce, alltoall, operations } operation;

enum { smallest = 8, growth = 8, largest = 64 << 20 };

static double const slow_seconds = 0.1, very_slow_seconds = 0.4;
static char const* const names[operations] = {"bcast", "allreduce", "alltoall"};
static int rank, size;

static double* allocate(double bytes) {
  double* const memory = malloc((size_t)bytes);
  require(memory != NULL, "malloc");
  return memory;
}

/// The seconds of an operation, by the slowest rank. Right in all ranks.
static double run(operation which, double* sent, double* received, int count, int steps) {
  double seconds, longest;
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    if (which == bcast) MPI_Bcast(received, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (which == allreduce)
      MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (which == alltoall)
      MPI_Alltoall(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD);
  }
  seconds = (MPI_Wtime() - start) / steps;
  MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

/// The operands. They are integers, so that sums are exact.
static void prepare(operation which, double* sent, double* received, int count) {
  size_t const all = which == alltoall ? (size_t)count * size : (size_t)count;
  for (size_t i = 0; i < all; ++i) {
    if (which == bcast) received[i] = rank == 0 ? (double)(i % 1021) + 1.0 : 0.0;
    if (which == allreduce) sent[i] = (double)(i % 1021) + rank % 16;
    if (which == alltoall) sent[i] = (double)rank * 4.0 + (double)(i / (size_t)count) * 0.25;
  }
}

static int is_right(operation which, double const* received, int count) {
  int const stride = count / 64 + 1;
  double sum_of_ranks = 0.0;
  for (int i = 0; i < size; ++i) sum_of_ranks += i % 16;
  for (int i = 0; i < count && which != alltoall; i += stride) {
    double const own = (double)(i % 1021);
    if (received[i] != (which == bcast ? own + 1.0 : own * size + sum_of_ranks)) return 0;
  }
  for (int peer = 0; peer < size && which == alltoall; ++peer)
    if (received[(size_t)peer * count + count - 1] != peer * 4.0 + rank * 0.25) return 0;
  return 1;
}

/// Measures messages of `bytes`. Returns the seconds of an operation.
static double measure(operation which, int bytes, double own_bytes, double moved) {
  int const count = bytes / (int)sizeof(double);
  double* const sent = which == bcast ? NULL : allocate(own_bytes);
  double* const received = allocate(own_bytes);
  double times[samples];
  char params[100];
  prepare(which, sent, received, count);
  run(which, sent, received, count, 1);
  double const first = run(which, sent, received, count, 1);
  int const steps = steps_of_sample(first);
  int const runs = first > very_slow_seconds ? 3 : first > slow_seconds ? fewest_samples : samples;
  if (steps > 1) run(which, sent, received, count, steps);
  for (int sample = 0; sample < runs; ++sample)
    times[sample] = run(which, sent, received, count, steps);
  require(is_right(which, received, count), names[which]);
  free(sent);
  free(received);
  if (rank != 0) return first;
  snprintf(params, sizeof params, "\"ranks\":%d,\"bytes\":%d,\"operation\":\"%s\"", size, bytes,
           names[which]);
  print_times("collectives/time", params, times, runs, 1e6, "us");
  for (int sample = 0; sample < runs; ++sample) times[sample] = moved / (times[sample] * 1e-6);
  print_times("collectives/bandwidth", params, times, runs, 1e-9, "GB/s");
  return first;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  operation which = operations;
  for (int i = 0; i < operations && argc > 1; ++i)
    if (strcmp(argv[1], names[i]) == 0) which = (operation)i;
  require(which != operations, "the operation, which must be bcast, allreduce or alltoall");
  double const limit = (argc > 2 ? atof(argv[2]) : 16.0) * 1073741824.0;
  for (int bytes = smallest; bytes <= largest; bytes *= growth) {
    double const own = which == alltoall ? (double)bytes * size : bytes;
    double const buffers = which == bcast ? own * size : 2.0 * own * size;
    if (buffers > limit || own / sizeof(double) > 2147483647.0) break;
    double const seconds = measure(which, bytes, own, buffers);
    if (seconds > slow_seconds) break;  // a message of the next size takes several seconds
  }
  MPI_Finalize();
  return 0;
}
