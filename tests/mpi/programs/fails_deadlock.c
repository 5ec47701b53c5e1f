// SPDX-License-Identifier: Apache-2.0
// All ranks receive from their neighbour before they send: nobody can continue.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, size, token = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Recv(&token, 1, MPI_INT, previous, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(&rank, 1, MPI_INT, next, 42, MPI_COMM_WORLD);
  printf("rank %d got %d\n", rank, token);
  MPI_Finalize();
  return 0;
}
