// SPDX-License-Identifier: Apache-2.0
// One rank calls MPI_Abort while the others wait for a message.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, size, answer = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == size - 1) {
    fprintf(stderr, "rank %d found no input\n", rank);
    MPI_Abort(MPI_COMM_WORLD, 7);
  }
  MPI_Recv(&answer, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  printf("rank %d: not reached, %d\n", rank, answer);
  MPI_Finalize();
  return 0;
}
