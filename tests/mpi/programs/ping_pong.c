// SPDX-License-Identifier: Apache-2.0
// Pairs of ranks exchange messages of 0 bytes to 1 MiB, from the stack, from a global and from the
// heap, in all modes of sending.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*send_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm);

static const struct {
  const char *name;
  send_function send;
} modes[] = {{"standard", MPI_Send}, {"synchronous", MPI_Ssend}, {"buffered", MPI_Bsend}};

enum { stack_bytes = 600 };
static unsigned char global_buffer[5000];

static void fill(unsigned char *to, int length, unsigned seed) {
  for (int i = 0; i < length; ++i) {
    seed = seed * 1103515245u + 12345u;
    to[i] = (unsigned char)(seed >> 16);
  }
}

static unsigned checksum(const unsigned char *text, int length) {
  unsigned sum = 5381u;
  for (int i = 0; i < length; ++i) sum = sum * 33u + text[i];
  return sum;
}

/// Sends `length` bytes to the peer and back. Returns the checksum of what came back.
static unsigned bounce(int mode, unsigned char *buffer, int length, int peer, int is_first) {
  MPI_Status status;
  int count;
  if (is_first) {
    fill(buffer, length, (unsigned)length + 1u);
    modes[mode].send(buffer, length, MPI_UNSIGNED_CHAR, peer, length, MPI_COMM_WORLD);
    memset(buffer, 0, (size_t)length);
  }
  MPI_Recv(buffer, length, MPI_UNSIGNED_CHAR, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_UNSIGNED_CHAR, &count);
  if (count != length || status.MPI_TAG != length || status.MPI_SOURCE != peer)
    printf("unexpected status: %d bytes, tag %d, source %d\n", count, status.MPI_TAG,
           status.MPI_SOURCE);
  if (!is_first) modes[mode].send(buffer, length, MPI_UNSIGNED_CHAR, peer, length, MPI_COMM_WORLD);
  return checksum(buffer, length);
}

int main(int argc, char **argv) {
  int rank, size;
  unsigned char stack_buffer[stack_bytes];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const peer = rank ^ 1;
  int const largest = 1 << 20;
  unsigned char *heap_buffer = malloc((size_t)largest);
  int attached = 2 * (largest + MPI_BSEND_OVERHEAD);
  void *space = malloc((size_t)attached);
  MPI_Buffer_attach(space, attached);
  if (peer < size) {
    for (int mode = 0; mode < 3; ++mode) {
      unsigned all = 0;
      for (int length = 0; length <= largest; length = length == 0 ? 1 : length * 4) {
        unsigned char *buffer = length <= stack_bytes                  ? stack_buffer
                                : length <= (int)sizeof global_buffer ? global_buffer
                                                                      : heap_buffer;
        all = all * 31u + bounce(mode, buffer, length, peer, rank < peer);
      }
      printf("rank %d, %s: checksum %08x\n", rank, modes[mode].name, all);
    }
  } else {
    printf("rank %d has no peer\n", rank);
  }
  MPI_Buffer_detach(&space, &attached);
  free(space);
  free(heap_buffer);
  MPI_Finalize();
  return 0;
}
