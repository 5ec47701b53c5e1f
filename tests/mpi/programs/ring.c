// SPDX-License-Identifier: Apache-2.0
// A token of growing size travels around all ranks. Each rank adds an entry to it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rounds = 3, token_tag = 17 };

struct entry {
  int rank;
  int round;
  double weight;
};

static struct entry own_entry(int rank, int round) {
  static int made;  // a static local of each rank
  struct entry e;
  memset(&e, 0, sizeof e);
  e.rank = rank;
  e.round = round;
  e.weight = 0.5 * ++made;
  return e;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  struct entry *token = malloc(sizeof *token * (size_t)size * rounds);
  if (token == NULL) MPI_Abort(MPI_COMM_WORLD, 1);

  for (int round = 0; round < rounds; ++round) {
    int length = round * size + rank;  // entries in the token when it arrives here
    if (size > 1 && (rank != 0 || round != 0)) {
      MPI_Status status;
      int received_bytes;
      MPI_Recv(token, (int)sizeof *token * size * rounds, MPI_BYTE, previous, token_tag,
               MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &received_bytes);
      if (received_bytes != length * (int)sizeof *token)
        printf("rank %d: %d bytes received, expected %d\n", rank, received_bytes,
               length * (int)sizeof *token);
    }
    token[length] = own_entry(rank, round);
    ++length;
    if (rank == size - 1 && round == rounds - 1) break;
    if (size == 1) continue;  // the token stays
    MPI_Send(token, (int)sizeof *token * length, MPI_BYTE, next, token_tag, MPI_COMM_WORLD);
  }

  if (rank == size - 1) {
    double sum = 0.0;
    int ordered = 1;
    for (int i = 0; i < size * rounds; ++i) {
      sum += token[i].weight;
      if (token[i].rank != i % size || token[i].round != i / size) ordered = 0;
    }
    printf("%d entries, in order: %d, sum of weights %.1f\n", size * rounds, ordered, sum);
  }
  printf("rank %d passed the token on\n", rank);
  free(token);
  MPI_Finalize();
  return 0;
}
