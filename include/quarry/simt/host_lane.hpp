// SPDX-License-Identifier: Apache-2.0
// A lane on the CPU, and a lane's place in its launch on either backend.
#pragma once

#include "quarry/core/config.hpp"
#include "quarry/core/export.hpp"

#include <array>

namespace quarry::inline QUARRY_ABI::simt {

inline constexpr std::uint32_t warp_size = 32;
using lane_mask = std::uint32_t;

/// A lane's place in its launch: the numbers of its thread block and of its thread, the number of
/// blocks, and the threads per block.
struct place {
  std::uint32_t block;
  std::uint32_t thread;
  std::uint32_t blocks;
  std::uint32_t threads;

  [[nodiscard]] QUARRY_HD constexpr std::uint64_t rank() const {
    return std::uint64_t{block} * threads + thread;
  }
  [[nodiscard]] QUARRY_HD constexpr std::uint64_t count() const {
    return std::uint64_t{blocks} * threads;
  }
};

/// A lane on the CPU. Device code calls it to reach the backend, which runs the lane on an OS
/// thread or as a fiber.
///
/// A backend without warps (threads) has groups of one lane; only its barriers and `pause` have an
/// effect.
class QUARRY_API host_lane {
 public:
  explicit host_lane(place own_place, std::uint32_t thread = 0)
      : place_{own_place}, thread_{thread} {}
  virtual ~host_lane() = default;

  [[nodiscard]] place own_place() const { return place_; }
  /// The number of the part of the launch that runs the lane (lane_part).
  [[nodiscard]] std::uint32_t thread() const { return thread_; }
  [[nodiscard]] std::uint32_t lane() const { return place_.thread % warp_size; }

  /// Whether lanes are grouped in warps: false on OS threads.
  [[nodiscard]] virtual bool has_warps() const { return true; }

  /// The lanes of this warp that reached `site` together, including this lane.
  virtual lane_mask coalesce(void const* site) = 0;

  /// Waits for all lanes of `members` and returns the value of each. `operation` appears in a
  /// deadlock report.
  virtual std::array<std::uint64_t, warp_size> const& exchange(lane_mask members,
                                                               std::uint64_t value,
                                                               char const* operation) = 0;
  /// Whether lanes that call a function together leave it together, like compiled code on a GPU. If
  /// true, `indirect_call` calls `call_together` before the function and `return_together` after
  /// it.
  [[nodiscard]] virtual bool returns_together() const { return false; }

  /// Finds the lanes that call the function at `site` together with this lane. Returns a number for
  /// `return_together`.
  virtual std::uint64_t call_together(void const* /*site*/) { return 0; }

  /// Waits for the lanes that made this call together.
  virtual void return_together(std::uint64_t /*call*/) {}

  virtual void block_barrier() = 0;
  virtual void grid_barrier() = 0;

  /// A word that all lanes of the block share; barriers order accesses to it.
  virtual std::uint64_t& block_word() = 0;

  /// A point at which the scheduler may run another lane first.
  virtual void interleave() = 0;

  /// Lets other lanes run, because this lane waits for another lane's next step.
  virtual void pause() = 0;

  /// Lets other lanes run until a lane calls `wake` for this lane. The scheduler also resumes this
  /// lane if no other lane can run, and from time to time. Returns whether `wake` was called. The
  /// caller must look again in any case.
  virtual bool park() {
    pause();
    return true;
  }

  /// Lets the lane with this number in the launch go on, if it is parked.
  virtual void wake(std::uint64_t /*rank*/) {}

  /// How long this lane itself has run, if the clock of its schedule (fiber_schedule::clock) says
  /// `now` at this moment. The scheduler's work before a lane's turn counts as the lane's. `now`
  /// without a clock.
  [[nodiscard]] virtual std::uint64_t time_run(std::uint64_t now) const { return now; }

 private:
  place place_;
  std::uint32_t thread_;
};

/// The lane that this OS thread currently runs; null outside a launch.
QUARRY_API inline thread_local host_lane* current_lane = nullptr;

/// Lets another OS thread run.
QUARRY_API void yield_thread();

/// A point at which a seeded scheduler may switch lanes. Has no effect on CUDA and on threads.
QUARRY_HD inline void interleave() {
#ifndef __CUDA_ARCH__
  if (current_lane != nullptr) current_lane->interleave();
#endif
}

}  // namespace quarry::inline QUARRY_ABI::simt
