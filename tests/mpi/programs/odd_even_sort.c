// SPDX-License-Identifier: Apache-2.0
// Odd-even transposition sort: neighbours exchange their sorted parts, and each keeps one half.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { part = 13 };

static unsigned random_state;

static int next_number(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)(random_state >> 20);
}

static int compare(const void *a, const void *b) {
  int const x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

/// Keeps the smallest, or the largest, numbers of both sorted parts in `own`.
static void merge(int *own, const int *other, int keeps_smallest) {
  int merged[part];
  if (keeps_smallest) {
    for (int i = 0, a = 0, b = 0; i < part; ++i)
      merged[i] = b == part || (a < part && own[a] <= other[b]) ? own[a++] : other[b++];
  } else {
    for (int i = part - 1, a = part - 1, b = part - 1; i >= 0; --i)
      merged[i] = b < 0 || (a >= 0 && own[a] >= other[b]) ? own[a--] : other[b--];
  }
  memcpy(own, merged, sizeof merged);
}

int main(int argc, char **argv) {
  int rank, size;
  int own[part], other[part];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  random_state = 12345u + 977u * (unsigned)rank;
  for (int i = 0; i < part; ++i) own[i] = next_number();
  qsort(own, part, sizeof own[0], compare);

  for (int phase = 0; phase < size; ++phase) {
    int const peer = (rank + phase) % 2 == 0 ? rank + 1 : rank - 1;
    if (peer < 0 || peer >= size) continue;
    MPI_Sendrecv(own, part, MPI_INT, peer, phase, other, part, MPI_INT, peer, phase, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    merge(own, other, rank < peer);
  }

  char line[part * 8 + 32];
  int length = sprintf(line, "part %2d:", rank);
  for (int i = 0; i < part; ++i) length += sprintf(line + length, " %d", own[i]);
  puts(line);

  int last_of_left = -1;
  MPI_Status status;
  if (rank + 1 < size) MPI_Send(&own[part - 1], 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
  if (rank > 0) MPI_Recv(&last_of_left, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, &status);
  int sorted = last_of_left <= own[0], all_sorted = 0;
  MPI_Reduce(&sorted, &all_sorted, 1, MPI_INT, MPI_LAND, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sorted: %s\n", all_sorted ? "yes" : "no");
  MPI_Finalize();
  return all_sorted || rank != 0 ? 0 : 1;
}
