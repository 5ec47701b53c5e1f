// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/heuristic.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {
namespace heuristic_test {

constexpr pool_state some{.reserved = 1000,
                          .releasable = 500,
                          .releasable_blocks = 3,
                          .allocated = 300,
                          .peak_allocated = 700,
                          .granted = 320,
                          .peak_granted = 720,
                          .free_chunks = 5};

TEST(Heuristic, NeverFiresUnlessToldTo) { EXPECT_EQ(heuristic::never().wanted(some), 0u); }

TEST(Heuristic, CountsBlocks) {
  EXPECT_EQ(heuristic::blocks_releasable(3).wanted(some), 1000u);
  EXPECT_EQ(heuristic::blocks_releasable(4).wanted(some), 0u);
  EXPECT_EQ(heuristic::blocks_releasable(3).by(heuristic_rules::poster_2022).wanted(some), 0u)
      << "more than three";
  EXPECT_EQ(heuristic::blocks_releasable(2).by(heuristic_rules::poster_2022).wanted(some), 1000u);
}

TEST(Heuristic, CountsShares) {
  EXPECT_EQ(heuristic::percent_releasable(50).wanted(some), 1000u);
  EXPECT_EQ(heuristic::percent_releasable(51).wanted(some), 0u);
  EXPECT_EQ(heuristic::percent_releasable(0).wanted(some), 0u);
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(some), 0u);
  pool_state empty = some;
  empty.releasable = empty.reserved;
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(empty), 1000u);
}

TEST(Heuristic, OfThePosterSeesNothingReleasableInAPoolOfOneFreeChunk) {
  pool_state one = some;
  one.free_chunks = 1;
  one.releasable = one.reserved;
  EXPECT_EQ(heuristic::percent_releasable(100).by(heuristic_rules::poster_2022).wanted(one), 0u);
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(one), 1000u);
}

TEST(Heuristic, AimsAtTheHighWaterOfItsRules) {
  auto const one = heuristic::blocks_releasable(1).to_high_water();
  EXPECT_EQ(one.wanted(some), 720u);
  EXPECT_EQ(one.by(heuristic_rules::poster_2022).wanted(some), 700u);
}

TEST(Heuristic, OfCostFiresWhenTheRentHasReachedThePrice) {
  auto const rule = heuristic::by_cost(10);
  pool_state state{.reserved = 100, .releasable = 50, .releasable_blocks = 2};
  state.holding_cost = 10 * 0x1p20 - 1;
  EXPECT_EQ(rule.wanted(state), 0u);
  state.holding_cost = 10 * 0x1p20;
  EXPECT_EQ(rule.wanted(state), 100u);
  state.releasable_blocks = 1;
  EXPECT_EQ(rule.wanted(state), 0u) << "one block is coalesced already";
}

TEST(Heuristic, OfAUserSeesTheStateAndSaysTheSize) {
  auto const rule = heuristic::by_rule(
      [](pool_state const& pool, void*) -> bytes { return pool.releasable_blocks * 100; });
  EXPECT_EQ(rule.wanted(some), 300u);
  EXPECT_EQ(heuristic::by_rule(nullptr).wanted(some), 0u);
  EXPECT_EQ(heuristic::by_rule(nullptr), heuristic::never());

  bytes size = 7;
  auto const object = [&](pool_state const& pool) { return size + pool.allocated; };
  std::function<bytes(pool_state const&)> const function = object;
  EXPECT_EQ(heuristic::by_rule(object).wanted(some), 307u);
  EXPECT_EQ(heuristic::by_rule(function).wanted(some), 307u);
  size = 8;
  EXPECT_EQ(heuristic::by_rule(object).wanted(some), 308u) << "it refers to the object";
  EXPECT_EQ(heuristic::by_rule(object), heuristic::by_rule(object));
  EXPECT_NE(heuristic::by_rule(object), heuristic::by_rule(function));
  EXPECT_EQ(heuristic::by_rule(object).before_growth().wanted(some), 308u);
  auto const is_accepted = []<class Rule>(Rule&& temporary) {
    return requires { heuristic::by_rule(std::forward<Rule>(temporary)); };
  };
  EXPECT_TRUE(is_accepted(object));
  EXPECT_FALSE(is_accepted([](pool_state const&) { return bytes{1}; })) << "it would be gone";
}

TEST(Heuristic, OfAUserThatThrowsOrHasNoTargetSaysNotNow) {
  auto const throws = [](pool_state const&) -> bytes { throw std::runtime_error{"no"}; };
  std::function<bytes(pool_state const&)> const empty;
  EXPECT_EQ(heuristic::by_rule(throws).wanted(some), 0u);
  EXPECT_EQ(heuristic::by_rule(empty).wanted(some), 0u);
  EXPECT_EQ(heuristic::by_rule(throws).wanted(some), 0u) << "it can be asked again";
}

struct ruled_pools : testing::Test {
  using ruled = pool<simulated_resource>;
  static pool_options with(heuristic rule) {
    return {.first_block = 1000, .next_block = 1000, .growth_percent = 0, .coalesce = rule};
  }
};

