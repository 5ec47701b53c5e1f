// SPDX-License-Identifier: Apache-2.0
// Calls through pointers whose targets are known: the analysis sees through them, the program keeps
// them.
#include <mpi.h>
#include <stdlib.h>

static void inner(int size) {
  free(malloc((size_t)size));  // [inner(size) <- function(3)] CU
      // [inner(size) <- function(4)] NO by `if (rank > 0)`: `rank` from MPI_Comm_rank
}
static void outer(int size) { inner(size); }

static void* make(void* (*allocate)(size_t), size_t size) {
  return allocate(size);  // CU
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  void* (*allocate)(size_t) = malloc;
  void (*function)(int) = outer;
  free(make(allocate, 8));
  free(malloc(16));  // CU
  function(3);
  if (rank > 0) function(4);
  MPI_Finalize();
  return 0;
}
