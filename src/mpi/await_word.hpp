// SPDX-License-Identifier: Apache-2.0
// GPU: waiting for a word of memory, where ranks share warps.
#pragma once

#include "waiting_lanes.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Whether ranks that wait look together (waiting_lanes). On an H200, it makes steps of 262,144
/// ranks faster, and a ring of 65,536 or fewer ranks slower.
[[nodiscard]] QUARRY_FAST bool looks_together() {
  constexpr std::uint32_t least_ranks = 100'000;
  return layout().shift == 0 && layout().size >= least_ranks;
}

#ifdef __CUDACC__
[[nodiscard]] __device__ inline waiting_lanes::place& own_waiting_lanes() {
  __shared__ waiting_lanes::place places[32];  // of each warp
  return places[threadIdx.x / 32];
}

/// Prepares the places of a thread block. Its threads call it before a barrier and any rank.
__device__ inline void clear_waiting_lanes() {
  if (threadIdx.x % 32 == 0) own_waiting_lanes() = 0;
}

/// The calling lane's warp, for waiting_lanes.
struct warp_that_waits {
  std::uint32_t nap;  // ns between two looks

  [[nodiscard]] __device__ static std::uint32_t lane() { return threadIdx.x % 32; }
  [[nodiscard]] __device__ static std::uint32_t vote(std::uint32_t members, bool value) {
    return __ballot_sync(members, value);
  }
  [[nodiscard]] __device__ static std::uint32_t tell(std::uint32_t members, std::uint32_t value,
                                                     std::uint32_t speaker) {
    return __shfl_sync(members, value, static_cast<int>(speaker));
  }
  __device__ void pause() const {
    if (nap != 0) __nanosleep(nap);
  }
};

/// Waits until the word is `value`, but at most for so many looks (at least 1), with naps of so
/// many nanoseconds between them. Returns whether it was; that orders no other accesses. The word
/// may lie in any memory. All waits for words are this one function, for lanes look together only
/// if they execute the same instructions. For ranks that look together.
__device__ __noinline__ inline bool await_word(std::uint32_t const* word, std::uint32_t value,
                                               std::uint32_t looks, std::uint32_t nap) {
  return waiting_lanes::wait(own_waiting_lanes(), warp_that_waits{nap}, looks, [&] {
    std::uint32_t found;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(found) : "l"(word));
    return found == value;
  });
}
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi
