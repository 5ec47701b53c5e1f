// SPDX-License-Identifier: Apache-2.0
// Rank 1 looks for a message again and again, so that there is no deadlock. The others wait for it.
#include <mpi.h>

int main(int argc, char** argv) {
  int rank, token = 0, is_there = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  while (rank == 1 && !is_there)
    MPI_Iprobe(MPI_ANY_SOURCE, 42, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  MPI_Recv(&token, 1, MPI_INT, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
