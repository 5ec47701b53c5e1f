// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "quarry/host/pools/placements.hpp"

#include <nanobind/stl/optional.h>
#include <new>
#include <string>
#include <tuple>

namespace quarry::python {
namespace {

/// The heuristic of a pool that serves a program.
heuristic pool_heuristic_named(std::string const& text) {
  auto const named = trace::heuristic_named(text);
  if (named.rules != trace::heuristic_rules::quarry)
    throw bad_argument{"'" + text +
                       "' has rules of Umpire, which only a replay can follow; leave "
                       "out +2022 and +2024"};
  return named.value;
}

}  // namespace

text_dict replay_arguments(trace::replay_options const& options) {
  pool_options const& pool = options.pool;
  text_dict result;
  result["strategy"] = trace::name_of(options.placement);
  result["heuristic"] = trace::name_of({pool.coalesce, options.rules});
  result["first_block"] = pool.first_block;
  result["next_block"] = pool.next_block;
  result["growth_percent"] = pool.growth_percent;
  result["shrink_after"] = pool.shrink_after;
  return result;
}

namespace {

/// The tables of names, as dictionaries: the command line, its help and the documentation of the
/// package read them.
void add_tables(nb::module_& core) {
  using namespace nb::literals;
  nb::dict placements, strategies, heuristics;
  std::apply([&](auto const&... each) { ((placements[each.name] = each.help), ...); },
             named_placements);
  for (trace::strategy_text const& each : trace::strategy_texts()) {
    nb::dict row;
    row["help"] = each.help.c_str();
    row["is_placement"] = each.is_placement;
    row["has_blocks"] = each.has_blocks;
    row["coalesces"] = each.coalesces;
    row["needs_plan"] = each.needs_plan;
    strategies[each.name.c_str()] = row;
  }
  for (trace::option_text const& each : trace::heuristic_texts())
    heuristics[each.name.c_str()] = each.help.c_str();
  core.attr("placements") = placements;
  core.attr("strategies") = strategies;
  core.attr("heuristics") = heuristics;
  core.def(
      "strategy_named",
      [](std::string const& name) { return trace::name_of(trace::strategy_named(name)); }, "name"_a,
      "The strategy's name in `strategies`, also for a name of older versions. Raises "
      "BadArgument.");
}

}  // namespace

void add_options(nb::module_& core) {
  using namespace nb::literals;
  add_tables(core);
  nb::class_<pool_options>(core, "PoolOptions", "The options that all pools share.")
      .def(
          "__init__",
          [](pool_options* self, std::string const& heuristic, bytes first_block, bytes next_block,
             std::uint32_t growth_percent, bytes alignment, std::optional<bytes> max_bytes,
             std::uint64_t shrink_after, bytes red_zone, bool keeps_backtraces, std::string name) {
            new (self) pool_options{.first_block = first_block,
                                    .next_block = next_block,
                                    .growth_percent = growth_percent,
                                    .alignment = alignment,
                                    .max_bytes = limit_of(max_bytes),
                                    .coalesce = pool_heuristic_named(heuristic),
                                    .shrink_after = shrink_after,
                                    .name = std::move(name),
                                    .red_zone = red_zone,
                                    .keeps_backtraces = keeps_backtraces};
          },
          nb::kw_only(), "heuristic"_a, "first_block"_a, "next_block"_a, "growth_percent"_a,
          "alignment"_a, "max_bytes"_a.none(), "shrink_after"_a, "red_zone"_a = 0,
          "keeps_backtraces"_a = false, "name"_a = "");
}

}  // namespace quarry::python
