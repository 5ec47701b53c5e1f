// SPDX-License-Identifier: Apache-2.0
// The shared memory of a thread block, through which its ranks copy (bulk_copy.cuh).
#pragma once

#include "quarry/core/abi.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

struct copy_pool {
  static constexpr std::uint32_t pieces = 8;
  static constexpr std::uint32_t header_bytes = 128;  // a word, and a barrier for each piece

  /// The shared memory of a multiprocessor that all its thread blocks use together. Shared memory
  /// and the cache of a multiprocessor are one memory (256 KiB on an H100), and the cache has the
  /// stacks of the ranks. With 128 KiB, messages of 1 KiB between stacks take a quarter longer, and
  /// messages of 1 MiB are as fast as with 64 KiB.
  static constexpr std::uint32_t bytes_of_processor = 64 * 1024;
  static constexpr std::uint32_t bytes_of_system = 1024;  // what CUDA takes in each thread block

  /// With more thread blocks, the stacks need the whole cache, and so many ranks that copy at once
  /// are as fast without shared memory.
  static constexpr std::uint32_t max_blocks = 2;

  /// The shared memory of a thread block if a multiprocessor runs `blocks` of them; 0 for none.
  [[nodiscard]] static constexpr std::uint32_t bytes_for(std::uint64_t blocks) {
    if (blocks == 0 || blocks > max_blocks) return 0;
    auto const share = bytes_of_processor / static_cast<std::uint32_t>(blocks);
    std::uint32_t const piece = (share - bytes_of_system - header_bytes) / pieces / 128 * 128;
    return header_bytes + pieces * piece;
  }
};

}  // namespace quarry::inline QUARRY_ABI::mpi
