// SPDX-License-Identifier: Apache-2.0
#include "trace/replay/running_replay.hpp"

namespace quarry::inline QUARRY_ABI::trace {

running_replay::running_replay(replay_options const& options)
    : max_samples_{std::max<std::size_t>(options.max_samples & ~std::size_t{1}, 2)},
      sample_begin_{options.sample_begin},
      sample_end_{options.sample_end},
      next_sample_{std::max<std::uint64_t>(options.sample_begin, 1)},
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
  bool const is_inside = found_.events > sample_begin_;  // else the next event is the first one
  if (is_inside) samples.push_back(sample(counts));
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
  bool const is_last = found_.events >= sample_end_;
  next_sample_ = is_last ? 0 : std::min((found_.events / stride_ + 1) * stride_, sample_end_);
}

}  // namespace quarry::inline QUARRY_ABI::trace
