// SPDX-License-Identifier: Apache-2.0
// Each rank cuts its first argument. The root broadcasts a constant. With a second argument a rank aborts.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static const int five = 5;

int main(int argc, char** argv) {
  int rank, value = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 2 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 256);
  MPI_Bcast(rank == 0 ? (void*)&five : &value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  printf("%s %d\n", strtok(argv[1], ","), rank == 0 ? five : value);
  MPI_Finalize();
  return 0;
}
