// SPDX-License-Identifier: Apache-2.0
#include "trace/replay/stream_replay.hpp"
#include "trace/strategies.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

struct in_stream_order : stream_ordered<stream_pool<counted_resource, traced_streams>> {
  in_stream_order(replay_options const& options, upstream_calls& calls)
      : stream_ordered{options, calls, stream_options(options.pool)} {}
  [[nodiscard]] pool_counts counts() const {
    pool_counts result = counts_of(this->memory.counts());
    result.peak_granted = this->peak_granted;
    return result;
  }
};

}  // namespace

std::unique_ptr<running_replay> replay_streams(replay_options const& options) {
  return replay_in<in_stream_order>(options);
}

}  // namespace quarry::inline QUARRY_ABI::trace
