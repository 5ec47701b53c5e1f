// SPDX-License-Identifier: Apache-2.0
// The shared memory of a thread block, through which its ranks copy (bulk_copy.cuh).
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/config.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// With 2^6 threads, a rank has a second warp that helps it (warp_helpers.cuh). With fewer, its
/// other lanes help it, if there are several.
inline constexpr std::uint32_t helper_warp_shift = 6, least_helped_shift = 4;

/// Whether ranks have helpers, if they have 2^shift threads each.
[[nodiscard]] QUARRY_HD constexpr bool helpers_exist(std::uint32_t shift) {
  return shift >= least_helped_shift;
}

struct copy_pool {
  static constexpr std::uint32_t pieces = 8;
  static constexpr std::uint32_t header_bytes = 128;  // a word, and a barrier for each piece

  /// The shared memory of a multiprocessor that all its thread blocks use together. Shared memory
  /// and the cache of a multiprocessor are one memory (256 KiB on an H100), and the cache has the
  /// stacks of the ranks. With 128 KiB, messages of 1 KiB between stacks take a quarter longer, and
  /// messages of 1 MiB are as fast as with 64 KiB. CUDA takes the part in whole percents: with 256
  /// bytes less, that percentage is not more than 64 KiB.
  static constexpr std::uint32_t bytes_of_processor = 64 * 1024 - 256;
  static constexpr std::uint32_t bytes_of_system = 1024;  // what CUDA takes in each thread block

  /// Where the lanes of a rank's warp help it, a rank has its jobs in shared memory, too: behind
  /// the pieces (warp_helpers.cuh).
  static constexpr std::uint32_t bytes_of_job = 128;

  /// The shared memory for the jobs of a block, whose ranks have 2^shift of its `threads` threads.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t bytes_of_jobs(std::uint32_t threads,
                                                                       std::uint32_t shift) {
    return helpers_exist(shift) && shift != helper_warp_shift ? (threads >> shift) * bytes_of_job
                                                              : 0;
  }

  /// With more threads on a multiprocessor, the stacks need the whole cache, and so many ranks that
  /// copy at once are as fast without shared memory.
  static constexpr std::uint32_t max_threads = 512;

  /// The shared memory for copies of a thread block; 0 for none. A multiprocessor runs `blocks` of
  /// them, each with `threads` threads and `used` bytes of shared memory for something else.
  [[nodiscard]] static constexpr std::uint32_t bytes_for(std::uint64_t blocks,
                                                         std::uint64_t threads,
                                                         std::uint32_t used) {
    if (blocks == 0 || blocks * threads > max_threads) return 0;
    auto const share = bytes_of_processor / static_cast<std::uint32_t>(blocks);
    std::uint32_t const other = bytes_of_system + header_bytes + used;
    std::uint32_t const piece = share < other ? 0 : (share - other) / pieces / 128 * 128;
    return piece == 0 ? 0 : header_bytes + pieces * piece;
  }
};

}  // namespace quarry::inline QUARRY_ABI::mpi
