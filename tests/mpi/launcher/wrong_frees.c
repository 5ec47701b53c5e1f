// SPDX-License-Identifier: Apache-2.0
// usage: wrong_frees [double|inside|stack|realloc]: the last rank frees what is not allocated.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char const* const what = argc > 1 ? argv[1] : "";
  char* const items = malloc(100);
  char local[64];
  char* volatile wrong = items;
  if (strcmp(what, "stack") == 0) wrong = local;
  if (strcmp(what, "inside") == 0) wrong = items + 48;
  if (rank == size - 1) {
    if (strcmp(what, "double") == 0) free(items);
    if (strcmp(what, "realloc") == 0 && realloc(local, 200) != NULL) printf("resized\n");
    if (what[0] != 0 && strcmp(what, "realloc") != 0) free(wrong);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("done\n");
  if (strcmp(what, "double") != 0 || rank != size - 1) free(items);
  MPI_Finalize();
  return 0;
}
