// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/heuristic.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace quarry::test {
namespace heuristic_test {

constexpr pool_state typical_state{.reserved = 1000,
                                   .releasable = 500,
                                   .releasable_blocks = 3,
                                   .allocated = 300,
                                   .peak_allocated = 700,
                                   .granted = 320,
                                   .peak_granted = 720,
                                   .free_chunks = 5};

TEST(Heuristic, TheNeverRuleDoesNotFire) {
  EXPECT_EQ(heuristic::never().wanted(typical_state), 0u);
}

TEST(Heuristic, CountsBlocks) {
  EXPECT_EQ(heuristic::blocks_releasable(3).wanted(typical_state), 1000u);
  EXPECT_EQ(heuristic::blocks_releasable(4).wanted(typical_state), 0u);
}

TEST(Heuristic, CountsShares) {
  EXPECT_EQ(heuristic::percent_releasable(50).wanted(typical_state), 1000u);
  EXPECT_EQ(heuristic::percent_releasable(51).wanted(typical_state), 0u);
  EXPECT_EQ(heuristic::percent_releasable(0).wanted(typical_state), 0u);
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(typical_state), 0u);
  pool_state empty = typical_state;
  empty.releasable = empty.reserved;
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(empty), 1000u);
}

TEST(Heuristic, AimsAtThePeakOfTheGrantedBytes) {
  EXPECT_EQ(heuristic::blocks_releasable(1).to_high_water().wanted(typical_state), 720u);
}

TEST(Heuristic, ByCostFiresWhenTheHoldingCostReachesThePrice) {
  auto const rule = heuristic::by_cost(10);
  pool_state state{.reserved = 100, .releasable = 50, .releasable_blocks = 2};
  state.holding_cost = 10 * 0x1p20 - 1;
  EXPECT_EQ(rule.wanted(state), 0u);
  state.holding_cost = 10 * 0x1p20;
  EXPECT_EQ(rule.wanted(state), 100u);
  state.releasable_blocks = 1;
  EXPECT_EQ(rule.wanted(state), 0u) << "a single block is coalesced already";
}

TEST(Heuristic, ByRuleReceivesTheStateAndReturnsTheSize) {
  auto const rule = heuristic::by_rule(
      [](pool_state const& pool, void*) -> bytes { return pool.releasable_blocks * 100; });
  EXPECT_EQ(rule.wanted(typical_state), 300u);
  EXPECT_EQ(heuristic::by_rule(nullptr).wanted(typical_state), 0u);
  EXPECT_EQ(heuristic::by_rule(nullptr), heuristic::never());

  bytes size = 7;
  auto const object = [&](pool_state const& pool) { return size + pool.allocated; };
  std::function<bytes(pool_state const&)> const function = object;
  EXPECT_EQ(heuristic::by_rule(object).wanted(typical_state), 307u);
  EXPECT_EQ(heuristic::by_rule(function).wanted(typical_state), 307u);
  size = 8;
  EXPECT_EQ(heuristic::by_rule(object).wanted(typical_state), 308u)
      << "the heuristic refers to the object";
  EXPECT_EQ(heuristic::by_rule(object), heuristic::by_rule(object));
  EXPECT_NE(heuristic::by_rule(object), heuristic::by_rule(function));
  EXPECT_EQ(heuristic::by_rule(object).before_growth().wanted(typical_state), 308u);
  auto const is_accepted = []<class Rule>(Rule&& temporary) {
    return requires { heuristic::by_rule(std::forward<Rule>(temporary)); };
  };
  EXPECT_TRUE(is_accepted(object));
  EXPECT_FALSE(is_accepted([](pool_state const&) { return bytes{1}; }))
      << "the temporary would be destroyed";
}

TEST(Heuristic, ByRuleDoesNotFireIfTheRuleThrowsOrIsEmpty) {
  auto const throws = [](pool_state const&) -> bytes { throw std::runtime_error{"no"}; };
  std::function<bytes(pool_state const&)> const empty;
  EXPECT_EQ(heuristic::by_rule(throws).wanted(typical_state), 0u);
  EXPECT_EQ(heuristic::by_rule(empty).wanted(typical_state), 0u);
  EXPECT_EQ(heuristic::by_rule(throws).wanted(typical_state), 0u) << "the rule can be called again";
}

struct ruled_pools : testing::Test {
  using ruled = pool<simulated_resource>;
  static pool_options options_with(heuristic rule) {
    return {.first_block = 1000, .next_block = 1000, .growth_percent = 0, .coalesce = rule};
  }
};

