// SPDX-License-Identifier: Apache-2.0
// Messages and copies of 256 KiB and some bytes, which several multiprocessors copy in parts: also a
// part of a few bytes arrives, and no byte beside the message changes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { part = 32 * 1024, longest = 9 * part, guard = 64 };

static char pattern(long place) { return (char)((unsigned long)place * 2654435761u >> 13); }

/// Whether `size` bytes from `offset` on arrived, and the bytes around them are still zero.
static int is_right(char const* memory, long offset, long size) {
  for (long i = 0; i < offset; ++i)
    if (memory[i] != 0) return 0;
  for (long i = 0; i < size; ++i)
    if (memory[offset + i] != pattern(i)) return 0;
  for (long i = offset + size; i < offset + size + guard; ++i)
    if (memory[i] != 0) return 0;
  return 1;
}

int main(int argc, char** argv) {
  static int const more[] = {0, 1, 4, 8, 14, 15, 16, 17, 31, 32, 33, 100};
  static int const offsets[] = {0, 1, 8, 15};
  int rank, size, done = 0, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const to = (rank + 1) % size, from = (rank + size - 1) % size;
  char* const sent = malloc(longest + 2 * guard);
  char* const received = malloc(longest + 2 * guard);
  if (sent == NULL || received == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (unsigned i = 0; i < sizeof(more) / sizeof(more[0]); ++i) {
    for (unsigned k = 0; k < sizeof(offsets) / sizeof(offsets[0]); ++k) {
      long const bytes = 8 * part + more[i];
      for (long place = 0; place < bytes; ++place) sent[offsets[k] + place] = pattern(place);
      memset(received, 0, longest + 2 * guard);
      MPI_Sendrecv(sent + offsets[k], (int)bytes, MPI_CHAR, to, 1, received + offsets[k],
                   (int)bytes, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      wrong += !is_right(received, offsets[k], bytes);
      memset(received, 0, longest + 2 * guard);
      memcpy(received + offsets[k], sent + offsets[k], (size_t)bytes);
      wrong += !is_right(received, offsets[k], bytes);
      done += 2;
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d copies of each rank: %d wrong\n", done, wrong);
  free(sent);
  free(received);
  MPI_Finalize();
  return wrong != 0;
}
