// SPDX-License-Identifier: Apache-2.0
// One rank ends with a status before MPI_Finalize. The others go on to a barrier that it never
// reaches.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check_input(int rank) {
  if (rank == 1) exit(3);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check_input(rank);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d: not reached\n", rank);
  MPI_Finalize();
  return 0;
}
