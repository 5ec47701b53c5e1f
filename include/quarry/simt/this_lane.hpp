// SPDX-License-Identifier: Apache-2.0
// Functions of a single lane: its place in the launch, barriers, and short waits.
#pragma once

#include "quarry/simt/host_lane.hpp"

#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif

namespace quarry::inline QUARRY_ABI::simt {

/// This lane's place in its launch. On the CPU outside a launch, the lane is lane 0 of 1.
[[nodiscard]] QUARRY_HD inline place this_place() {
#ifdef __CUDA_ARCH__
  return {blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z),
          threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
          gridDim.x * gridDim.y * gridDim.z, blockDim.x * blockDim.y * blockDim.z};
#else
  return current_lane != nullptr ? current_lane->own_place() : place{0, 0, 1, 1};
#endif
}

/// A number that distributes the warps of a grid evenly over shared structures, even if only some
/// warps of each thread block call it. On CUDA and in fibers it is the thread block's number plus
/// the warp's number in the thread block. On threads it is a hash that depends on the OS thread.
/// All lanes of a warp get the same number, which is only a hint.
[[nodiscard]] QUARRY_HD inline std::uint32_t warp_hint() {
#ifdef __CUDA_ARCH__
  auto const lane_place = this_place();
  return lane_place.block + lane_place.thread / warp_size;
#else
  if (current_lane != nullptr && current_lane->has_warps()) {
    return current_lane->own_place().block + current_lane->own_place().thread / warp_size;
  }
  thread_local char const tag = 0;  // each thread's copy has its own address
  return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(&tag) * 0x9e3779b97f4a7c15u >>
                                    32);
#endif
}

/// Waits for all lanes of the thread block.
QUARRY_HD inline void block_barrier() {
#ifdef __CUDA_ARCH__
  __syncthreads();
#else
  if (current_lane != nullptr) current_lane->block_barrier();
#endif
}

/// Returns the value of lane 0 of the thread block. All lanes of the thread block must call it; it
/// waits for them.
[[nodiscard]] QUARRY_HD inline std::uint64_t block_broadcast(std::uint64_t value) {
#ifdef __CUDA_ARCH__
  __shared__ std::uint64_t shared;
  if (this_place().thread == 0) shared = value;
  __syncthreads();
  std::uint64_t const result = shared;
  __syncthreads();
  return result;
#else
  if (current_lane == nullptr) return value;
  if (current_lane->own_place().thread == 0) current_lane->block_word() = value;
  current_lane->block_barrier();
  std::uint64_t const result = current_lane->block_word();
  current_lane->block_barrier();
  return result;
#endif
}

/// Waits for all lanes of the grid. On CUDA the launch must be cooperative.
QUARRY_HD inline void grid_barrier() {
#ifdef __CUDA_ARCH__
  cooperative_groups::this_grid().sync();
#else
  if (current_lane != nullptr) current_lane->grid_barrier();
#endif
}

/// Bounds an operation that may have to wait for other lanes. The lane calls `spend` in each step:
/// a look, a poll or a retry.
///
/// On CUDA a step counts as the time since the previous step, but at most as 250 µs. So lanes of an
/// overloaded GPU, on which steps take long, give up early. A limit of 10 ms still allows at least
/// 40 steps. Time in which the GPU runs another process, or in which a tool slows down all lanes,
/// counts little. Rejected: time without the maximum (with three processes on one GPU, allocations
/// failed in a heap with free memory). Steps alone are rejected, too: lanes of an overloaded heap
/// wait ten times as long, and each makes the others wait.
///
/// On the CPU a step counts as 50 ns, for two reasons. The operating system may stop the thread
/// that this lane waits for, and a seed decides how often the scheduler of fibers selects it.
class patience {
 public:
  QUARRY_HD void begin() { *this = {}; }

  QUARRY_HD void spend() {
#ifdef __CUDA_ARCH__
    auto const now = static_cast<std::uint32_t>(clock_ns());
    std::uint32_t const passed = previous_ == 0 ? 0 : now - previous_;
    spent_ += passed < longest_step ? passed : longest_step;
    previous_ = now;
#else
    spent_ += 50;
#endif
  }

  /// Whether the steps count as more than `microseconds`, which must be less than 4 seconds.
  [[nodiscard]] QUARRY_HD bool has_lasted(std::uint32_t microseconds) const {
    return spent_ > microseconds * 1000;
  }

  /// The time of all steps, in nanoseconds.
  [[nodiscard]] QUARRY_HD std::uint32_t spent() const { return spent_; }

 private:
  static constexpr std::uint32_t longest_step = 250'000;

#ifdef __CUDA_ARCH__
  QUARRY_HD static std::uint64_t clock_ns() {
    std::uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
  }
#endif

  // CUDA: the time of the previous step in nanoseconds, modulo 2^32. A step of more than 4.29 s
  // counts as any time up to the maximum, and a step after a reading of 0 does not count.
  std::uint32_t previous_ = 0;
  std::uint32_t spent_ = 0;  // nanoseconds
};

/// Whether this code runs on a GPU.
[[nodiscard]] QUARRY_HD constexpr bool is_on_gpu() {
#ifdef __CUDA_ARCH__
  return true;
#else
  return false;
#endif
}

/// Lets other lanes run for a moment, in a bounded wait for another lane's next step. On CUDA the
/// moment doubles with each of the first `doublings` `attempts`, from about 100 ns.
QUARRY_HD inline void pause([[maybe_unused]] std::uint32_t attempts = 0,
                            [[maybe_unused]] std::uint32_t doublings = 4) {
#ifdef __CUDA_ARCH__
  __nanosleep(100u << (attempts < doublings ? attempts : doublings));
#else
  if (current_lane != nullptr) {
    current_lane->pause();
  } else {
    yield_thread();
  }
#endif
}

/// CPU: `pause`, but the scheduler of fibers leaves this lane out until `wake`. So lanes that wait
/// cost no time. Returns false if the scheduler resumed the lane without a `wake`, which it does if
/// no other lane can run, and from time to time. So a lane may miss a `wake` and still go on.
inline bool park() {
  if (current_lane != nullptr) return current_lane->park();
  yield_thread();
  return true;
}
/// CPU: lets a parked lane go on.
inline void wake(std::uint64_t rank) {
  if (current_lane != nullptr) current_lane->wake(rank);
}

}  // namespace quarry::inline QUARRY_ABI::simt
