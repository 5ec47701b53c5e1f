// SPDX-License-Identifier: Apache-2.0
// Rank 0 takes all memory and sends two messages. Rank 1 looks for the second.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, value = 0, flag = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    for (size_t size = 1 << 20; size >= 16; size /= 2)
      while (malloc(size) != NULL) {
      }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0)
    for (int tag = 0; tag < 2; tag++) MPI_Send(&value, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
  if (rank == 1 && argc > 1)
    while (!flag) MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
