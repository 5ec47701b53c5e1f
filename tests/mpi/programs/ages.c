// SPDX-License-Identifier: Apache-2.0
// Allocations of changing sizes that live for different times. Ranks allocate, reallocate and free;
// a part of the blocks goes to another rank in a message, which allocates a copy and sends its own
// blocks back. At the end, and each second if SECONDS is given, rank 0 says how much is live and
// how often malloc returned null.
// usage: ages [ROUNDS [SECONDS [BYTES]]]: until both have passed; BYTES: live in each rank, at most
// 65536
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { places = 64 };

typedef struct {
  unsigned char* data;
  long size;
  unsigned char filled;
} block;

static block blocks[places];
static long live, most = 8192, refusals, wrong, calls;
static unsigned long state;
static int rank, size;

static unsigned below(unsigned limit) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return (unsigned)((state >> 33) % limit);
}

/// Sizes up to a share of `most`, which changes every 97 rounds.
static long draw_size(long round) {
  static int const shares[] = {64, 8, 256, 16, 1024, 32};
  return 1 + (long)below((unsigned)(most / shares[round / 97 % 6]));
}

static void check(block const* b) {
  if (b->size > 0) wrong += b->data[0] != b->filled || b->data[b->size - 1] != b->filled;
}

static void discard(block* b) {
  if (b->data == NULL) return;
  check(b);
  free(b->data);
  live -= b->size;
  *b = (block){NULL, 0, 0};
}

static void fill(block* b, unsigned char* data, long new_size) {
  live += new_size - b->size;
  *b = (block){data, new_size, (unsigned char)below(256)};
  memset(data, b->filled, (size_t)new_size);
}

static void allocate(block* b, long new_size) {
  ++calls;
  unsigned char* const data =
      below(8) == 0 ? calloc(1, (size_t)new_size) : malloc((size_t)new_size);
  if (data == NULL) {
    ++refusals;
    return;
  }
  fill(b, data, new_size);
}

static void reallocate(block* b, long new_size) {
  ++calls;
  check(b);
  long const kept = b->size < new_size ? b->size : new_size;
  unsigned char* const data = realloc(b->data, (size_t)new_size);
  if (data == NULL) {
    ++refusals;
    return;
  }
  if (kept > 0) wrong += data[0] != b->filled || data[kept - 1] != b->filled;
  fill(b, data, new_size);
}

/// Gives a block to the next rank and takes one of the rank before.
static void pass_on(block* b, int distance) {
  int const to = (rank + distance) % size, from = (rank + size - distance % size) % size;
  MPI_Request request;
  MPI_Status status;
  int incoming = 0;
  check(b);
  MPI_Isend(b->data, (int)b->size, MPI_BYTE, to, 1, MPI_COMM_WORLD, &request);
  MPI_Probe(from, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &incoming);
  unsigned char* data = malloc((size_t)incoming + 1);
  ++calls;
  if (data == NULL) {
    static unsigned char lost[1 << 16];
    ++refusals;
    MPI_Recv(lost, sizeof lost, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(data, incoming, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  discard(b);
  if (data == NULL) return;
  live += incoming;
  *b = (block){data, incoming, incoming > 0 ? data[0] : 0};
  check(b);
}

static void run_round(long round) {
  for (int i = 0; i < places / 4; ++i) {
    block* const b = &blocks[below(places)];
    long const wanted = draw_size(round);
    if (b->data != NULL && below(4) != 0) discard(b);
    if (live - b->size + wanted > most) continue;
    if (b->data == NULL)
      allocate(b, wanted);
    else
      reallocate(b, wanted);
  }
  // Empty places get what is missing.
  int empty = 0;
  for (int i = 0; i < places; ++i) empty += blocks[i].data == NULL;
  for (int i = 0; i < places && empty > 0; ++i)
    if (blocks[i].data == NULL && most - live >= empty)
      allocate(&blocks[i], (most - live) / empty--);
  pass_on(&blocks[round % places], 1 + (int)(round % 5));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long const rounds = argc > 1 ? atol(argv[1]) : 300;
  double const seconds = argc > 2 ? atof(argv[2]) : 0.0;
  if (argc > 3) most = atol(argv[3]);
  state = (unsigned long)(rank + 1) * 0x9e3779b97f4a7c15ul;
  double const start = MPI_Wtime();
  double shown = 0.0;
  int goes_on = 1;
  for (long round = 0; goes_on; ++round) {
    run_round(round);
    if (round % 50 != 49) continue;
    double const passed = MPI_Wtime() - start;
    int choice = (round + 1 < rounds || passed < seconds) + 2 * (passed >= shown + 1.0);
    MPI_Bcast(&choice, 1, MPI_INT, 0, MPI_COMM_WORLD);
    goes_on = choice & 1;
    if (choice < 2 || seconds == 0.0) continue;
    long own[3] = {live, refusals, wrong}, all[3];
    MPI_Reduce(own, all, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    shown = passed;
    if (rank == 0)
      printf("%.0f s, round %ld: %.3f MB live, %ld refused, %ld wrong\n", passed, round + 1,
             (double)all[0] / 1e6, all[1], all[2]);
    fflush(stdout);
  }
  for (int i = 0; i < places; ++i) discard(&blocks[i]);
  long own[3] = {live, refusals, wrong}, all[3];
  MPI_Reduce(own, all, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (seconds == 0.0) printf("rank %d: %ld calls\n", rank, calls);
  if (rank == 0) printf("%ld bytes live, %ld refused, %ld wrong\n", all[0], all[1], all[2]);
  MPI_Finalize();
  return all[2] != 0 && rank == 0;
}
