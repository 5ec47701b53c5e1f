// SPDX-License-Identifier: Apache-2.0
// The table of heuristics. All code that parses or prints a heuristic uses it.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/pools/heuristic.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI {

/// A heuristic that takes a number: `name:N` in a text, `heuristic::code(N)` in a program.
struct named_heuristic {
  heuristic::trigger condition;
  char const* name;
  char const* help;  ///< when it fires, in a few words
  heuristic (*factory)(std::uint32_t number);
  char const* code;
  std::uint32_t max_number = ~std::uint32_t{0};
};
inline constexpr std::array named_heuristics{
    named_heuristic{heuristic::trigger::percent, "percent", "N % of its bytes are in empty blocks",
                    &heuristic::percent_releasable, "percent_releasable", 100},
    named_heuristic{heuristic::trigger::blocks, "blocks", "N blocks are empty",
                    &heuristic::blocks_releasable, "blocks_releasable"},
    named_heuristic{heuristic::trigger::cost, "cost",
                    "its empty blocks, summed over all frees, reach N MiB", &heuristic::by_cost,
                    "by_cost"}};

/// A modifier of a heuristic: `+name` in a text, `.code()` in a program.
struct named_modifier {
  char const* name;
  char const* help;
  bool (*is_set)(heuristic const& rule);
  heuristic (*factory)(heuristic const& rule);
  char const* code;
};
inline constexpr std::array named_modifiers{
    named_modifier{"hwm", "up to the peak use",
                   [](heuristic const& rule) { return rule.size == heuristic::target::high_water; },
                   [](heuristic const& rule) { return rule.to_high_water(); }, "to_high_water"},
    named_modifier{
        "cbg", "only before growth",
        [](heuristic const& rule) { return rule.checked_at == heuristic::moment::before_growth; },
        [](heuristic const& rule) { return rule.before_growth(); }, "before_growth"}};

/// Parses a heuristic: `never`, or a row of `named_heuristics` with any `named_modifiers`, as in
/// `percent:50+hwm`. Also accepts each `code` in place of its `name`. Throws `bad_argument`, which
/// names the wrong part.
[[nodiscard]] QUARRY_API heuristic heuristic_named(std::string_view text);
/// Returns the text of a heuristic; for a user's rule, «a rule of the program».
[[nodiscard]] QUARRY_API std::string heuristic_name(heuristic const& rule);
/// Returns the C++ expression that makes the heuristic. A user's rule is the variable `rule`.
[[nodiscard]] QUARRY_API std::string heuristic_code(heuristic const& rule);

namespace detail {
/// Like `heuristic_named`. An error message shows the text `whole`, of which `text` is a part, and
/// also lists the modifiers `others`.
[[nodiscard]] QUARRY_API heuristic heuristic_named(std::string_view text, std::string_view whole,
                                                   std::string_view others);
}  // namespace detail

}  // namespace quarry::inline QUARRY_ABI
