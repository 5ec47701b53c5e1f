// SPDX-License-Identifier: Apache-2.0
// Two ranks send a message to and fro with MPI_Send and MPI_Recv.
//
// mpi/ping_pong/round_trip  us: to and fro
// mpi/ping_pong/bandwidth   GB/s: the bytes of the message divided by half of the round trip
//
// buffer: "heap" is memory of malloc, "stack" a local variable, "large local" one above
// 8 KiB, which quarry-mpicc puts into the heap.
#include "measure.h"

#include <string.h>

enum { forth_tag = 1, back_tag = 2, largest = 64 << 20, stride_of_check = 4093 };

static int rank;

/// The seconds of a round trip, as the mean of `steps`. Rank 0 sends `out` and receives into `in`.
/// Rank 1 returns what comes into `in`.
static double round_trip(char const* out, char* in, int bytes, int steps) {
  double const start = MPI_Wtime();
  if (rank == 0) {
    for (int step = 0; step < steps; ++step) {
      MPI_Send(out, bytes, MPI_BYTE, 1, forth_tag, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_BYTE, 1, back_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else {
    for (int step = 0; step < steps; ++step) {
      MPI_Recv(in, bytes, MPI_BYTE, 0, forth_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(in, bytes, MPI_BYTE, 0, back_tag, MPI_COMM_WORLD);
    }
  }
  return (MPI_Wtime() - start) / steps;
}

/// Fills the message of a sample, and clears the answer, at some places and both ends.
static void prepare(char* out, char* in, int bytes, int sample) {
  for (int i = 0; i < bytes; i += stride_of_check) {
    out[i] = (char)(i / stride_of_check + sample + 1);
    in[i] = 0;
  }
  out[bytes - 1] = (char)(sample + 1);
  in[bytes - 1] = 0;
}

static int is_equal(char const* out, char const* in, int bytes) {
  for (int i = 0; i < bytes; i += stride_of_check)
    if (out[i] != in[i]) return 0;
  return out[bytes - 1] == in[bytes - 1];
}

static void measure(char* out, char* in, int bytes, char const* buffer) {
  double times[samples];
  char params[100];
  prepare(out, in, bytes, 0);
  round_trip(out, in, bytes, 2);
  int const steps = steps_of_sample(round_trip(out, in, bytes, 4));
  round_trip(out, in, bytes, steps);
  for (int sample = 0; sample < samples; ++sample) {
    prepare(out, in, bytes, sample);
    times[sample] = round_trip(out, in, bytes, steps);
    if (rank == 0) require(is_equal(out, in, bytes), "the message that came back");
  }
  if (rank != 0) return;
  snprintf(params, sizeof params, "\"ranks\":2,\"bytes\":%d,\"buffer\":\"%s\"", bytes, buffer);
  print_times("ping_pong/round_trip", params, times, samples, 1e6, "us");
  for (int sample = 0; sample < samples; ++sample)
    times[sample] = bytes / (times[sample] * 1e-6 / 2.0);
  print_times("ping_pong/bandwidth", params, times, samples, 1e-9, "GB/s");
}

#define MEASURE_LOCAL(BYTES, BUFFER)        \
  static void measure_local_##BYTES(void) { \
    char out[BYTES], in[BYTES];             \
    memset(out, 1, sizeof out);             \
    memset(in, 0, sizeof in);               \
    measure(out, in, BYTES, BUFFER);        \
  }
MEASURE_LOCAL(8, "stack")
MEASURE_LOCAL(64, "stack")
MEASURE_LOCAL(512, "stack")
MEASURE_LOCAL(4096, "stack")
MEASURE_LOCAL(65536, "large local")
MEASURE_LOCAL(1048576, "large local")

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  require(size == 2, "the number of ranks, which must be 2");
  char *const out = malloc(largest), *const in = malloc(largest);
  require(out != NULL && in != NULL, "malloc");
  static int const sizes[] = {8, 64, 512, 4096, 32768, 262144, 1048576, 4194304, 16777216, largest};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; ++i) measure(out, in, sizes[i], "heap");
  measure_local_8();
  measure_local_64();
  measure_local_512();
  measure_local_4096();
  measure_local_65536();
  measure_local_1048576();
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
