// SPDX-License-Identifier: Apache-2.0
// A message is longer than the receiver's buffer: first with an error handler that returns, then
// with the default one.
#include <mpi.h>
#include <stdio.h>

static int numbers[100];

int main(int argc, char **argv) {
  int rank, size, class = MPI_SUCCESS;
  int few[10] = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < 2; ++round) {
    if (round == 0) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (round == 1) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (rank == 0) MPI_Send(numbers, 100, MPI_INT, 1, round, MPI_COMM_WORLD);
    if (rank == 1) {
      int const error = MPI_Recv(few, 10, MPI_INT, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Error_class(error, &class);
      printf("error of class MPI_ERR_TRUNCATE: %d\n", class == MPI_ERR_TRUNCATE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  printf("rank %d: not reached\n", rank);
  MPI_Finalize();
  return 0;
}
