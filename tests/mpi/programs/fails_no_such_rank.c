// SPDX-License-Identifier: Apache-2.0
// Sends to a rank that does not exist: first with an error handler that returns, then with the
// default one.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank, size, value = 1, class = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm quiet;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &quiet);
  MPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
  int const error = MPI_Send(&value, 1, MPI_INT, size, 0, quiet);
  MPI_Error_class(error, &class);
  MPI_Error_string(error, text, &length);
  printf("rank %d: error of class MPI_ERR_RANK: %d, has text: %d\n", rank, class == MPI_ERR_RANK,
         length > 0 && length == (int)strlen(text));
  MPI_Barrier(quiet);
  MPI_Send(&value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD);
  printf("rank %d: not reached\n", rank);
  MPI_Finalize();
  return 0;
}
