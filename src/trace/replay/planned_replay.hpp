// SPDX-License-Identifier: Apache-2.0
// Replays with a plan.
#pragma once

#include "quarry/host/pools/plan.hpp"
#include "quarry/host/pools/planned_memory.hpp"
#include "trace/replay/memory_replay.hpp"

#include <exception>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {

/// The counts of a planned pool. `peak_granted` is that of the plan's places and the fallback
/// together.
template <class FallbackCounts>
[[nodiscard]] pool_counts counts_of(planned_counts<FallbackCounts> const& found,
                                    pool_counts const& fallback, bytes peak_granted) {
  pool_counts result = with_counts(fallback, found);
  result.granted = found.granted;
  result.peak_granted = peak_granted;
  result.allocations = found.allocations;
  result.deallocations = found.deallocations;
  result.blocks_allocated += found.reserved != found.fallback.reserved;
  return result;
}
template <class FallbackCounts>
[[nodiscard]] plan_use use_of(planned_counts<FallbackCounts> const& found) {
  return {found.planned, found.occupied, found.unplanned, found.jumps,
          found.fallback.peak_reserved};
}

/// In the place of a pool whose plan has no memory: no allocation succeeds, for the reason of the
/// exception that is handled when the object is made.
struct no_memory {
  no_memory(replay_options const&, upstream_calls&) {}
  [[nodiscard]] void* allocate(event const&) const { std::rethrow_exception(failure); }
  void deallocate(void*, bytes, event const&) {}
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const { return {}; }
  std::exception_ptr failure = std::current_exception();
};

/// Replays in a `Memory` that follows the plan of the options. If there is no memory for the plan's
/// block, no allocation succeeds.
template <class Memory>
[[nodiscard]] std::unique_ptr<running_replay> replay_with_room(replay_options const& options) {
  if (options.plan == nullptr)
    throw bad_argument{std::string{"replay: the strategy "} + name_of(options.placement) +
                       " needs a plan (replay_options::plan)"};
  try {
    return replay_in<Memory>(options);
  } catch (out_of_memory const&) {
    return replay_in<no_memory>(options);
  }
}

}  // namespace quarry::inline QUARRY_ABI::trace
