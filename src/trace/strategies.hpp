// SPDX-License-Identifier: Apache-2.0
// The table of the strategies of a replay. All that chooses a strategy by its name, or shows one,
// reads it.
#pragma once

#include "quarry/host/pools/placements.hpp"
#include "quarry/trace/replay.hpp"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

namespace quarry::inline QUARRY_ABI::trace {

class running_replay;

struct strategy_entry {
  char const* name;  // that of the enumerator
  char const* help;  // what it is, in a few words, for the command line
  std::unique_ptr<running_replay> (*factory)(replay_options const&);
  std::string (*code)(replay_options const&);  // that makes the pool, in a program
  bool is_placement = false;                   // of `pool`: takes a routing table
  bool has_blocks = false;                     // uses the sizes of blocks
  bool coalesces = false;                      // uses the heuristic and `shrink_after`
  bool needs_plan = false;
};

// The factories, each in a file of src/trace/strategies.
template <placement Placement>
std::unique_ptr<running_replay> replay_in_pool(replay_options const& options);
std::unique_ptr<running_replay> replay_stitched(replay_options const& options);
std::unique_ptr<running_replay> replay_streams(replay_options const& options);
std::unique_ptr<running_replay> replay_without_pool(replay_options const& options);
std::unique_ptr<running_replay> replay_with_plan(replay_options const& options);
std::unique_ptr<running_replay> replay_streams_with_plan(replay_options const& options);

// The code of a setting; in src/trace/strategy_code.cpp.
std::string code_of_pool(std::string_view placement, replay_options const& options);
std::string code_of_stitched_pool(replay_options const& options);
std::string code_of_stream_pool(replay_options const& options);
std::string code_of_resource(replay_options const& options);
std::string code_of_planned_pool(replay_options const& options);
std::string code_of_planned_stream_pool(replay_options const& options);

template <placement Placement>
[[nodiscard]] constexpr strategy_entry entry_of_placement(named_placement<Placement> const& each) {
  return {.name = each.name,
          .help = each.help,
          .factory = &replay_in_pool<Placement>,
          .code =
              [](replay_options const& options) {
                return code_of_pool(code_of_placement<Placement>(), options);
              },
          .is_placement = true,
          .has_blocks = true,
          .coalesces = true};
}

/// In the order of the enumerators: first all placements.
inline constexpr auto strategy_entries = std::apply(
    [](auto const&... each) {
      return std::array{entry_of_placement(each)...,
                        strategy_entry{.name = "stitched",
                                       .help = "moves free pages",
                                       .factory = &replay_stitched,
                                       .code = &code_of_stitched_pool},
                        strategy_entry{.name = "streams",
                                       .help = "stream-ordered, for programs with streams",
                                       .factory = &replay_streams,
                                       .code = &code_of_stream_pool,
                                       .has_blocks = true},
                        strategy_entry{.name = "direct",
                                       .help = "no pool",
                                       .factory = &replay_without_pool,
                                       .code = &code_of_resource},
                        strategy_entry{.name = "planned",
                                       .help = "with --plan",
                                       .factory = &replay_with_plan,
                                       .code = &code_of_planned_pool,
                                       .has_blocks = true,
                                       .coalesces = true,
                                       .needs_plan = true},
                        strategy_entry{.name = "planned_streams",
                                       .help = "with --plan, and streams",
                                       .factory = &replay_streams_with_plan,
                                       .code = &code_of_planned_stream_pool,
                                       .has_blocks = true,
                                       .needs_plan = true}};
    },
    named_placements);
static_assert(strategy_entries.size() == std::size_t{strategy_count},
              "each placement needs an enumerator of trace::strategy, in the order of the table");

/// Null if `value` is no enumerator.
[[nodiscard]] constexpr strategy_entry const* entry_of(strategy value) {
  auto const index = static_cast<std::size_t>(value);
  return index < strategy_entries.size() ? &strategy_entries[index] : nullptr;
}

/// Whether the heuristic of a replay's pool has published rules (published_growth).
[[nodiscard]] inline bool has_published_rules(replay_options const& options) {
  return options.rules != heuristic_rules::quarry &&
         options.pool.coalesce.condition != heuristic::trigger::never;
}

}  // namespace quarry::inline QUARRY_ABI::trace
