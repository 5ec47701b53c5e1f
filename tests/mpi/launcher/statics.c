/* SPDX-License-Identifier: Apache-2.0 */
/* 160 MB of static variables. */
#include <mpi.h>
#include <stdio.h>

static double left[10000000], right[10000000];

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  left[argc] = right[argc + 1] = argc;
  printf("%g\n", left[1] + right[1]);
  MPI_Finalize();
  return 0;
}