TEST_F(ruled_pools, CoalesceToTheSizeThatTheRuleReturns) {
  bytes wanted = 0;
  int rule_calls = 0;
  auto const rule = [&](pool_state const& pool) {
    ++rule_calls;
    EXPECT_GE(pool.reserved, pool.releasable);
    return pool.releasable_blocks >= 2 ? wanted : 0;
  };
  ruled first{simulated_resource{}, options_with(heuristic::by_rule(rule))};
  ruled second{simulated_resource{}, options_with(heuristic::by_rule(rule).before_growth())};
  for (ruled* source : {&first, &second}) {
    wanted = 0;
    void* const a = source->allocate(1000);
    void* const b = source->allocate(1000);
    rule_calls = 0;
    EXPECT_TRUE(source->deallocate(a));
    EXPECT_TRUE(source->deallocate(b));
    EXPECT_EQ(rule_calls, source == &first ? 2 : 0) << "after each free, or not at all";
    wanted = 5000;
    void* const c = source->allocate(1500);  // no free chunk fits
    EXPECT_TRUE(source->deallocate(c));
    EXPECT_EQ(rule_calls, source == &first ? 3 : 1);
    EXPECT_EQ(source->counts().coalesces, 1u);
    EXPECT_EQ(source->counts().reserved, 5008u) << "the size is rounded up";
    EXPECT_TRUE(source->audit().empty());
  }
}

TEST_F(ruled_pools, DoNotCallTheRuleFromWithinACoalesceOrTheRule) {
  ruled* self = nullptr;
  int depth = 0, deepest = 0, rule_calls = 0;
  bool is_on = false;
  std::vector<void*> spare;
  auto const rule = [&](pool_state const& pool) -> bytes {
    if (!is_on) return 0;
    ++rule_calls;
    deepest = std::max(deepest, ++depth);
    for (void* each : std::exchange(spare, {})) EXPECT_TRUE(self->deallocate(each));
    (void)self->deallocate(self->allocate(3000));
    self->coalesce(pool.reserved);
    --depth;
    return pool.reserved + 1000;
  };
  for (auto const& made : {heuristic::by_rule(rule), heuristic::by_rule(rule).before_growth()}) {
    ruled source{simulated_resource{}, options_with(made)};
    self = &source;
    is_on = false;
    for (int i = 0; i < 20; ++i) spare.push_back(source.allocate(700));
    rule_calls = 0;
    is_on = true;
    EXPECT_TRUE(source.deallocate(source.allocate(2000)));
    EXPECT_EQ(rule_calls, 1);
    EXPECT_EQ(deepest, 1);
    EXPECT_TRUE(source.audit().empty());
    EXPECT_EQ(source.counts().allocations_in_use, 0u);
  }
}

/// If a rule calls another pool, that pool may still coalesce.
TEST_F(ruled_pools, CallTheirRuleFromWithinTheRulesOfOtherPools) {
  ruled* upper = nullptr;
  ruled* lower = nullptr;
  int upper_calls = 0, lower_calls = 0;
  auto const upper_rule = [&](pool_state const&) -> bytes {
    ++upper_calls;
    EXPECT_TRUE(lower->deallocate(lower->allocate(100)));
    return 0;
  };
  auto const lower_rule = [&](pool_state const& pool) -> bytes {
    ++lower_calls;
    EXPECT_TRUE(upper->deallocate(upper->allocate(100)));
    return pool.reserved + 1000;
  };
  ruled upper_pool{simulated_resource{}, options_with(heuristic::by_rule(upper_rule))};
  ruled lower_pool{simulated_resource{}, options_with(heuristic::by_rule(lower_rule))};
  upper = &upper_pool;
  lower = &lower_pool;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(upper_pool.deallocate(upper_pool.allocate(10)));
    EXPECT_EQ(upper_calls, i)
        << "a call from within the pool's own rule does not call the rule again";
    EXPECT_EQ(lower_calls, i);
    EXPECT_EQ(lower_pool.counts().coalesces, static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(upper_pool.counts().coalesces, 0u);
}

TEST_F(ruled_pools, IgnoreASizeThatTheResourceCannotServe) {
  for (bytes const wanted : {bytes{1} << 50, ~bytes{0}}) {
    auto const rule = [&](pool_state const&) { return wanted; };
    ruled source{simulated_resource{}, options_with(heuristic::by_rule(rule))};
    void* const a = source.allocate(100);
    void* const b = source.allocate(100);
    EXPECT_TRUE(source.deallocate(a));
    EXPECT_EQ(source.size_of(b), 100u);
    EXPECT_TRUE(source.deallocate(b));
    EXPECT_TRUE(source.audit().empty());
    EXPECT_NO_THROW((void)source.allocate(100));
  }
}

TEST_F(ruled_pools, DoNotPassOnAnExceptionOfTheRule) {
  auto const rule = [](pool_state const&) -> bytes { throw std::runtime_error{"no"}; };
  for (auto const& made : {heuristic::by_rule(rule), heuristic::by_rule(rule).before_growth()}) {
    ruled source{simulated_resource{}, options_with(made)};
    void* const a = source.allocate(1000);
    void* const b = source.allocate(1000);
    EXPECT_TRUE(source.deallocate(a));
    EXPECT_TRUE(source.deallocate(b));
    EXPECT_TRUE(source.audit().empty());
  }
}

}  // namespace heuristic_test
}  // namespace quarry::test
