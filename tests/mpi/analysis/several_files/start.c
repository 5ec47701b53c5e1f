// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include "several.h"

ranks context;

void start(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &context.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &context.size);
}

void finish(void) { MPI_Finalize(); }
