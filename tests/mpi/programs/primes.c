// SPDX-License-Identifier: Apache-2.0
// The sieve of Eratosthenes. Each rank sieves an interval; rank 0 broadcasts the small primes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct interval {
  long low, high;  // high is not part of it
  char *is_composite;
};

static int small_primes(int limit, int **found) {
  char composite[limit + 1];
  int count = 0;
  memset(composite, 0, sizeof composite);
  *found = malloc(sizeof(int) * (size_t)(limit + 1));
  for (int i = 2; i <= limit; ++i) {
    if (composite[i]) continue;
    (*found)[count++] = i;
    for (int j = i * i; j <= limit; j += i) composite[j] = 1;
  }
  return count;
}

static void strike_out(struct interval *range, int prime) {
  long multiple = (range->low + prime - 1) / prime * prime;
  if (multiple < (long)prime * prime) multiple = (long)prime * prime;
  for (; multiple < range->high; multiple += prime) range->is_composite[multiple - range->low] = 1;
}

int main(int argc, char **argv) {
  int rank, size, count = 0, *small = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long const limit = argc > 1 ? atol(argv[1]) : 20000;
  int root = 1;
  while ((long)root * root < limit) ++root;

  if (rank == 0) count = small_primes(root, &small);
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  small = realloc(small, sizeof(int) * (size_t)count);
  MPI_Bcast(small, count, MPI_INT, 0, MPI_COMM_WORLD);

  struct interval own;
  own.low = 2 + (limit - 2) * rank / size;
  own.high = 2 + (limit - 2) * (rank + 1) / size;
  own.is_composite = calloc((size_t)(own.high - own.low), 1);
  for (int i = 0; i < count; ++i) strike_out(&own, small[i]);

  long primes = 0, first = 0, last = 0, twins = 0;
  for (long n = own.low; n < own.high; ++n) {
    if (own.is_composite[n - own.low]) continue;
    if (first == 0) first = n;
    if (last != 0 && n - last == 2) ++twins;
    last = n;
    ++primes;
  }
  // Twins may lie on both sides of a border. A rank without primes passes on what it got.
  long last_before = 0;
  if (rank > 0)
    MPI_Recv(&last_before, 1, MPI_LONG, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (first != 0 && first - last_before == 2 && last_before != 0) ++twins;
  if (last == 0) last = last_before;
  if (rank + 1 < size) MPI_Send(&last, 1, MPI_LONG, rank + 1, 5, MPI_COMM_WORLD);

  long before, counts[2] = {primes, twins}, all[2];
  MPI_Scan(&primes, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(counts, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  printf("up to %6ld: %5ld primes\n", own.high - 1, before);
  if (rank == size - 1)
    printf("below %ld: %ld primes, %ld pairs of twins, the last prime is %ld\n", limit, all[0],
           all[1], last);
  free(own.is_composite);
  free(small);
  MPI_Finalize();
  return 0;
}
