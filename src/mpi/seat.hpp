// SPDX-License-Identifier: Apache-2.0
// Where a rank meets with others: on the GPU in the shared memory of its thread block, on the CPU
// in the block's element of an array.
#pragma once

#include "await_word.hpp"
#include "meeting_place.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

[[nodiscard]] QUARRY_HD inline meeting_place const& the_meeting() {
#ifdef __CUDA_ARCH__
  return quarry_mpi_meeting_place;
#else
  return the_world().meeting;
#endif
}

#ifdef __CUDACC__
[[nodiscard]] __device__ inline block_place& own_block() {
  __shared__ block_place place;
  return place;
}

/// Prepares the block's place. All threads of the block call it, before any rank runs.
__device__ inline void clear_block() {
  auto* const words = reinterpret_cast<std::uint32_t*>(&own_block());
  for (std::uint32_t i = threadIdx.x; i < sizeof(block_place) / 4; i += blockDim.x) words[i] = 0;
  clear_waiting_lanes();
  __syncthreads();
}
#endif

[[nodiscard]] QUARRY_HD inline seat own_seat() {
#ifdef __CUDA_ARCH__
  meeting_place const& all = the_meeting();
  std::uint32_t const ranks = blockDim.x >> layout().shift;
  std::uint32_t const left = layout().size - layout().first_rank - blockIdx.x * ranks;
  return {own_block(),
          all.counters,
          all.first_block + blockIdx.x,
          all.all_blocks,
          left < ranks ? left : ranks,
          threadIdx.x >> layout().shift,
          ranks};
#elif !defined(__CUDACC__)
  meeting_place const& all = the_meeting();
  std::uint32_t const block = own_rank() / all.block_ranks;
  std::uint32_t const first = block * all.block_ranks;
  std::uint32_t const left = layout().size - first;
  return {all.blocks[block],
          all.counters,
          block,
          (layout().size + all.block_ranks - 1) / all.block_ranks,
          left < all.block_ranks ? left : all.block_ranks,
          own_rank() - first,
          all.block_ranks};
#else
  return {*static_cast<block_place*>(nullptr), nullptr, 0, 0, 0, 0, 0};  // nvcc's host pass
#endif
}

}  // namespace quarry::inline QUARRY_ABI::mpi
