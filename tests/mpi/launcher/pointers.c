/* SPDX-License-Identifier: Apache-2.0 */
/* Calls an MPI function through a pointer, then a function of the program that has as many arguments. Rank 1 then crashes. */
#include <mpi.h>

static int ignore(MPI_Comm communicator) { return communicator == MPI_COMM_NULL; }

int main(int argc, char **argv) {
  int rank;
  int (*volatile call)(MPI_Comm) = MPI_Barrier;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  call(MPI_COMM_WORLD); /* the last call of MPI */
  call = ignore;
  call(MPI_COMM_WORLD);
  if (rank == 1) *(int volatile*)8 = rank;
  MPI_Finalize();
  return 0;
}
