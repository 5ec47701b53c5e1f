// SPDX-License-Identifier: Apache-2.0
// The texts of strategies, heuristics, goals and keys.
#include "quarry/host/pools/heuristics.hpp"
#include "quarry/trace/separate.hpp"
#include "quarry/trace/tune.hpp"
#include "trace/strategies.hpp"

#include <algorithm>
#include <array>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// The rules that a text of a heuristic may name.
struct named_rules {
  heuristic_rules value;
  char const* name;
  char const* help;
};
constexpr std::array all_rules{
    named_rules{heuristic_rules::poster_2022, "2022", "the rules of Umpire's poster"},
    named_rules{heuristic_rules::umpire_2024, "2024", "the rules of Umpire's release of 2024-10"}};

constexpr std::array goals{tune_goal::front, tune_goal::best, tune_goal::all};

/// The value among `all` that has this name. Throws `bad_argument`, which lists the names.
template <class Values>
[[nodiscard]] auto value_named(std::string const& name, Values const& all, char const* singular,
                               char const* plural) {
  std::string known;
  for (auto const each : all) {
    if (name == name_of(each)) return each;
    known += known.empty() ? "" : ", ";
    known += name_of(each);
  }
  throw bad_argument{"'" + name + "' is no " + singular + ". The " + plural + " are: " + known};
}

}  // namespace

char const* name_of(strategy placement) {
  strategy_entry const* const entry = entry_of(placement);
  return entry == nullptr ? "unknown" : entry->name;
}

strategy strategy_named(std::string const& name) {
  // Older versions had `fast` for fast_fit, and hyphens.
  std::string today = name == "fast" ? name_of(strategy::fast_fit) : name;
  std::ranges::replace(today, '-', '_');
  std::array<strategy, strategy_count> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<strategy>(i);
  bool const is_known =
      std::ranges::any_of(all, [&](strategy each) { return today == name_of(each); });
  return value_named(is_known ? today : name, all, "strategy", "strategies");
}

std::vector<strategy_text> strategy_texts() {
  std::vector<strategy_text> result;
  for (strategy_entry const& each : strategy_entries)
    result.push_back({each.name, each.help, each.is_placement, each.has_blocks, each.coalesces,
                      each.needs_plan});
  return result;
}

char const* name_of(tune_goal goal) {
  switch (goal) {
    case tune_goal::front:
      return "front";
    case tune_goal::best:
      return "best";
    case tune_goal::all:
      return "all";
  }
  return "unknown";
}

tune_goal tune_goal_named(std::string const& name) {
  return value_named(name, goals, "goal of tune", "goals");
}

char const* name_of(route_key key) {
  switch (key) {
    case route_key::size:
      return "size";
    case route_key::call_site:
      return "call_site";
    case route_key::call_site_and_size:
      return "call_site_and_size";
    case route_key::phase:
      return "phase";
    case route_key::phase_and_size:
      return "phase_and_size";
  }
  return "unknown";
}

route_key route_key_named(std::string const& name) {
  return value_named(name, all_route_keys, "key of separate", "keys");
}

replay_heuristic heuristic_named(std::string const& text) {
  std::string decision;  // without the names of rules
  std::string others;
  auto rules = heuristic_rules::quarry;
  for (named_rules const& each : all_rules) others += std::string{", +"} + each.name;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('+', begin);
    std::string const part = text.substr(begin, end - begin);
    auto const* const found = std::ranges::find(all_rules, part, &named_rules::name);
    if (begin != 0 && found != all_rules.end()) {
      rules = found->value;
    } else {
      decision += (begin == 0 ? "" : "+") + part;
    }
  }
  return {detail::heuristic_named(decision, text, others), rules};
}

std::string name_of(replay_heuristic const& named) {
  std::string result = heuristic_name(named.value);
  if (named.value.condition == heuristic::trigger::never) return result;
  for (named_rules const& each : all_rules)
    if (each.value == named.rules) result += std::string{"+"} + each.name;
  return result;
}

std::vector<option_text> heuristic_texts() {
  std::vector<option_text> result{{"never", ""}};
  for (named_heuristic const& each : named_heuristics)
    result.push_back({std::string{each.name} + ":N", each.help});
  for (named_modifier const& each : named_modifiers)
    result.push_back({std::string{"+"} + each.name, each.help});
  for (named_rules const& each : all_rules)
    result.push_back({std::string{"+"} + each.name, each.help});
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::trace
