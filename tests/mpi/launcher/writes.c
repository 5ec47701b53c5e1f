/* SPDX-License-Identifier: Apache-2.0 */
/* Writes much ("much") or without end ("endless"), or text without an end of line to standard error and then waits ("waits") or crashes ("crashes"). */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; argc > 1 && strcmp(argv[1], "endless") == 0; ++i) printf("line %d\n", i);
  if (argc > 1 && strcmp(argv[1], "much") == 0) {
    for (int i = 0; i < 20000; ++i) printf("rank %d: line %d of many\n", rank, i);
  } else {
    if (rank == 0) fprintf(stderr, "progress ..");
    if (rank == 0) printf("begun");
    for (double start = MPI_Wtime(); argc > 1 && MPI_Wtime() - start < 20;) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (strcmp(argv[1], "crashes") == 0) *(volatile int *)8 = rank;
    }
  }
  MPI_Finalize();
  return 0;
}
