/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 2 calls itself as often as the argument says; each level has about 1000 bytes of stack. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static int descend(int levels) {
  volatile char local[1000];
  local[levels % 1000] = 1;
  return levels == 0 ? 0 : descend(levels - 1) + local[levels % 1000];
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  int const own = rank == 2 && argc > 1 ? descend(atoi(argv[1])) : 0;
  MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %d\n", sum);
  MPI_Finalize();
  return 0;
}
