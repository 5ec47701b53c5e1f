/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 1 computes and never ends. If the program has an argument, rank 0 aborts before rank 1 begins to compute, and after it has
   written. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, begins = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Recv(&begins, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&begins, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (argc > 1) MPI_Abort(MPI_COMM_WORLD, 9);
  } else if (rank == 1) {
    if (argc > 1) printf("first line\nno end of line");
    MPI_Send(&begins, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(&begins, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (argc == 1) printf("first line\nno end of line");
    for (volatile double x = 1; begins;) x = x * 1.0000001;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  printf("not reached\n");
  MPI_Finalize();
  return 0;
}
