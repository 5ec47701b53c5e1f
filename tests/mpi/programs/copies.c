// SPDX-License-Identifier: Apache-2.0
// Messages of random sizes, from and to random addresses in the heap and on the stack: every byte
// arrives, and no other byte changes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { room = 1 << 17, stack_room = 6000, rounds = 60 };

static unsigned long state;

/// A pseudorandom number. Both ranks of a pair draw the same ones.
static unsigned below(unsigned limit) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return (unsigned)((state >> 33) % limit);
}

/// The byte at a place of a message.
static char pattern(unsigned seed, long place) {
  return (char)((seed + (unsigned long)place) * 2654435761u >> 13);
}

/// Sizes near and far from those at which a copy changes its way.
static long random_size(unsigned limit) {
  static unsigned const limits[] = {64, 700, 3000, 9000, 40000, 120000};
  unsigned const chosen = limits[below(sizeof(limits) / sizeof(limits[0]))];
  return below(chosen < limit ? chosen : limit);
}

static void fill(char* data, long size, unsigned seed) {
  for (long i = 0; i < size; ++i) data[i] = pattern(seed, i);
}

/// Counts wrong bytes from 64 bytes before the message to 64 bytes after it.
static long errors_in(char const* data, long size, unsigned seed, char around) {
  long errors = 0;
  for (long i = -64; i < size + 64; ++i) {
    char const expected = i < 0 || i >= size ? around : pattern(seed, i);
    errors += data[i] != expected;
  }
  return errors;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char* const sent = malloc(room);
  char* const received = malloc(room);
  char* const copied = malloc(room);
  char stack[stack_room];
  if (!sent || !received || !copied) MPI_Abort(MPI_COMM_WORLD, 1);

  int const partner = (rank ^ 1) < size ? rank ^ 1 : rank;
  unsigned const pair = (unsigned)(rank < partner ? rank : partner);
  state = pair + 1;
  long errors = 0;
  for (int round = 0; round < rounds; ++round) {
    int const kind = (int)below(3);  // heap to heap, heap to stack, stack to heap
    long const length = random_size(kind == 0 ? room - 256 : stack_room - 256);
    unsigned from_offset = 64 + below(32);
    unsigned const to_offset = below(3) == 0 ? 64 + below(32) : from_offset;
    unsigned const seed = below(1u << 30);
    char* const source = (kind == 2 ? stack : sent) + from_offset;
    char* const target = (kind == 1 ? stack : received) + to_offset;
    fill(source, length, seed + (unsigned)rank);
    memset(target - 64, round, (unsigned long)length + 128);
    for (long i = 0; i < length; ++i) errors += target[i] != (char)round;  // caches have it now
    MPI_Sendrecv(source, (int)length, MPI_BYTE, partner, round, target, (int)length, MPI_BYTE,
                 partner, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    errors += errors_in(target, length, seed + (unsigned)partner, (char)round);

    // the same message by the C library
    char* const copy = copied + 64 + below(32);
    memset(copy - 64, round + 1, (unsigned long)length + 128);
    memcpy(copy, target, (unsigned long)length);
    errors += errors_in(copy, length, seed + (unsigned)partner, (char)(round + 1));
    long const distance = (long)below(200) - 100;  // overlaps
    if (distance > -64 && distance < 64) {
      memmove(copy + distance, copy, (unsigned long)length);
      for (long i = 0; i < length; ++i)
        errors += copy[distance + i] != pattern(seed + (unsigned)partner, i);
    }
  }
  long all = 0;
  MPI_Reduce(&errors, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d messages for each rank: %ld wrong bytes\n", rounds, all);
  MPI_Finalize();
  return 0;
}
