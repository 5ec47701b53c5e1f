// SPDX-License-Identifier: Apache-2.0
// Finds the key that separates the temporary allocations of a trace best: learns routes from one
// part of the trace, and replays the other part with these routes.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/replay.hpp"
#include "quarry/trace/separate.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

struct key_comparison_options {
  std::vector<route_key> keys = {};       ///< empty: all keys
  std::uint64_t temporary_events = 1000;  ///< as in `separate_options`
  double learn = 0.5;  ///< the share of the events to learn from: more than 0 and less than 1
  /// The pools, with a strategy that takes a routing table. Each key replaces `routing` and
  /// `call_sites`
  replay_options replay = {};
  /// Called after each batch with the number of events that both passes have read
  std::function<void(std::uint64_t events)> progress = {};
};

/// The routes learned from the first part for a key, and the replay of the other part in their
/// pools.
struct compared_key {
  route_key key = route_key::size;
  routing_table table = routing_table{};
  replay_result apart = {};
};

struct key_comparison {
  std::uint64_t events = 0;
  std::uint64_t learned_events = 0;
  replay_result together;          ///< the other part in one pool
  std::vector<compared_key> keys;  ///< in the order of the options
  /// The index of the best key. A key with which the trace fits is better; then a key with fewer
  /// failures; then a key with which the pools reserve less. Of equal keys the first key is best.
  /// The number of keys if no key is better than one pool
  std::size_t best = 0;
  name_tables names;
  std::vector<std::string> problems = {};  ///< `reader::problems` of the trace
  std::uint64_t problem_count = 0;
};

/// Learns from the first part of a trace, and replays the other part in one pool and with the table
/// of each key. The other part begins with the allocations that are in use at that time. Reads the
/// trace twice. Memory: proportional to the allocations in use, for each key. Throws `bad_argument`
/// if `learn` is outside its range, or if the strategy takes no routing table. Throws `bad_trace`
/// if the trace has changed between the two passes, and what the source and its readers throw.
[[nodiscard]] QUARRY_API key_comparison compare_keys(trace_source const& open,
                                                     key_comparison_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace
