// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu_program.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The dynamic shared memory of a thread block.
struct block_memory {
  std::uint32_t pieces = 0;  // bytes, for copies; 0 if the blocks would not fit with them
  std::uint32_t jobs = 0;    // bytes

  [[nodiscard]] std::uint32_t size() const { return pieces + jobs; }
};

/// Gives each thread block shared memory, and the rest of a multiprocessor's memory to its cache,
/// on the current GPU. A rank has 2^shift threads.
[[nodiscard]] block_memory reserve_shared_memory(gpu_program const& program, std::uint64_t blocks,
                                                 std::uint32_t shift);

}  // namespace quarry::inline QUARRY_ABI::mpi
