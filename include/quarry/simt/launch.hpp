// SPDX-License-Identifier: Apache-2.0
// Runs a kernel, a function object without arguments, on one of the machines. CUDA's launch is in
// launch.cuh.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/simt/host_lane.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::simt {

/// How many lanes: blocks x threads.
struct grid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;
};

/// A kernel of any type, which must outlive this reference.
class kernel_ref {
 public:
  template <class Kernel>
  kernel_ref(Kernel const& kernel)
      : kernel_{&kernel},
        call_{[](void const* called) { (*static_cast<Kernel const*>(called))(); }} {}

  void operator()() const { call_(kernel_); }

 private:
  void const* kernel_;
  void (*call_)(void const*);
};

/// No lane can go on: each waits for one that has ended or that waits elsewhere. `what()` lists
/// which lanes wait where.
class QUARRY_API deadlock : public error_of<std::runtime_error> {
  using error_of::error_of;
};

/// How fibers are scheduled.
struct fiber_schedule {
  std::uint64_t seed = 1;
  /// Of 256 accesses to atomics, how many let another lane run first.
  std::uint32_t switches = 64;
  /// Of 256 times that lanes meet, how many leave some of them behind although they could go
  /// together.
  std::uint32_t partial_groups = 64;
  /// Lanes that call a slow path (`indirect_call`) together leave it together, as on a GPU: there
  /// the compiler has lanes that parted at a branch wait for each other at its end. What a lane
  /// still has to do then, nobody may wait for.
  bool returns_together = false;
};

/// Runs the grid as fibers in emulated warps of 32 lanes, all on this thread; the seed decides
/// every interleaving, so that a failure can be run again. Throws `deadlock`, or what a lane threw.
/// At most 65536 lanes. A program that calls it links quarry::fibers, too.
QUARRY_API void launch_fibers(grid lanes, fiber_schedule schedule, kernel_ref kernel);

/// Runs the grid on OS threads, each lane a group of its own. With at most `max_threads` lanes each
/// has its own thread and barriers work; with more, threads take one lane after the other and a
/// barrier throws bad_state.
QUARRY_API void launch_threads(grid lanes, std::uint32_t max_threads, kernel_ref kernel);

}  // namespace quarry::inline QUARRY_ABI::simt
