// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

#ifndef __CUDACC__
#include <csetjmp>
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// Prepares the state of rank `number` and runs the program's main.
QUARRY_HD void run_rank(std::uint32_t number);

#ifndef __CUDACC__
/// Where a rank continues when it ends early. Frames of C code between there and here have no
/// destructors; frames of the runtime that own something end before.
struct early_end {
  std::jmp_buf place;
};
#endif

/// CPU: of a rank that does not wait.
inline constexpr std::uint64_t no_activity = ~std::uint64_t{0};

/// CPU: ends the program if each rank has found nothing since `activity` was the world's activity.
/// Ranks of several threads may call it at the same time.
void find_deadlock(std::uint64_t activity);

}  // namespace quarry::inline QUARRY_ABI::mpi

/// What quarry-mpicc makes of the program.
#ifdef __CUDACC__
#define QUARRY_MPI_PROGRAM extern "C" __device__
#else
#define QUARRY_MPI_PROGRAM extern "C"
#endif
QUARRY_MPI_PROGRAM int quarry_mpi_main(int argc, char** argv, char** environment);
QUARRY_MPI_PROGRAM void quarry_mpi_init_record(char* record);
