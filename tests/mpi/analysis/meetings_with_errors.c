// SPDX-License-Identifier: Apache-2.0
// A program that handles errors of MPI: a barrier that fails in a rank is no meeting.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  free(malloc(8));  // CU; sync-safe
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  free(malloc(8));  // CU; sync-safe
  MPI_Barrier(MPI_COMM_WORLD);
  free(malloc(8));  // CU; not sync-safe after MPI_Barrier
  MPI_Finalize();
  return 0;
}
