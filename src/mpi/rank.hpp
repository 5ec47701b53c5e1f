// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Prepares the state of rank `number` and runs the program's main.
QUARRY_HD void run_rank(std::uint32_t number);

/// CPU: the monotonic clock.
[[nodiscard]] std::uint64_t host_clock_ns();

/// CPU: ends the program if each rank has found nothing since `activity` was the world's activity.
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
