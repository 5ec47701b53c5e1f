// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

namespace quarry::mpi {

/// Prepares the state of rank `number` and runs the program's main.
QUARRY_HD void run_rank(std::uint32_t number);

/// CPU: the monotonic clock.
[[nodiscard]] std::uint64_t host_clock_ns();

}  // namespace quarry::mpi

/// What quarry-mpicc makes of the program.
#ifdef __CUDACC__
#define QUARRY_MPI_PROGRAM extern "C" __device__
#else
#define QUARRY_MPI_PROGRAM extern "C"
#endif
QUARRY_MPI_PROGRAM int quarry_mpi_main(int argc, char** argv, char** environment);
QUARRY_MPI_PROGRAM void quarry_mpi_init_record(char* record);
