// SPDX-License-Identifier: Apache-2.0
// Finds the settings of a pool that suit a trace: replays it with many settings at once.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/replay.hpp"

#include <functional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// What memory is worth: a GiB at the peak costs as much as a tenth of a second of upstream calls,
/// about 1,400 blocks of 2 MiB.
inline constexpr double default_us_per_gib = 100'000;

struct tune_options {
  /// The settings to try; empty means `all_candidates()`. `pool.max_bytes` of each is replaced
  std::vector<replay_options> candidates = {};
  bytes capacity = no_limit;
  upstream_cost cost = {};
  double us_per_gib = default_us_per_gib;
  unsigned threads = 0;  ///< 0 means one for each processor
  /// Called by the calling thread after each batch, with the number of events until now
  std::function<void(std::uint64_t events)> progress = {};
};

/// What a trace needs with one setting.
struct tune_outcome {
  replay_options options = {};
  bool fits = false;
  /// No other outcome is as good in all three figures and better in one of them: peak, coalesces,
  /// time of the upstream
  bool is_on_front = false;
  bytes peak_reserved = 0;
  std::uint64_t coalesces = 0;
  std::uint64_t upstream_allocations = 0;
  double upstream_us = 0;
  double cost_us = 0;  ///< `upstream_us`, and the price of the peak
};

struct tune_result {
  bytes peak_allocated = 0;  ///< the least that any setting can reserve
  std::uint64_t events = 0;
  std::vector<tune_outcome> outcomes;  ///< in the order of the candidates
  /// The index of the outcome with the least cost among those that fit; the first one of equals.
  /// The number of outcomes if none fits
  std::size_t best = 0;
};

/// The placements, heuristics and sizes of blocks that `tune` tries by default: a few hundred.
[[nodiscard]] QUARRY_API std::vector<replay_options> all_candidates();
/// Pools whose first block is about as large as the most that was in use.
[[nodiscard]] QUARRY_API std::vector<replay_options> sized_candidates(bytes peak_allocated);
/// The heuristics of the poster (Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing
/// Heuristics to Improve Memory Performance", 2022, fig. 1), with the rules `rules` and blocks of
/// at least 1 MiB.
[[nodiscard]] QUARRY_API std::vector<replay_options> published_candidates(heuristic_rules rules);

/// Reads the trace once, and replays each batch with all settings, on several threads. Memory: the
/// allocations in use, for each setting. Throws what the reader throws.
[[nodiscard]] QUARRY_API tune_result tune(reader& trace, tune_options const& options);

/// C++ that makes a pool with these settings.
[[nodiscard]] QUARRY_API std::string code_for(replay_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace
