// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/heuristics.hpp"

#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <string>

namespace quarry::test {
namespace heuristics_test {

/// Calls `use(text, heuristic)` for each row with each choice of modifiers.
template <class Use>
void for_each_combination(Use const& use) {
  for (named_heuristic const& row : named_heuristics) {
    for (unsigned chosen = 0; chosen < 1u << named_modifiers.size(); ++chosen) {
      std::string text = std::string{row.name} + ":7";
      heuristic rule = row.factory(7);
      for (std::size_t i = 0; i < named_modifiers.size(); ++i) {
        if ((chosen >> i & 1) == 0) continue;
        text += std::string{"+"} + named_modifiers[i].name;
        rule = named_modifiers[i].factory(rule);
      }
      use(text, rule);
    }
  }
}

TEST(Heuristics, RoundTrip) {
  std::size_t count = 0;
  for_each_combination([&](std::string const& text, heuristic const& rule) {
    EXPECT_EQ(heuristic_named(text), rule) << text;
    EXPECT_EQ(heuristic_name(rule), text);
    ++count;
  });
  EXPECT_EQ(count, 12u);
  EXPECT_EQ(heuristic_named("never"), heuristic::never());
  EXPECT_EQ(heuristic_name(heuristic::never()), "never");
}

TEST(Heuristics, RowsMakeTheirCondition) {
  for (named_heuristic const& row : named_heuristics) {
    EXPECT_EQ(row.factory(7).condition, row.condition) << row.name;
    EXPECT_EQ(row.factory(7).parameter, 7u) << row.name;
  }
}

TEST(Heuristics, HaveTheNamesOfTheirFunctionsToo) {
  EXPECT_EQ(heuristic_named("percent_releasable:50+to_high_water"),
            heuristic::percent_releasable(50).to_high_water());
  EXPECT_EQ(heuristic_named("by_cost:3+before_growth"), heuristic::by_cost(3).before_growth());
}

TEST(Heuristics, CodeIsThatOfAProgram) {
  EXPECT_EQ(heuristic_code(heuristic::blocks_releasable(3).before_growth().to_high_water()),
            "quarry::heuristic::blocks_releasable(3).to_high_water().before_growth()");
  EXPECT_EQ(heuristic_code(heuristic::never()), "quarry::heuristic::never()");
  auto const rule = [](pool_state const&) { return bytes{0}; };
  EXPECT_EQ(heuristic_code(heuristic::by_rule(rule)), "quarry::heuristic::by_rule(rule)");
  EXPECT_EQ(heuristic_name(heuristic::by_rule(rule)), "a rule of the program");
}

TEST(Heuristics, OtherTextsAreRefusedWithTheWrongPartAndTheGrammar) {
  for (auto const& [text, reason] : std::initializer_list<std::pair<char const*, char const*>>{
           {"often", "'often' is unknown"},
           {"percent", "'percent' has no number from 0 to 4294967295"},
           {"percent:101", "the number exceeds 100"},
           {"blocks:2+now", "'+now' is unknown"}}) {
    try {
      (void)heuristic_named(text);
      ADD_FAILURE() << text;
    } catch (bad_argument const& refused) {
      EXPECT_EQ(refused.message(), "'" + std::string{text} + "' is no heuristic: " + reason +
                                       ". A heuristic is never, percent:N, blocks:N or cost:N, "
                                       "followed by any of +hwm, +cbg");
    }
  }
}

}  // namespace heuristics_test
}  // namespace quarry::test
