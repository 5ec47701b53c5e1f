// SPDX-License-Identifier: Apache-2.0
#include "trace/replay/running_replay.hpp"

namespace quarry::inline QUARRY_ABI::trace {

running_replay::running_replay(replay_options const& options)
    : max_samples_{std::max<std::size_t>(options.max_samples & ~std::size_t{1}, 2)},
      calls_{options.cost},
      measures_{options.upstream != nullptr},
      is_limited_{measures_ || options.pool.max_bytes != no_limit} {}

replay_sample running_replay::sample(pool_counts const& counts) const {
  return {found_.events,       time_,
          peak_allocated_,     counts.granted,
          calls_.peak,         counts.releasable,
          counts.largest_free, calls_.allocations,
          counts.coalesces};
}

void running_replay::take_sample(pool_counts const& counts) {
  auto& samples = found_.samples;
  samples.push_back(sample(counts));
  calls_.peak = calls_.reserved;
  peak_allocated_ = allocated_;
  if (samples.size() == max_samples_) {
    for (std::size_t i = 0; i + 1 < samples.size(); i += 2) {
      replay_sample merged = samples[i + 1];
      merged.allocated = std::max(merged.allocated, samples[i].allocated);
      merged.reserved = std::max(merged.reserved, samples[i].reserved);
      samples[i / 2] = merged;
    }
    samples.resize(samples.size() / 2);
    stride_ *= 2;
  }
  next_sample_ = (found_.events / stride_ + 1) * stride_;
}

}  // namespace quarry::inline QUARRY_ABI::trace
