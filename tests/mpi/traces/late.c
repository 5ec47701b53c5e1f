/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 2 is late for a barrier, then rank 1 sends late what all others receive. */
#include <mpi.h>
#include <stdlib.h>

static void work(int rounds) {
  volatile double sum = 0;
  for (int i = 0; i < rounds; ++i) sum += i;
}

int main(int argc, char** argv) {
  int rank, size, value = 0;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int* block = malloc(1000);
  if (rank == 2) work(20000000);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    work(10000000);
    for (int i = 0; i < size; ++i)
      if (i != 1) MPI_Send(&rank, 1, MPI_INT, i, 5, MPI_COMM_WORLD);
  } else if (rank == 0) {
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  free(block);
  MPI_Finalize();
  return value != (rank == 1 ? 0 : 1);
}
