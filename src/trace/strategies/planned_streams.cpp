// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_stream_pool.hpp"
#include "trace/replay/planned_replay.hpp"
#include "trace/replay/stream_replay.hpp"
#include "trace/strategies.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

struct from_plan_in_stream_order
    : stream_ordered<planned_stream_pool<counted_resource, traced_streams>> {
  from_plan_in_stream_order(replay_options const& options, upstream_calls& calls)
      : stream_ordered{options, calls, *options.plan,
                       planned_stream_pool_options{.fallback = stream_options(options.pool)}} {}
  [[nodiscard]] pool_counts counts() const {
    auto const found = this->memory.counts();
    return counts_of(found, counts_of(found.fallback), this->peak_granted);
  }
  [[nodiscard]] plan_use use() const { return use_of(this->memory.counts()); }
};

}  // namespace

std::unique_ptr<running_replay> replay_streams_with_plan(replay_options const& options) {
  return replay_with_room<from_plan_in_stream_order>(options);
}

}  // namespace quarry::inline QUARRY_ABI::trace
