// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_pool.hpp"
#include "trace/replay/planned_replay.hpp"
#include "trace/strategies.hpp"

#include <algorithm>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

struct from_plan {
  from_plan(replay_options const& options, upstream_calls& calls)
      : memory{
            counted_resource{options.upstream, calls}, *options.plan, {.fallback = options.pool}} {}
  void* allocate(event const& request) {
    void* const result = memory.allocate(request.size);
    peak_granted = std::max(peak_granted, memory.counts().granted);
    return result;
  }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const {
    auto const found = memory.counts();
    return counts_of(found, found.fallback, peak_granted);
  }
  [[nodiscard]] plan_use use() const { return use_of(memory.counts()); }
  planned_pool<counted_resource> memory;
  bytes peak_granted = 0;
};

}  // namespace

std::unique_ptr<running_replay> replay_with_plan(replay_options const& options) {
  return replay_with_room<from_plan>(options);
}

}  // namespace quarry::inline QUARRY_ABI::trace