TEST_F(ruled_pools, CoalesceWhenAndToWhatSizeTheRuleSays) {
  bytes wanted = 0;
  int requested = 0;
  auto const rule = [&](pool_state const& pool) {
    ++requested;
    EXPECT_GE(pool.reserved, pool.releasable);
    return pool.releasable_blocks >= 2 ? wanted : 0;
  };
  ruled one{simulated_resource{}, with(heuristic::by_rule(rule))};
  ruled other{simulated_resource{}, with(heuristic::by_rule(rule).before_growth())};
  for (ruled* source : {&one, &other}) {
    wanted = 0;
    void* const a = source->allocate(1000);
    void* const b = source->allocate(1000);
    requested = 0;
    EXPECT_TRUE(source->deallocate(a));
    EXPECT_TRUE(source->deallocate(b));
    EXPECT_EQ(requested, source == &one ? 2 : 0) << "after each free, or never";
    wanted = 5000;
    void* const c = source->allocate(1500);  // nothing fits
    EXPECT_TRUE(source->deallocate(c));
    EXPECT_EQ(requested, source == &one ? 3 : 1);
    EXPECT_EQ(source->counts().coalesces, 1u);
    EXPECT_EQ(source->counts().reserved, 5008u) << "rounded up";
    EXPECT_TRUE(source->audit().empty());
  }
}

TEST_F(ruled_pools, AreNotAskedFromWithinACoalesceOrTheRule) {
  ruled* self = nullptr;
  int depth = 0, deepest = 0, requested = 0;
  bool is_on = false;
  std::vector<void*> spare;
  auto const rule = [&](pool_state const& pool) -> bytes {
    if (!is_on) return 0;
    ++requested;
    deepest = std::max(deepest, ++depth);
    for (void* each : std::exchange(spare, {})) EXPECT_TRUE(self->deallocate(each));
    (void)self->deallocate(self->allocate(3000));
    self->coalesce(pool.reserved);
    --depth;
    return pool.reserved + 1000;
  };
  for (auto const& made : {heuristic::by_rule(rule), heuristic::by_rule(rule).before_growth()}) {
    ruled source{simulated_resource{}, with(made)};
    self = &source;
    is_on = false;
    for (int i = 0; i < 20; ++i) spare.push_back(source.allocate(700));
    requested = 0;
    is_on = true;
    EXPECT_TRUE(source.deallocate(source.allocate(2000)));
    EXPECT_EQ(requested, 1);
    EXPECT_EQ(deepest, 1);
    EXPECT_TRUE(source.audit().empty());
    EXPECT_EQ(source.counts().chunks_allocated, 0u);
  }
}

/// A rule that uses another pool does not keep that one from coalescing.
TEST_F(ruled_pools, AreAskedFromWithinTheRulesOfOthers) {
  ruled* upper = nullptr;
  ruled* lower = nullptr;
  int of_upper = 0, of_lower = 0;
  auto const upper_rule = [&](pool_state const&) -> bytes {
    ++of_upper;
    EXPECT_TRUE(lower->deallocate(lower->allocate(100)));
    return 0;
  };
  auto const lower_rule = [&](pool_state const& pool) -> bytes {
    ++of_lower;
    EXPECT_TRUE(upper->deallocate(upper->allocate(100)));
    return pool.reserved + 1000;
  };
  ruled up{simulated_resource{}, with(heuristic::by_rule(upper_rule))};
  ruled low{simulated_resource{}, with(heuristic::by_rule(lower_rule))};
  upper = &up;
  lower = &low;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(up.deallocate(up.allocate(10)));
    EXPECT_EQ(of_upper, i) << "not again from within the other's, which is within its own";
    EXPECT_EQ(of_lower, i);
    EXPECT_EQ(low.counts().coalesces, static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(up.counts().coalesces, 0u);
}

TEST_F(ruled_pools, DoWithoutWhatTheRuleCannotHave) {
  for (bytes const wanted : {bytes{1} << 50, ~bytes{0}}) {
    auto const rule = [&](pool_state const&) { return wanted; };
    ruled source{simulated_resource{}, with(heuristic::by_rule(rule))};
    void* const a = source.allocate(100);
    void* const b = source.allocate(100);
    EXPECT_TRUE(source.deallocate(a));
    EXPECT_EQ(source.size_of(b), 100u);
    EXPECT_TRUE(source.deallocate(b));
    EXPECT_TRUE(source.audit().empty());
    EXPECT_NO_THROW((void)source.allocate(100));
  }
}

TEST_F(ruled_pools, ThrowNothingThatTheRuleThrows) {
  auto const rule = [](pool_state const&) -> bytes { throw std::runtime_error{"no"}; };
  for (auto const& made : {heuristic::by_rule(rule), heuristic::by_rule(rule).before_growth()}) {
    ruled source{simulated_resource{}, with(made)};
    void* const a = source.allocate(1000);
    void* const b = source.allocate(1000);
    EXPECT_TRUE(source.deallocate(a));
    EXPECT_TRUE(source.deallocate(b));
    EXPECT_TRUE(source.audit().empty());
  }
}

/// Each thread has a pool, and a rule that is being asked by one is asked by the other, too.
TEST_F(ruled_pools, OfSeveralThreadsAreAskedEach) {
  std::atomic<int> requested{0};
  auto const rule = [&](pool_state const& pool) {
    ++requested;
    return pool.releasable_blocks > 3 ? pool.reserved : 0;
  };
  std::vector<std::thread> all;
  for (int thread = 0; thread < 2; ++thread) {
    all.emplace_back([&] {
      ruled source{simulated_resource{}, with(heuristic::by_rule(rule))};
      for (int i = 0; i < 1000; ++i) EXPECT_TRUE(source.deallocate(source.allocate(500)));
    });
  }
  for (auto& each : all) each.join();
  EXPECT_EQ(requested, 2000);
}

}  // namespace heuristic_test
}  // namespace quarry::test
