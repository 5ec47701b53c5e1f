// SPDX-License-Identifier: Apache-2.0
// Thread blocks without ranks, on multiprocessors that the ranks leave free, help to copy long
// messages: one multiprocessor copies some 24 GB/s, a hundredth of what all of an H100 copy.
#pragma once

#include "bulk_copy.cuh"
#include "copy_board.hpp"

extern "C" __constant__ quarry::mpi::copier_layout quarry_mpi_copiers;
extern "C" __device__ quarry::mpi::copy_board quarry_mpi_copy_board;  // of the GPU

namespace quarry::inline QUARRY_ABI::mpi {

/// The copiers of a GPU. A copier is one thread, which drives the copy engine of a multiprocessor.
class copiers {
 public:
  /// Shorter copies are as fast by the rank alone.
  static constexpr bytes least = bytes{256} << 10;

  [[nodiscard]] __device__ static bool exist() { return quarry_mpi_copiers.count != 0; }
  [[nodiscard]] __device__ static bool has_block() {
    return blockIdx.x >= quarry_mpi_copiers.rank_blocks;
  }

  /// Copies from global to global memory together with the copiers. Addresses are at the same
  /// distance from a multiple of 16. Returns false, and has done nothing, if other ranks have all
  /// places.
  [[nodiscard]] __device__ __noinline__ static bool copy(char* to, char const* from, bytes size) {
    return quarry_mpi_copy_board.copy(to, from, size, copy_part);
  }

  /// What a copier does until all ranks of the GPU have ended. It looks often for a while after a
  /// copy, and then rarely, so that it disturbs no short messages.
  __device__ __noinline__ static void serve() {
    constexpr std::uint32_t looks = 64, short_ns = 50, long_ns = 500;
    std::uint32_t idle = 0;
    while (quarry_mpi_copy_board.ended() != quarry_mpi_copiers.ranks) {
      if (quarry_mpi_copy_board.help(blockIdx.x, copy_part)) {
        idle = 0;
      } else {
        if (idle < looks) ++idle;
        __nanosleep(idle < looks ? short_ns : long_ns);
      }
    }
  }

  /// A rank is about to end.
  __device__ static void leave() {
    if (exist()) quarry_mpi_copy_board.leave();
  }

 private:
  /// By the thread if the part is short, as the last one may be, or if ranks of the block have all
  /// pieces.
  __device__ __noinline__ static void copy_part(char* to, char const* from, bytes size) {
    if (size < least_through_engine || !copy_through_pieces(to, from, size, true))
      copy_by_thread(to, from, size);
  }
};

}  // namespace quarry::inline QUARRY_ABI::mpi
