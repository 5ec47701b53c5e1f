// SPDX-License-Identifier: Apache-2.0
// The texts of strategies, heuristics, goals and keys.
#include "quarry/trace/separate.hpp"
#include "quarry/trace/tune.hpp"
#include "trace/strategies.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

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
  for (strategy_entry const& each : strategy_entries)
    if (each.value == placement) return each.name;
  return "unknown";
}

strategy strategy_named(std::string const& name) {
  std::array<strategy, strategy_entries.size()> all{};
  std::ranges::transform(strategy_entries, all.begin(), &strategy_entry::value);
  return value_named(name, all, "strategy", "strategies");
}

std::vector<strategy_text> strategy_texts() {
  std::vector<strategy_text> result;
  for (strategy_entry const& each : strategy_entries) result.push_back({each.name, each.help});
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
  auto const refuse = [&](std::string const& reason) {
    return bad_argument{"'" + text + "' is no heuristic: " + reason +
                        ". A heuristic is never, percent:N, blocks:N or cost:N, followed by any of "
                        "+hwm, +cbg, +2022, +2024"};
  };
  std::string_view left = text;
  bool is_over = false;
  auto const next = [&] {
    auto const end = left.find('+');
    auto const part = left.substr(0, end);
    is_over = end == std::string_view::npos;
    left = is_over ? std::string_view{} : left.substr(end + 1);
    return part;
  };
  std::string_view const rule = next();
  auto const colon = rule.find(':');
  std::string_view const name = rule.substr(0, colon);
  heuristic result;
  auto rules = heuristic_rules::quarry;
  if (name == "never" && colon == std::string_view::npos) {
    result = heuristic::never();
  } else {
    std::uint32_t number = 0;
    std::string_view const digits =
        colon == std::string_view::npos ? std::string_view{} : rule.substr(colon + 1);
    auto const parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size())
      throw refuse("'" + std::string{rule} + "' has no number from 0 to 4294967295");
    if (name == "percent") {
      if (number > 100) throw refuse("the percentage exceeds 100");
      result = heuristic::percent_releasable(number);
    } else if (name == "blocks") {
      result = heuristic::blocks_releasable(number);
    } else if (name == "cost") {
      result = heuristic::by_cost(number);
    } else {
      throw refuse("'" + std::string{name} + "' is unknown");
    }
  }
  while (!is_over) {
    std::string_view const part = next();
    if (part == "hwm") {
      result = result.to_high_water();
    } else if (part == "cbg") {
      result = result.before_growth();
    } else if (part == "2022") {
      rules = heuristic_rules::poster_2022;
    } else if (part == "2024") {
      rules = heuristic_rules::umpire_2024;
    } else {
      throw refuse("'+" + std::string{part} + "' is unknown");
    }
  }
  return {result, rules};
}

std::string name_of(replay_heuristic const& named) {
  heuristic const& rule = named.value;
  std::string result;
  switch (rule.condition) {
    case heuristic::trigger::never:
      return "never";
    case heuristic::trigger::percent:
      result = "percent:";
      break;
    case heuristic::trigger::blocks:
      result = "blocks:";
      break;
    case heuristic::trigger::cost:
      result = "cost:";
      break;
    case heuristic::trigger::user:
      return "a rule of the program";
  }
  result += std::to_string(rule.parameter);
  if (rule.size == heuristic::target::high_water) result += "+hwm";
  if (rule.checked_at == heuristic::moment::before_growth) result += "+cbg";
  if (named.rules == heuristic_rules::poster_2022) result += "+2022";
  if (named.rules == heuristic_rules::umpire_2024) result += "+2024";
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::trace
