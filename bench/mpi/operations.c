// SPDX-License-Identifier: Apache-2.0
// The MPI benchmarks of the seed «Coalescing memory allocations for GPU MPI» (its listing 4 and figure 5).
//
//   mpi/operation/time  ms: one operation, the median over all ranks
//
// `alltoall` is MPI_Alltoall. `alltoall by messages` is what GPU MPI's MPI_Alltoall does: a message to each rank, whose memory the
// sender allocates and frees; up to 2,048 are on their way at once.
//
// usage: operations OPERATION DOUBLES [RUNS [WARM_UPS]]      reduce, broadcast, alltoall, messages; at most 11 runs
#include "measure.h"

#include <string.h>

enum { most_runs = 11, most_at_once = 2048 };

static int rank, size, count;

static void reduce(double* a, double* b) { MPI_Reduce(a, b, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }

static void broadcast(double* a, double* b) {
  (void)b;
  MPI_Bcast(a, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void alltoall(double* a, double* b) { MPI_Alltoall(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, MPI_COMM_WORLD); }

/// Each message lies in memory of its own, with a header, until all of its window have arrived.
static void messages(double* a, double* b) {
  int const window = size < most_at_once ? size : most_at_once;
  double** const sent = malloc(window * sizeof *sent);
  MPI_Request* const requests = malloc(window * sizeof *requests);
  double* const received = malloc((count + 2) * sizeof *received);
  for (int first = 0; first < size; first += window) {
    int const past = first + window < size ? first + window : size;
    for (int i = first; i < past; ++i) {
      int const peer = (rank + i) % size;
      double* const message = malloc((count + 2) * sizeof *message);
      require(message != NULL, "malloc");
      message[0] = rank;
      message[1] = count;
      memcpy(message + 2, a + peer * count, count * sizeof *a);
      MPI_Isend(message, count + 2, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &requests[i - first]);
      sent[i - first] = message;
    }
    for (int i = first; i < past; ++i) {
      int const peer = (rank + size - i) % size;
      MPI_Recv(received, count + 2, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      memcpy(b + (int)received[0] * count, received + 2, count * sizeof *b);
    }
    MPI_Waitall(past - first, requests, MPI_STATUSES_IGNORE);
    for (int i = first; i < past; ++i) free(sent[i - first]);
  }
  free(received);
  free(requests);
  free(sent);
}

/// The median of the ranks' times, to a thousandth: no rank collects all times.
static double median_of_ranks(double seconds) {
  double low = 0.0, high;
  MPI_Allreduce(&seconds, &high, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  while (high - low > 0.001 * high) {
    double const middle = 0.5 * (low + high);
    int const is_below = seconds <= middle;
    int below;
    MPI_Allreduce(&is_below, &below, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (2 * below > size) {
      high = middle;
    } else {
      low = middle;
    }
  }
  return high;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char const* const name = argc > 1 ? argv[1] : "alltoall";
  count = argc > 2 ? atoi(argv[2]) : 4;
  int const is_all = name[0] == 'a' || name[0] == 'm';
  int const length = is_all ? count * size : count;
  int const wanted = argc > 3 ? atoi(argv[3]) : most_runs;
  int const runs = wanted < 1 ? 1 : wanted < most_runs ? wanted : most_runs;
  int const warm_ups = argc > 4 ? atoi(argv[4]) : 1;
  double times[most_runs];
  for (int run = 0; run < runs + warm_ups; ++run) {
    double* const a = malloc(length * sizeof *a);
    double* const b = malloc(length * sizeof *b);
    require(a != NULL && b != NULL, "malloc");
    for (int i = 0; i < length; ++i) a[i] = rank + i / count;
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = MPI_Wtime();
    if (name[0] == 'r') reduce(a, b);
    if (name[0] == 'b') broadcast(a, b);
    if (name[0] == 'a') alltoall(a, b);
    if (name[0] == 'm') messages(a, b);
    double const seconds = MPI_Wtime() - start;
    for (int i = 0; is_all && i < size; ++i) require(b[i * count] == i + rank, "alltoall");
    if (name[0] == 'b') require(a[count - 1] == 0.0, "broadcast");
    if (name[0] == 'r' && rank == 0) require(b[0] == 0.5 * size * (size - 1.0), "reduce");
    free(a);
    free(b);
    double const median = median_of_ranks(seconds);
    if (run >= warm_ups) times[run - warm_ups] = median;
  }
  if (rank == 0) {
    char params[160];
    snprintf(params, sizeof params, "\"ranks\":%d,\"malloc\":\"%s\",\"operation\":\"%s\",\"doubles\":%d", size,
             setting("QUARRY_MPI_MALLOC"), name, count);
    print_times("operation/time", params, times, runs, 1e3, "ms");
  }
  MPI_Finalize();
  return 0;
}
