// SPDX-License-Identifier: Apache-2.0
// One rank after another computes for a long time while all others wait for it: this is no deadlock.
#include <mpi.h>
#include <stdio.h>

enum { TURNS = 8, STEPS = 10000000 };

/// Calls nothing of MPI.
static unsigned compute(unsigned start) {
  unsigned volatile result = start;
  for (int i = 0; i < STEPS; ++i) result = result * 1664525u + 1013904223u;
  return result;
}

int main(int argc, char** argv) {
  int rank, size;
  unsigned value = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int turn = 0; turn < TURNS; ++turn) {
    int const next = (turn + 1) % size;
    if (rank == turn % size) {
      value = compute(value);
      for (int i = 0; i < size; ++i)
        if (i != rank) MPI_Send(&value, 1, MPI_UNSIGNED, i, i == next ? 1 : 2, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&value, 1, MPI_UNSIGNED, turn % size, rank == next ? 1 : 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    }
  }
  unsigned const last = value;
  MPI_Bcast(&value, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  printf("rank %d: %s\n", rank, value == last ? "equal" : "different");
  MPI_Finalize();
  return 0;
}
