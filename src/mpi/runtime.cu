// SPDX-License-Identifier: Apache-2.0
// The runtime for the GPU as one unit, which quarry-mpicc links with the program.
#include "c_memory.cpp"
#include "c_output.cpp"
#include "collectives.cpp"
#include "communicators.cpp"
#include "derived_types.cpp"
#include "environment.cpp"
#include "error_handlers.cpp"
#include "output.cpp"
#include "part_collectives.cpp"
#include "point_to_point.cpp"
#include "progress.cpp"
#include "rank.cpp"
#include "reduction.cpp"
#include "requests.cpp"
#include "types.cpp"

__constant__ quarry::mpi::launch_layout quarry_mpi_layout;

/// Prepares the mailboxes, before any rank runs.
extern "C" __global__ void quarry_mpi_prepare() {
  world& all = the_world();
  std::uint32_t const rank = blockIdx.x * blockDim.x + threadIdx.x;
  if (rank >= all.size) return;
  mailbox::initialise(all.ranks[rank]);
  all.ranks[rank].rank = rank;
}

/// Runs the program: one rank for each 2^shift threads.
extern "C" __global__ void quarry_mpi_run() {
  std::uint32_t const thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t const shift = quarry_mpi_layout.shift;
  if ((thread & ((1u << shift) - 1)) != 0 || thread >> shift >= the_world().size) return;
  run_rank(thread >> shift);
}
