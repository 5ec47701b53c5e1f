// SPDX-License-Identifier: Apache-2.0
// Finds the settings of a pool that suit a trace: replays the trace with many settings at once.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/replay.hpp"
#include "quarry/trace/separate.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The default price of memory: a GiB at the peak costs as much as a tenth of a second of upstream
/// calls. This is the time of about 1,400 blocks of 2 MiB.
inline constexpr double default_us_per_gib = 100'000;

/// The result that `tune` looks for. It drops a setting as soon as the setting cannot be part of
/// this result. The three figures of a setting (peak, coalesces, and time of the upstream) only
/// grow during a replay, so `tune` can drop settings early.
enum class tune_goal : std::uint8_t {
  front,  ///< the settings that no other setting beats, and the best setting
  best,   ///< only the best setting: drops more settings
  all,    ///< the outcomes of all settings: drops none
};
[[nodiscard]] QUARRY_API char const* name_of(tune_goal goal);
/// Returns the goal with this name. Throws `bad_argument`, which lists the names.
[[nodiscard]] QUARRY_API tune_goal tune_goal_named(std::string const& name);

struct tune_options {
  /// The settings to try. Empty means `all_candidates()`, `sized_candidates` of the trace's peak,
  /// and `separated_candidates` of the tables learned from the trace. `tune` replaces
  /// `pool.max_bytes` of each. A candidate with a routing table also needs `call_sites` of the
  /// trace
  std::vector<replay_options> candidates = {};
  tune_goal goal = tune_goal::front;
  bytes capacity = no_limit;
  upstream_cost cost = {};
  double us_per_gib = default_us_per_gib;  ///< the price of a GiB at the peak, in microseconds
  unsigned threads = 0;                    ///< 0: one for each processor
  /// Called by the calling thread after each batch, with the number of events read so far. Each
  /// pass over the trace counts
  std::function<void(std::uint64_t events)> progress = {};
};

/// The result of replaying a trace with one setting. If the setting was dropped or does not fit,
/// its replay ended early. Then the figures are lower bounds.
struct tune_outcome {
  replay_options options = {};
  bool fits = false;  ///< the whole trace was replayed, and every allocation succeeded
  /// The replay ended early, because another outcome is as good or better in all three figures, or,
  /// with the goal `best`, costs less
  bool is_dropped = false;
  /// No other outcome is as good in all three figures and better in one of them. Among equal
  /// outcomes only the first is on the front. With the goal `best`, only outcomes that were not
  /// dropped are compared
  bool is_on_front = false;
  std::uint64_t events = 0;  ///< number of replayed events
  bytes peak_reserved = 0;
  std::uint64_t coalesces = 0;
  std::uint64_t upstream_allocations = 0;
  double upstream_us = 0;
  double cost_us = 0;  ///< `upstream_us` plus the price of the peak
};

/// The routes learned from the whole trace for `key`.
struct learned_routes {
  route_key key = route_key::size;
  std::shared_ptr<routing_table const> table;
};

struct tune_result {
  bytes peak_allocated = 0;                ///< a lower bound of the bytes that any setting reserves
  std::uint64_t recorded_failures = 0;     ///< events `fail`; tried again if there is a capacity
  bytes peak_with_failures = 0;            ///< as in `replay_result`
  std::vector<std::string> problems = {};  ///< `reader::problems` of the trace
  std::uint64_t problem_count = 0;
  std::uint64_t events = 0;
  std::vector<tune_outcome> outcomes;  ///< in the order of the candidates
  /// The index of the outcome with the least cost on the front; the first of equal outcomes. The
  /// number of outcomes if no setting fits
  std::size_t best = 0;
  /// The tables that `tune` made; `options.routing` of an outcome points to one of them. Outcomes
  /// have no `options.call_sites`
  std::vector<learned_routes> routes = {};
};

/// The placements, heuristics and sizes of blocks that `tune` tries by default: a few hundred.
[[nodiscard]] QUARRY_API std::vector<replay_options> all_candidates();
/// Pools whose first block has about the size of the peak of the bytes in use.
[[nodiscard]] QUARRY_API std::vector<replay_options> sized_candidates(bytes peak_allocated);
/// Pools that a table separates into several. The table must outlive the candidates.
[[nodiscard]] QUARRY_API std::vector<replay_options> separated_candidates(
    routing_table const& table);
/// The heuristics of the poster (Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing
/// Heuristics to Improve Memory Performance", 2022, fig. 1), with the rules `rules` and blocks of
/// at least 1 MiB.
[[nodiscard]] QUARRY_API std::vector<replay_options> published_candidates(heuristic_rules rules);

/// Replays the trace with all settings, on several threads. Dropped settings do not change the
/// front and the best outcome, which are those of complete replays. Reads the trace up to four
/// times. Memory: proportional to the allocations in use, for each setting. Throws `bad_argument`
/// if a cost is negative or not finite, or if a replayer refuses a candidate. Throws `bad_trace` if
/// the trace changes between two passes, and what the source and its readers throw.
[[nodiscard]] QUARRY_API tune_result tune(trace_source const& open, tune_options const& options);

/// Returns C++ code that makes a pool `memory` with these settings. The pool follows its heuristic
/// by Quarry's rules. The code uses variables of the program: `device`, `path` (of a plan or a
/// routing table), and `rule` (of a heuristic with a rule of the program).
[[nodiscard]] QUARRY_API std::string code_for(replay_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace
