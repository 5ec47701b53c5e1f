// SPDX-License-Identifier: Apache-2.0
// Barriers in code that is not collective: the n-th barrier of one rank is the n-th of another, and
// so a barrier that all ranks call need not be one at which they meet.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  free(malloc(8));  // CU; sync-safe
  if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  free(malloc(8));  // CU; not sync-safe after MPI_Barrier
  if (rank != 0) MPI_Barrier(MPI_COMM_WORLD);
  free(malloc(8));  // CU; not sync-safe after MPI_Barrier
  MPI_Finalize();
  return 0;
}
