// SPDX-License-Identifier: Apache-2.0
// Collective operations of all ranks with buffers in the heap and on stacks, at any address, of few
// bytes and of many, in place and not. Each rank counts what is wrong, and rank 0 prints the sums.
// usage: wide [BYTES]    of all parts that a rank exchanges (65536); fewer with thousands of ranks
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { gap = 16, on_stack = 600 };

static int rank, size, wrong;

static unsigned char byte_of(int owner, long i, int salt) {
  return (unsigned char)(owner * 31 + i * 7 + i / 256 + salt * 3);
}

static void report(char const* what) {
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (wrong != 0) printf("rank %d: %s: %d wrong\n", rank, what, wrong);
  if (rank == 0) printf("%s: %d wrong\n", what, all);
  wrong = 0;
}

static void broadcast(unsigned char* data, int count, int root, int salt) {
  for (int i = 0; i < count; ++i) data[i] = rank == root ? byte_of(root, i, salt) : 0;
  data[count] = 77;
  MPI_Bcast(data, count, MPI_BYTE, root, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) wrong += data[i] != byte_of(root, i, salt);
  wrong += data[count] != 77;
}

static void broadcasts(void) {
  unsigned char stack[on_stack + gap + 1];
  unsigned char* const heap = malloc(9000 + gap + 1);
  int const counts[] = {65, 100, 512, 520, 1024, 1025, 4096, 8999};
  for (int i = 0; i < 8; ++i)
    for (int shift = 0; shift < 4; ++shift) {
      int const own_shift = shift == 0   ? 0
                            : shift == 1 ? 8
                            : shift == 2 ? 4 * (rank % 3)
                                         : rank % gap;
      broadcast(heap + own_shift, counts[i], (size - 1) * shift / 3, i + shift);
      // some ranks have the data on their stack
      int const is_short = counts[i] < on_stack;
      unsigned char* const mixed = is_short && (rank + shift) % 3 == 0 ? stack : heap;
      broadcast(mixed + own_shift, counts[i], size / 2, i + 2 * shift);
    }
  free(heap);
  report("broadcasts");
}

static void reduce(double* sent, double* received, int count, int root, int is_in_place) {
  int const has_result = root < 0 || root == rank;
  double* const own = is_in_place && has_result ? received : sent;
  double ranks = 0.0;
  for (int i = 0; i < size; ++i) ranks += i % 16;
  for (int i = 0; i < count; ++i) received[i] = -1.0, own[i] = i % 101 + rank % 16;
  void const* const from = own == received ? MPI_IN_PLACE : own;
  if (root < 0)
    MPI_Allreduce(from, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  else
    MPI_Reduce(from, received, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
  for (int i = 0; i < count && has_result; ++i)
    wrong += received[i] != (double)(i % 101) * size + ranks;
}

static void reductions(void) {
  double stack[2][on_stack / 8 + 1];
  double* const heap = malloc(sizeof(double) * 2050 * 2);
  int const counts[] = {2, 4, 9, 33, 64, 70, 513, 2048, 3, 8, 20, 32};
  for (int i = 0; i < 12; ++i)
    for (int shift = 0; shift < 3; ++shift) {
      int const own_shift = shift == 2 ? rank % 2 : shift;
      int const root = i % 3 == 0 ? -1 : size / i;
      reduce(heap + own_shift, heap + 2050 + own_shift, counts[i], root == size ? 0 : root,
             shift == 1);
      reduce(heap + own_shift, heap + 2050 + own_shift, counts[i], -1, i % 2);
      if (counts[i] <= on_stack / 8) reduce(stack[0], stack[1], counts[i], -1, shift == 1);
    }
  free(heap);
  int few[40], most[40];
  for (int i = 0; i < 40; ++i) few[i] = (rank * 7 + i * 13) % 1000 - 500;
  MPI_Allreduce(few, most, 40, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < 40; ++i) {
    int expected = -1000;
    for (int peer = 0; peer < size && peer < 1000; ++peer) {
      int const value = (peer * 7 + i * 13) % 1000 - 500;
      if (value > expected) expected = value;
    }
    wrong += most[i] != expected;
  }
  report("reductions");
}

static void exchange(unsigned char* sent, unsigned char* received, int part, int is_gather,
                     int is_in_place, int salt) {
  long const all = (long)part * size, own_bytes = is_gather ? part : all;
  unsigned char* const own = !is_in_place ? sent
                             : is_gather  ? received + (long)rank * part
                                          : received;
  for (long i = 0; i < own_bytes; ++i) own[i] = byte_of(rank, i, salt);
  void const* const from = is_in_place ? MPI_IN_PLACE : own;
  if (is_gather)
    MPI_Allgather(from, part, MPI_BYTE, received, part, MPI_BYTE, MPI_COMM_WORLD);
  else
    MPI_Alltoall(from, part, MPI_BYTE, received, part, MPI_BYTE, MPI_COMM_WORLD);
  for (int peer = 0; peer < size; ++peer)
    for (int i = 0; i < part; ++i)
      wrong += received[(long)peer * part + i] !=
               byte_of(peer, is_gather ? i : (long)rank * part + i, salt);
}

static void exchanges(long most) {
  int const parts[] = {1, 4, 8, 12, 16, 48, 64, 136, 512, 2048};
  unsigned char* const sent = malloc(most + gap);
  unsigned char* const received = malloc(most + gap);
  for (int i = 0; i < 10; ++i)
    for (int shift = 0; shift < 3 && (long)parts[i] * size <= most; ++shift) {
      int const own_shift = shift == 0 ? 0 : shift == 1 ? 8 : rank % gap;
      for (int is_gather = 0; is_gather < 2; ++is_gather)
        for (int is_in_place = 0; is_in_place < 2; ++is_in_place)
          exchange(sent + own_shift, received + own_shift, parts[i], is_gather, is_in_place,
                   i + shift);
    }
  free(sent);
  free(received);
  report("exchanges");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  broadcasts();
  reductions();
  exchanges(argc > 1 ? atol(argv[1]) : 65536);
  MPI_Finalize();
  return 0;
}
