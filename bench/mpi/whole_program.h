// SPDX-License-Identifier: Apache-2.0
// Measures a program that knows nothing of it: the compiler includes this file first (-include).
//
//   mpi/program/time  ms: from MPI_Init to MPI_Finalize, the time of the slowest rank. `malloc` is
//                     the allocator, if QUARRY_MPI_MALLOC chooses it
//
// Results in JSON go to standard output, between the program's own lines.
#pragma once

#include "measure.h"

#ifndef QUARRY_PROGRAM
#error "define QUARRY_PROGRAM as the program's name"
#endif

static double quarry_start;

static int quarry_timed_init(int* argc, char*** argv) {
  int const status = MPI_Init(argc, argv);
  MPI_Barrier(MPI_COMM_WORLD);
  quarry_start = MPI_Wtime();
  return status;
}

static int quarry_timed_finalize(void) {
  double const own = MPI_Wtime() - quarry_start;
  double slowest;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    char params[120];
    int const length =
        snprintf(params, sizeof params, "\"program\":\"%s\",\"ranks\":%d", QUARRY_PROGRAM, size);
    char const* const chosen = getenv("QUARRY_MPI_MALLOC");
    if (chosen != NULL)
      snprintf(params + length, sizeof params - (size_t)length, ",\"malloc\":\"%s\"", chosen);
    print_times("program/time", params, &slowest, 1, 1e3, "ms");
  }
  return MPI_Finalize();
}

#define MPI_Init(argc, argv) quarry_timed_init(argc, argv)
#define MPI_Finalize() quarry_timed_finalize()
