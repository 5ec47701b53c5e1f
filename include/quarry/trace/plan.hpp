// SPDX-License-Identifier: Apache-2.0
// Places the allocations of a recorded trace in one range, before the program runs again. A
// `planned_pool` then serves the program from the plan.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/pools/plan.hpp"
#include "quarry/trace/event.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace quarry::inline QUARRY_ABI::trace {

class reader;

struct plan_options {
  bytes alignment = 256;  ///< of the places; a power of two from 16 to 16384
  /// Plans one period of a trace that repeats itself, and the allocations before the period
  bool finds_period = true;
  /// Placing stops after about this number of steps, or as soon as the size exceeds the lower bound
  /// by at most 1/1000. A step compares two allocations. The first result may need more steps
  std::uint64_t max_steps = 250'000'000;
  std::uint64_t seed = 1;  ///< the seed of the restarts. Equal seeds give equal plans
  /// Called several times a second while `make_plan` places the allocations, with the number of
  /// steps so far. If it throws, `make_plan` ends with this exception
  std::function<void(std::uint64_t steps)> progress = {};
};

/// The maximum number of allocations of a trace for `make_plan`, which takes about 250 bytes of
/// memory for each. The plan itself, for example one period of the trace, may have
/// `max_plan_allocations`.
inline constexpr std::size_t max_trace_allocations = std::size_t{1} << 26;

/// Places all allocations of a trace. Allocations that the trace does not free live to its end.
/// Throws `bad_argument` if an option is outside its range or the trace is too large; the message
/// names the limit. Throws what the reader throws.
[[nodiscard]] QUARRY_API plan make_plan(std::span<event const> events,
                                        plan_options const& options = {});
[[nodiscard]] QUARRY_API plan make_plan(reader& trace, plan_options const& options = {});

/// The sequence of sizes that a trace repeats, in one part or in several parts.
struct period {
  std::uint64_t begin = 0;   ///< the first allocation of the first long part
  std::uint64_t length = 0;  ///< allocations in one repetition; 0 if the trace has no period
  double repetitions = 0;    ///< in all parts; at least 3

  friend bool operator==(period const&, period const&) = default;
};
/// Finds the period of a trace. Each part repeats the period at least three times. All parts
/// together have at least half of the trace's allocations and half of their bytes. Other
/// allocations may lie between the parts, such as those of an evaluation. Within a part, lifetimes
/// may differ, and so may single sizes, such as the size of a batch. If sizes do not repeat, the
/// function finds the period by call sites; then all sizes may differ. O(n log n) for n events.
[[nodiscard]] QUARRY_API period find_period(std::span<event const> events, bytes alignment = 256);

}  // namespace quarry::inline QUARRY_ABI::trace
