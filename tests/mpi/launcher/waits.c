/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other, for some seconds or until a signal ends them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, goes_on = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("first line\nno end of line");
  double const seconds = argc > 1 ? atof(argv[1]) : 1000, start = MPI_Wtime();
  while (goes_on) {
    goes_on = MPI_Wtime() - start < seconds;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
