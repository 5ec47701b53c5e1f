// SPDX-License-Identifier: Apache-2.0
// Each rank asks twice for more memory than there is, and the program ends with a status.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  size_t volatile const half = (size_t)1 << 25;
  void *volatile const one = malloc(half * half);
  void *volatile const other = calloc(half, half);
  int const is_refused = one == NULL && other == NULL;
  if (!is_refused) printf("rank %d: not reached\n", rank);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return is_refused ? 3 : 0;
}
