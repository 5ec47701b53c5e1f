/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 waits for a message that nobody sends, the others for rank 0; or rank 0 aborts, or crashes. */
#include <mpi.h>

int main(int argc, char** argv) {
  int rank, value = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 20; ++i) MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && argc > 2) *(int volatile*)8 = 1;
  if (rank == 0 && argc > 1) MPI_Abort(MPI_COMM_WORLD, 3);
  if (rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
