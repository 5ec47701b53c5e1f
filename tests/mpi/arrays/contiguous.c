// SPDX-License-Identifier: Apache-2.0
// Arrays that quarry-mpicc must leave contiguous, and a part of the reason.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mixed {
  double value;
  int kind;
};

static int* kept;

__attribute__((noinline)) static int last_of(int const* data, int count) { return data[count - 1]; }

static int compare(void const* a, void const* b) { return *(int const*)a - *(int const*)b; }

static int sent(int count, int rank) {
  int* data = calloc(count, sizeof *data);  // contiguous: its address is an argument of MPI_Bcast
  data[1] = rank;
  MPI_Bcast(data, count, MPI_INT, 0, MPI_COMM_WORLD);
  int const sum = data[1] + count;
  free(data);
  return sum;
}

static int passed(int count, int rank) {
  int* data = malloc(count * sizeof *data);  // contiguous: its address is an argument of last_of
  for (int i = 0; i < count; ++i) data[i] = i * rank;
  int const last = last_of(data, count);
  free(data);
  return last;
}

static int sorted(int count, int rank) {
  int* data = malloc(count * sizeof *data);  // contiguous: its address is an argument of qsort
  for (int i = 0; i < count; ++i) data[i] = i * rank % 7;
  qsort(data, count, sizeof *data, compare);
  int const middle = data[count / 2];
  free(data);
  return middle;
}

static void stored(int count, int rank) {
  kept = malloc(count * sizeof *kept);  // contiguous: its address is stored
  for (int i = 0; i < count; ++i) kept[i] = i + rank;
}

static double of_two_widths(int count, int rank) {
  struct mixed* data = malloc(count * sizeof *data);  // contiguous: accesses have
  for (int i = 0; i < count; ++i) data[i].value = i, data[i].kind = rank;
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += data[i].value * data[i].kind;
  free(data);
  return sum;
}

static int as_bytes(int count, int rank) {
  int const step = count > 1000 ? 6 : 4;
  unsigned char* data = malloc(count * 4);  // contiguous: an address may lie inside one
  int sum = 0;
  for (int i = 0; i < count; ++i) *(int*)(data + step * i) = i * rank;
  for (int i = 0; i < count; ++i) sum += *(int*)(data + step * i);
  free(data);
  return sum;
}

static int as_number(int count, int rank) {
  int* data = malloc(count * sizeof *data);  // contiguous: its address is used as a number
  for (int i = 0; i < count; ++i) data[i] = i * rank;
  int* place = data;
  while (*place < 3 * rank) ++place;
  int const distance = (int)(place - data);
  free(data);
  return distance;
}

static int resized(int count, int rank) {
  int* data = malloc(count * sizeof *data);  // contiguous: its address is an argument of realloc
  for (int i = 0; i < count; ++i) data[i] = i + rank;
  data = realloc(data, 2 * count * sizeof *data);
  int const last = data[count - 1];
  free(data);
  return last;
}

static int mixed_with_a_variable(int count, int rank) {
  int own[8] = {rank};
  int* data = malloc(count * sizeof *data);  // contiguous: a variable holds either its address or another
  for (int i = 0; i < count; ++i) data[i] = i;
  int* const either = rank % 3 == 0 ? own : data;
  either[1] = 5;
  for (int i = 0; i < 8; ++i) either[i] += rank;
  int const sum = data[1] + own[1] + either[7];
  free(data);
  return sum;
}

static int moved_within(int count, int rank) {
  int* data = malloc(count * sizeof *data);  // contiguous: elements are moved within it
  for (int i = 0; i < count; ++i) data[i] = i * rank;
  memmove(data, data + 1, (count - 1) * sizeof *data);
  int const first = data[count / 3];
  free(data);
  return first;
}

static int of_some_ranks(int count, int rank) {
  if (rank % 2 == 0) return 0;
  int* data = malloc(count * sizeof *data);
  for (int i = 0; i < count; ++i) data[i] = i + rank;
  int const sum = data[0] + data[count - 1];
  free(data);
  return sum;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int const count = 40 + argc;
  stored(count, rank);
  printf("%d: %d %d %d %d %g %d %d %d %d %d %d\n", rank, sent(count, rank), passed(count, rank), sorted(count, rank), kept[2],
         of_two_widths(count, rank), as_bytes(count, rank), as_number(count, rank), resized(count, rank),
         mixed_with_a_variable(count, rank), moved_within(count, rank), of_some_ranks(count, rank));
  free(kept);
  MPI_Finalize();
  return 0;
}
