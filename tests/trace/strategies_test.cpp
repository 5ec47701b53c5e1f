// SPDX-License-Identifier: Apache-2.0
#include "trace/strategies.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/trace/tune.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace quarry::test {
namespace strategies_test {

using trace::strategy;

/// The name of an enumerator in the source, from the compiler's text of a template's argument.
template <strategy Value>
constexpr std::string_view enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find_first_of(";]", text.find("Value = ")));
  return text.substr(text.rfind(':') + 1);
}
static_assert(enumerator<strategy::planned_streams>() == "planned_streams");

template <std::size_t... Index>
void expect_enumerators(std::index_sequence<Index...>) {
  std::pair<std::string_view, std::string_view> const rows[] = {
      {trace::strategy_entries[Index].name, enumerator<static_cast<strategy>(Index)>()}...};
  for (auto const& [name, enumerator] : rows) EXPECT_EQ(name, enumerator);
}

/// So a row that is not in the order of the enumerators is found.
TEST(Strategies, HaveTheNamesOfTheirEnumerators) {
  expect_enumerators(std::make_index_sequence<trace::strategy_count>{});
}

TEST(Strategies, AreFoundByTheirNames) {
  std::set<std::string> names;
  for (auto const& each : trace::strategy_entries) {
    EXPECT_STREQ(name_of(trace::strategy_named(each.name)), each.name);
    EXPECT_NE(std::string{each.help}, "");
    names.insert(each.name);
  }
  EXPECT_EQ(names.size(), trace::strategy_count);
}

TEST(Strategies, AreFoundByTheNamesOfOlderVersions) {
  EXPECT_EQ(trace::strategy_named("fast"), strategy::fast_fit);
  EXPECT_EQ(trace::strategy_named("lowest-best-fit"), strategy::lowest_best_fit);
  EXPECT_EQ(trace::strategy_named("planned-streams"), strategy::planned_streams);
}

TEST(Strategies, OtherNamesAreRefusedWithAllNames) {
  std::string names;
  for (auto const& each : trace::strategy_entries)
    names += (names.empty() ? "" : ", ") + std::string{each.name};
  for (std::string const name : {"best", "", "fast-"}) {
    try {
      (void)trace::strategy_named(name);
      ADD_FAILURE() << name;
    } catch (bad_argument const& refused) {
      EXPECT_EQ(refused.message(), "'" + name + "' is no strategy. The strategies are: " + names);
    }
  }
}

TEST(Strategies, AValueWithoutARowIsRefused) {
  auto const unknown = static_cast<strategy>(trace::strategy_count);
  EXPECT_EQ(trace::entry_of(unknown), nullptr);
  EXPECT_STREQ(name_of(unknown), "unknown");
  EXPECT_THROW(trace::replayer{{.placement = unknown}}, bad_argument);
  EXPECT_THROW((void)trace::code_for({.placement = unknown}), bad_argument);
}

}  // namespace strategies_test
}  // namespace quarry::test
