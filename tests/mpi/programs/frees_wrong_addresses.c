// SPDX-License-Identifier: Apache-2.0
// Each rank frees four addresses that are not allocated. The frees change nothing.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank, sum = 0;
  char local[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *volatile const kept = malloc(100);
  char *volatile const freed = malloc(100);
  char *volatile const on_stack = local;
  memset(kept, rank, 100);
  MPI_Barrier(MPI_COMM_WORLD);  // from here on no rank allocates
  free(freed);
  free(freed);
  free(kept + 48);
  free(on_stack);
  if (realloc(on_stack, 200) != NULL) printf("rank %d: not reached\n", rank);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 100; ++i) sum += kept[i];
  printf("rank %d: %d\n", rank, sum);
  free(kept);
  MPI_Finalize();
  return 0;
}
