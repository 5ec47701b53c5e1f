// SPDX-License-Identifier: Apache-2.0
// Arrays that quarry-mpicc interleaves on a GPU, with the bytes of an element.
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
  double place[3];
  double mass;
};

static double* zeros(int count) {
  return calloc(count, sizeof(double));  // interleaved 8, interleaved 8
}

static void smooth(double* data, int count) {
  for (int i = 1; i + 1 < count; ++i) data[i] = (data[i - 1] + data[i + 1]) / 2;
}

static double exchanged_in_a_loop(int count, int steps, int rank) {
  double* before = zeros(count);
  double* after = zeros(count);
  before[count / 2] = rank + 1;
  for (int step = 0; step < steps; ++step) {
    for (int i = 1; i + 1 < count; ++i) after[i] = before[i] + before[i - 1] / 2 + before[i + 1] / 4;
    double* const old = before;
    before = after;
    after = old;
  }
  smooth(after, count);
  double const sum = before[1] + after[count / 2];
  free(after);
  free(before);
  return sum;
}

static double of_structures(int count, int rank) {
  struct body* bodies = malloc(count * sizeof *bodies);  // interleaved 8
  if (bodies == NULL) return -1;
  for (int i = 0; i < count; ++i) bodies[i] = (struct body){{i, rank, i * rank}, 1};
  struct body const first = bodies[0];
  bodies[0] = bodies[count - 1];
  bodies[count - 1] = first;
  double sum = 0;
  for (struct body* each = bodies; each < bodies + count; ++each) sum += each->place[2] * each->mass;
  free(bodies);
  return sum;
}

static int of_flags(int count, int rank) {
  bool* is_composite = malloc(count);  // interleaved 1
  memset(is_composite, 0, count);
  for (int i = 2 + rank % 2; i < count; ++i)
    for (int j = 2 * i; j < count && !is_composite[i]; j += i) is_composite[j] = true;
  int primes = 0;
  for (int i = 2; i < count; ++i) primes += !is_composite[i];
  free(is_composite);
  return primes;
}

static int freed_by_some(int count, int rank) {
  int* first = malloc(count * sizeof *first);    // interleaved 4
  int* second = calloc(count, sizeof *second);  // interleaved 4
  for (int i = 0; i < count; ++i) first[i] = i * rank;
  memcpy(second + 1, first, (count - 1) * sizeof *second);
  if (rank % 2 == 0) free(first);
  int sum = 0;
  for (int* last = second + count; last-- > second;) sum = sum * 3 + *last;
  int* const chosen = sum % 2 == 0 ? second : second + 1;
  chosen[2] = sum;
  for (int i = 0; i < count; ++i) sum ^= second[i];
  free(second);
  return sum;
}

static short allocated_in_a_loop(int count, int rank) {
  short sum = 0;
  for (int round = 0; round < 4; ++round) {
    short* values = malloc(count * sizeof *values);  // interleaved 2
    for (int i = 0; i < count; ++i) values[i] = (short)(i + round);
    for (int i = 0; i < count; ++i) sum += values[(i * 7 + rank) % count];
    if (round != 2) free(values);
  }
  return sum;
}

static long of_pointers(int count, int rank) {
  long numbers[4] = {1, 2, 3, rank};
  long** places = malloc(count * sizeof *places);  // interleaved 8
  for (int i = 0; i < count; ++i) places[i] = &numbers[i % 4];
  long sum = 0;
  for (int i = 0; i < count; ++i) sum = sum * 5 + *places[(i + rank) % count];
  free(places);
  return sum;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int const count = 40 + argc;
  printf("%d: %g %g %d %d %d %ld\n", rank, exchanged_in_a_loop(count, 7 + argc, rank), of_structures(count, rank),
         of_flags(count, rank), freed_by_some(count, rank), allocated_in_a_loop(count, rank), of_pointers(count, rank));
  MPI_Finalize();
  return 0;
}
