// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/pool.hpp"
#include "quarry/trace/replay.hpp"

#include <algorithm>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {

/// The growth of a pool that coalesces by published rules, for replays (heuristic_rules).
template <memory_resource Resource, placement Placement>
class published_growth : public detail::pool_growth<Resource, Placement> {
  using ours = detail::pool_growth<Resource, Placement>;

 public:
  published_growth(Resource upstream, pool_options const& options, heuristic_rules rules)
      : ours{std::move(upstream), options}, is_poster_{rules == heuristic_rules::poster_2022} {}

  [[nodiscard]] std::uint64_t grow(chunk_sizes needed) {
    bytes const size = this->size_of_block(needed);  // the coalesce does not change it
    if (this->coalesces_at(heuristic::moment::before_growth)) {
      if (bytes const target = wanted()) coalesce(target);
    }
    return this->add_block(size, needed);
  }
  void coalesce(bytes target) noexcept {
    auto& arena = this->arena();
    if (!is_poster_ && arena.free_chunks() < 2) return;
    this->release();
    if (arena.reserved() >= target) return;
    try {
      chunk_sizes const missing = this->sizes_for(target - arena.reserved());
      auto base = arena.allocate(missing);
      if (!base) {
        base = this->add_block(std::max(missing.granted, this->source().min_block()), missing);
        this->count_coalesce();
      }
      this->count_granted();
      (void)arena.deallocate(*base);
    } catch (...) {  // the pool continues without that block
    }
  }
  [[nodiscard]] bytes wanted() noexcept {
    return this->ask([this](pool_state state) -> bytes {
      heuristic const& rule = this->options().coalesce;
      if (!is_poster_ || rule.condition == heuristic::trigger::user) return rule.wanted(state);
      // the state with which Quarry's rule decides as the poster's
      state.peak_granted = state.peak_allocated;
      if (rule.condition == heuristic::trigger::percent && state.free_chunks < 2)
        state.releasable = 0;
      if (rule.condition == heuristic::trigger::blocks) {  // more than n, not n or more
        if (state.releasable_blocks == 0) return 0;
        --state.releasable_blocks;
      }
      return rule.wanted(state);
    });
  }

 private:
  bool is_poster_;
};

}  // namespace quarry::inline QUARRY_ABI::trace
