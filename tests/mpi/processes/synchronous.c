// SPDX-License-Identifier: Apache-2.0
// Synchronous sends to another process are complete when their receive has begun, and not earlier.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MANY = 60, LONG = 20000 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const last = size - 1;
  int early = 0, wrong = 0;
  if (rank == 0) {
    MPI_Request sends[MANY];
    int values[MANY];
    for (int i = 0; i < MANY; ++i) {
      values[i] = 3 * i;
      MPI_Issend(&values[i], 1, MPI_INT, last, i, MPI_COMM_WORLD, &sends[i]);
    }
    int done = 0;
    for (int looks = 0; looks < 100; ++looks) {
      MPI_Testall(MANY, sends, &done, MPI_STATUSES_IGNORE);
      early += done;
    }
    int token = 1;
    MPI_Send(&token, 1, MPI_INT, last, 1000, MPI_COMM_WORLD);
    MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
    int* block = malloc(LONG * sizeof(int));
    for (int i = 0; i < LONG; ++i) block[i] = i;
    MPI_Ssend(block, LONG, MPI_INT, last, 2000, MPI_COMM_WORLD);
    for (int i = 0; i < 500; ++i) MPI_Ssend(&i, i % 2, MPI_INT, last, 3000, MPI_COMM_WORLD);
    free(block);
  } else if (rank == last) {
    int token, value;
    MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = MANY; i-- != 0;) {  // in reverse
      MPI_Recv(&value, 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      wrong += value != 3 * i;
    }
    int* block = calloc(LONG, sizeof(int));
    MPI_Status status;
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    int count;
    MPI_Get_count(&status, MPI_INT, &count);
    wrong += count != LONG || status.MPI_SOURCE != 0 || status.MPI_TAG != 2000;
    MPI_Recv(block, LONG, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < LONG; ++i) wrong += block[i] != i;
    for (int i = 0; i < 500; ++i) {
      value = -1;
      MPI_Recv(&value, 1, MPI_INT, 0, 3000, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_INT, &count);
      wrong += count != i % 2 || value != (i % 2 != 0 ? i : -1);
    }
    free(block);
  }
  printf("rank %d: %d early, %d wrong\n", rank, early, wrong);
  MPI_Finalize();
  return 0;
}
