// SPDX-License-Identifier: Apache-2.0
// Sample sort: splitters from samples of all ranks, then one exchange of everything.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { samples_per_rank = 8 };

static int by_value(const void *a, const void *b) {
  double const x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double random_number(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (double)(*state >> 11) / 9007199254740992.0;
}

static void *allocate(size_t count, size_t size) {
  void *const memory = malloc(count == 0 ? size : count * size);
  if (memory == NULL) {
    fprintf(stderr, "no memory for %lu elements\n", (unsigned long)count);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return memory;
}

static int sum(const int *counts, int *offsets, int size) {
  int total = 0;
  for (int i = 0; i < size; ++i) {
    offsets[i] = total;
    total += counts[i];
  }
  return total;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const count = 100 + 10 * rank;  // ranks have different numbers of elements
  uint64_t state = 88172645463325252u + (uint64_t)rank * 1000003u;
  double *const own = allocate((size_t)count, sizeof *own);
  double own_sum = 0.0;
  for (int i = 0; i < count; ++i) own_sum += own[i] = random_number(&state);
  qsort(own, (size_t)count, sizeof *own, by_value);

  double samples[samples_per_rank];
  for (int i = 0; i < samples_per_rank; ++i) samples[i] = own[i * count / samples_per_rank];
  double *const all_samples = allocate((size_t)size * samples_per_rank, sizeof *all_samples);
  MPI_Allgather(samples, samples_per_rank, MPI_DOUBLE, all_samples, samples_per_rank, MPI_DOUBLE,
                MPI_COMM_WORLD);
  qsort(all_samples, (size_t)size * samples_per_rank, sizeof *all_samples, by_value);

  int send_counts[size], send_offsets[size], receive_counts[size], receive_offsets[size];
  for (int bucket = 0, i = 0; bucket < size; ++bucket) {
    send_counts[bucket] = 0;
    while (i < count && (bucket == size - 1 ||
                         own[i] < all_samples[(bucket + 1) * samples_per_rank])) {
      ++send_counts[bucket];
      ++i;
    }
  }
  MPI_Alltoall(send_counts, 1, MPI_INT, receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
  sum(send_counts, send_offsets, size);
  int const received = sum(receive_counts, receive_offsets, size);
  double *const sorted = allocate((size_t)received, sizeof *sorted);
  MPI_Alltoallv(own, send_counts, send_offsets, MPI_DOUBLE, sorted, receive_counts, receive_offsets,
                MPI_DOUBLE, MPI_COMM_WORLD);
  qsort(sorted, (size_t)received, sizeof *sorted, by_value);

  int position = 0;
  MPI_Exscan(&received, &position, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) position = 0;  // MPI_Exscan leaves it undefined on rank 0
  double sorted_sum = 0.0, sums[2];
  for (int i = 0; i < received; ++i) sorted_sum += sorted[i];
  double const both[2] = {own_sum, sorted_sum};
  MPI_Allreduce(both, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (received > 0)
    printf("elements %d to %d: %.9f to %.9f\n", position, position + received - 1, sorted[0],
           sorted[received - 1]);
  if (rank == 0) printf("sum before %.6f, after %.6f\n", sums[0], sums[1]);
  free(own);
  free(all_samples);
  free(sorted);
  MPI_Finalize();
  return 0;
}
