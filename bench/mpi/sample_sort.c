// SPDX-License-Identifier: Apache-2.0
// Sample sort of 2^24 random doubles in two exchanges, so that no rank needs memory for all ranks.
// The ranks are a grid. Ranks of a row first exchange keys, so that each column has its part of
// all keys. Then each column sorts its keys by a sample sort of its own.
//
// mpi/sample_sort/time  ms: from keys in place to sorted keys, by the slowest rank. The number of
//                       keys is the same for all numbers of ranks.
//
// usage: sample_sort [KEYS]    (16777216)
#include <stdint.h>
#include <string.h>

#include "measure.h"

enum { samples_per_rank = 16, most_runs = 5 };

static int rank, size, columns;
static MPI_Comm row, column;

static int by_value(void const* a, void const* b) {
  double const x = *(double const*)a, y = *(double const*)b;
  return (x > y) - (x < y);
}

static void* allocate(size_t count, size_t each) {
  void* const memory = malloc(count == 0 ? each : count * each);
  require(memory != NULL, "malloc");
  return memory;
}

static double random_number(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (double)(*state >> 11) / 9007199254740992.0;
}

/// Members of `group` give samples of their sorted keys. Member 0 chooses `parts` - 1 splitters.
static void choose_splitters(MPI_Comm group, double const* keys, int count, double* splitters,
                             int parts) {
  double own[samples_per_rank];
  double* all = NULL;
  int members, member;
  MPI_Comm_size(group, &members);
  MPI_Comm_rank(group, &member);
  int const total = members * samples_per_rank;
  for (int i = 0; i < samples_per_rank; ++i)
    own[i] = count == 0 ? 0.5 : keys[((long)i * 2 + 1) * count / (2 * samples_per_rank)];
  if (member == 0) all = allocate((size_t)total, sizeof *all);
  MPI_Gather(own, samples_per_rank, MPI_DOUBLE, all, samples_per_rank, MPI_DOUBLE, 0, group);
  if (member == 0) {
    qsort(all, (size_t)total, sizeof *all, by_value);
    for (int i = 1; i < parts; ++i) splitters[i - 1] = all[(long)i * total / parts];
  }
  free(all);
}

/// Sends each member of `group` its part of the sorted keys. Returns the keys that came, sorted.
static double* exchange(MPI_Comm group, double* keys, int* count, double const* splitters) {
  int members, received = 0;
  MPI_Comm_size(group, &members);
  int* const numbers = allocate((size_t)members * 4, sizeof *numbers);
  int *const sent = numbers, *const sent_from = sent + members, *const came = sent_from + members,
             *const came_to = came + members;
  for (int part = 0, i = 0; part < members; ++part) {
    sent_from[part] = i;
    while (i < *count && (part == members - 1 || keys[i] < splitters[part])) ++i;
    sent[part] = i - sent_from[part];
  }
  MPI_Alltoall(sent, 1, MPI_INT, came, 1, MPI_INT, group);
  for (int part = 0; part < members; ++part) {
    came_to[part] = received;
    received += came[part];
  }
  double* const parts = allocate((size_t)received, sizeof *parts);
  MPI_Alltoallv(keys, sent, sent_from, MPI_DOUBLE, parts, came, came_to, MPI_DOUBLE, group);
  qsort(parts, (size_t)received, sizeof *parts, by_value);
  free(numbers);
  free(keys);
  *count = received;
  return parts;
}

/// Sorts the keys of all ranks: first by column of the rank, then by row.
static double* sort(double* keys, int* count) {
  int const rows = size / columns;
  double* const splitters = allocate((size_t)(columns > rows ? columns : rows), sizeof *splitters);
  qsort(keys, (size_t)*count, sizeof *keys, by_value);
  // The keys are random, so the samples of one row stand for all.
  if (rank < columns) choose_splitters(row, keys, *count, splitters, columns);
  MPI_Bcast(splitters, columns - 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  keys = exchange(row, keys, count, splitters);
  choose_splitters(column, keys, *count, splitters, rows);
  MPI_Bcast(splitters, rows - 1, MPI_DOUBLE, 0, column);
  keys = exchange(column, keys, count, splitters);
  free(splitters);
  return keys;
}

/// Keys are in order in each rank, from rank to rank, and have the sum that they had.
static void check(double const* keys, int count, double sum_before, long total) {
  double own[2] = {0.0, count}, all[2], edges[2] = {1.0, 0.0};
  int is_ordered = 1;
  for (int i = 0; i < count; ++i) own[0] += keys[i];
  for (int i = 1; i < count; ++i) is_ordered &= keys[i - 1] <= keys[i];
  if (count > 0) edges[0] = keys[0], edges[1] = keys[count - 1];
  // In the order of keys, the next rank is the next one of the column, or begins the next column.
  int const rows = size / columns, r = rank / columns, c = rank % columns;
  int const place = c * rows + r;
  int const next =
      place + 1 == size ? MPI_PROC_NULL : (place + 1) % rows * columns + (place + 1) / rows;
  int const previous =
      place == 0 ? MPI_PROC_NULL : (place - 1) % rows * columns + (place - 1) / rows;
  double before = 0.0;
  MPI_Sendrecv(&edges[1], 1, MPI_DOUBLE, next, 0, &before, 1, MPI_DOUBLE, previous, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  require(is_ordered && before <= edges[0], "the order of the keys");
  MPI_Allreduce(own, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  require(all[1] == (double)total && fabs(all[0] - sum_before) < 1e-6 * sum_before,
          "the number and the sum of the keys");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long const total = argc > 1 ? atol(argv[1]) : 1 << 24;
  require(total % size == 0, "the number of keys, which the ranks must share evenly");
  for (columns = 1; columns * columns * 4 <= size; columns *= 2) {
  }
  require(size % columns == 0, "the number of ranks, which must be a power of two");
  MPI_Comm_split(MPI_COMM_WORLD, rank / columns, rank, &row);
  MPI_Comm_split(MPI_COMM_WORLD, rank % columns, rank, &column);
  double times[most_runs], sum_before;
  char params[100];
  int runs = most_runs;
  for (int run = -1; run < runs; ++run) {  // the first run warms up
    int count = (int)(total / size);
    double* keys = allocate((size_t)count, sizeof *keys);
    double own = 0.0, seconds, longest;
    uint64_t state = 88172645463325252u + (uint64_t)rank * 1000003u + (uint64_t)(run + 1) * 77773u;
    for (int i = 0; i < 8; ++i) random_number(&state);
    for (int i = 0; i < count; ++i) own += keys[i] = random_number(&state);
    MPI_Allreduce(&own, &sum_before, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = MPI_Wtime();
    keys = sort(keys, &count);
    seconds = MPI_Wtime() - start;
    MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    check(keys, count, sum_before, total);
    free(keys);
    if (run >= 0) times[run] = longest;
    if (longest > 1.0) runs = 1;
  }
  if (rank == 0) {
    snprintf(params, sizeof params, "\"ranks\":%d,\"keys\":%ld", size, total);
    print_times("sample_sort/time", params, times, runs, 1e3, "ms");
  }
  MPI_Comm_free(&row);
  MPI_Comm_free(&column);
  MPI_Finalize();
  return 0;
}
