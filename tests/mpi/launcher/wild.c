// SPDX-License-Identifier: Apache-2.0
// Rank 1 reads from where x86-64 has no address.
#include <mpi.h>
#include <stdint.h>

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int volatile* const place = (int volatile*)((uintptr_t)rank << 63);
  if (rank == 1) return *place;
  MPI_Finalize();
  return 0;
}
