// SPDX-License-Identifier: Apache-2.0
// The strategies of a replay: their names, and the placements of those that are a `pool`.
#pragma once

#include "quarry/host/pools/placements.hpp"
#include "quarry/trace/replay.hpp"

#include <array>

namespace quarry::inline QUARRY_ABI::trace {

struct strategy_entry {
  strategy value;
  char const* name;
  char const* help;  // what it is, in a few words, for the command line
};

inline constexpr std::array strategy_entries{
    strategy_entry{strategy::fast, "fast", "the default"},
    strategy_entry{strategy::lowest_best_fit, "lowest-best-fit", "the lowest of equal chunks"},
    strategy_entry{strategy::oldest_best_fit, "oldest-best-fit", "the oldest of equal chunks"},
    strategy_entry{strategy::stitched, "stitched", "moves free pages"},
    strategy_entry{strategy::streams, "streams", "in the order of CUDA's streams"},
    strategy_entry{strategy::direct, "direct", "no pool"},
    strategy_entry{strategy::planned, "planned", "with --plan"},
    strategy_entry{strategy::planned_streams, "planned-streams", "with --plan, and streams"}};

/// Calls `use.template operator()<Placement>()` for a strategy that is a `pool`. Returns false for
/// the other strategies.
template <class Use>
bool with_placement_of(strategy value, Use const& use) {
  switch (value) {
    case strategy::fast:
      use.template operator()<fast_fit>();
      return true;
    case strategy::lowest_best_fit:
      use.template operator()<chunk_arena<lowest_best_fit>>();
      return true;
    case strategy::oldest_best_fit:
      use.template operator()<chunk_arena<oldest_best_fit>>();
      return true;
    case strategy::stitched:
    case strategy::streams:
    case strategy::direct:
    case strategy::planned:
    case strategy::planned_streams:
      break;
  }
  return false;
}

}  // namespace quarry::inline QUARRY_ABI::trace
