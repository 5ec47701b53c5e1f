// SPDX-License-Identifier: Apache-2.0
// Runs a kernel on a CPU backend. A kernel is a function object without arguments. launch.cuh
// launches kernels on CUDA.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/simt/host_lane.hpp"

#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::simt {

/// The size of a launch: the number of thread blocks, and the number of threads of each block.
struct grid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;
};

/// A reference to a kernel of any type. The kernel must outlive the reference.
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

/// No lane can continue: each waits for a lane that has ended or that waits elsewhere. `what()`
/// lists the waiting lanes and their positions.
class QUARRY_API deadlock : public error_of<std::runtime_error> {
  using error_of::error_of;
};

/// Memory for the stacks of fibers: that of lane i begins at `base + i * distance`. A stack grows
/// down from its end.
struct fiber_stacks {
  char* base = nullptr;
  std::size_t size = 0;
  std::size_t distance = 0;
};

/// The lanes that one call of `launch_fibers` runs, if several threads share a grid: each calls
/// `launch_fibers` with its part at the same time. A warp whose lanes are in two parts has groups
/// within each part. Barriers throw `bad_state`.
struct lane_part {
  std::uint64_t first = 0;
  std::uint64_t count = ~std::uint64_t{0};  // at most; lanes that the grid lacks do not count
  std::uint32_t number = 0;                 // what `host_lane::thread` returns
};

/// How fibers are scheduled.
struct fiber_schedule {
  std::uint64_t seed = 1;
  /// The share of atomic accesses before which another lane may run, in units of 1/256.
  std::uint32_t switches = 64;
  /// The share of coalesced groups that leave out some lanes although all could continue together,
  /// in units of 1/256.
  std::uint32_t partial_groups = 64;
  /// Lanes that call a slow path (`indirect_call`) together leave it together, as on a GPU. On a
  /// GPU the compiler makes lanes that diverged at a branch wait for each other at the branch's
  /// end. No lane may wait for work that another lane does only after such a return.
  bool returns_together = false;
  /// The caller's memory for all stacks. Without it, each lane has a stack of 128 KiB.
  fiber_stacks stacks = {};
  lane_part part = {};
  /// What measures how long each lane runs (host_lane::time_run). It is read at each switch.
  std::uint64_t (*clock)() = nullptr;
};

/// Runs the grid, or `schedule.part` of it, as fibers in emulated warps of 32 lanes on this thread.
/// The seed determines every interleaving, so that a failure is reproducible. Throws `deadlock`, or
/// the exception that a lane threw. Throws `bad_argument` for more than 2^20 lanes. A program that
/// calls it must also link quarry::fibers.
QUARRY_API void launch_fibers(grid lanes, fiber_schedule schedule, kernel_ref kernel);

/// Runs the grid on OS threads; each lane is its own group. With at most `max_threads` lanes, each
/// lane has its own thread and barriers work. With more lanes, each thread runs several lanes one
/// after another, and a barrier throws `bad_state`. Throws the first exception that a lane threw,
/// and `bad_argument` if `max_threads` is 0. Throws std::system_error if the system starts too few
/// threads; if each lane has its own thread, no lane has run then.
QUARRY_API void launch_threads(grid lanes, std::uint32_t max_threads, kernel_ref kernel);

}  // namespace quarry::inline QUARRY_ABI::simt
