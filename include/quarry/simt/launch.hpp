// SPDX-License-Identifier: Apache-2.0
// Runs a kernel, a function object without arguments, on a CPU backend. CUDA's launch is in
// launch.cuh.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/simt/host_lane.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::simt {

/// The number of lanes: thread blocks x threads.
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

/// No lane can continue: each waits for a lane that has ended or that waits elsewhere. `what()`
/// lists the waiting lanes and their positions.
class QUARRY_API deadlock : public error_of<std::runtime_error> {
  using error_of::error_of;
};

/// How fibers are scheduled.
struct fiber_schedule {
  std::uint64_t seed = 1;
  /// The number of atomic accesses, out of 256, that let another lane run first.
  std::uint32_t switches = 64;
  /// The number of meetings of lanes, out of 256, that leave some lanes behind although all could
  /// continue together.
  std::uint32_t partial_groups = 64;
  /// Lanes that call a slow path (`indirect_call`) together leave it together, as on a GPU. There
  /// the compiler makes lanes that diverged at a branch wait for each other at its end. No lane may
  /// wait for work that another lane does only after such a return.
  bool returns_together = false;
};

/// Runs the grid as fibers in emulated warps of 32 lanes, all on this thread. The seed determines
/// every interleaving, so that a failure is reproducible. Throws `deadlock`, or the exception that
/// a lane threw. At most 65536 lanes. A program that calls it must also link quarry::fibers.
QUARRY_API void launch_fibers(grid lanes, fiber_schedule schedule, kernel_ref kernel);

/// Runs the grid on OS threads; each lane is its own group. With at most `max_threads` lanes, each
/// lane has its own thread and barriers work. With more lanes, each thread runs several lanes one
/// after another, and a barrier throws bad_state.
QUARRY_API void launch_threads(grid lanes, std::uint32_t max_threads, kernel_ref kernel);

}  // namespace quarry::inline QUARRY_ABI::simt
