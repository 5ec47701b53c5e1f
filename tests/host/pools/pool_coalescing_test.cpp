// SPDX-License-Identifier: Apache-2.0
// Checks that each coalesce of a pool leaves fewer blocks or less memory.
#include "quarry/host/pools/pool.hpp"

#include "quarry/host/resources/simulated_resource.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace quarry::test {
namespace pool_coalescing_test {

template <class Strategy>
struct PoolCoalescing : testing::Test {};
TYPED_TEST_SUITE(PoolCoalescing, all_placements<>, placement_case_names);

pool_options with(heuristic const& rule, bytes first_block = 16) {
  return {.first_block = first_block, .next_block = 16, .growth_percent = 0, .coalesce = rule};
}

heuristic const rules[] = {
    heuristic::percent_releasable(100),
    heuristic::percent_releasable(100).to_high_water(),
    heuristic::percent_releasable(50),
    heuristic::blocks_releasable(1),
    heuristic::blocks_releasable(1).to_high_water(),
    heuristic::blocks_releasable(2),
    heuristic::blocks_releasable(1).before_growth(),
};

/// Two arrays that come and go (a report to Umpire: its issue 906).
TYPED_TEST(PoolCoalescing, AProgramThatRepeatsItselfReachesAPoolOfOneBlock) {
  for (heuristic const& rule : rules) {
    if (rule.checked_at == heuristic::moment::before_growth) continue;
    pool<simulated_resource, TypeParam> source{simulated_resource{}, with(rule)};
    for (int step = 0; step < 500; ++step) {
      void* const first = source.allocate(1032);
      void* const second = source.allocate(1032);
      source.deallocate(second);
      source.deallocate(first);
    }
    EXPECT_EQ(source.counts().coalesces, 1u);
    EXPECT_EQ(source.counts().blocks_allocated, 3u);
    EXPECT_TRUE(source.audit().empty());
  }
}

TYPED_TEST(PoolCoalescing, TheOnlyEmptyBlockStays) {
  for (heuristic const& rule : rules) {
    pool<simulated_resource, TypeParam> source{simulated_resource{}, with(rule)};
    void* const kept = source.allocate(256);
    for (int step = 0; step < 9; ++step) source.deallocate(source.allocate(1024));
    EXPECT_EQ(source.counts().blocks_allocated, 2u);
    EXPECT_EQ(source.counts().coalesces, 0u);
    source.coalesce(source.counts().reserved);
    EXPECT_EQ(source.counts().blocks_allocated, 2u);
    source.coalesce(source.counts().reserved + 16);
    EXPECT_EQ(source.counts().coalesces, 1u) << "the pool lacks 16 bytes";
    source.deallocate(kept);
  }
}

TYPED_TEST(PoolCoalescing, ABlockThatExceedsTheHighWaterIsReplacedOnce) {
  auto const rule = heuristic::blocks_releasable(1).to_high_water();
  pool_options options = with(rule);
  options.next_block = 4096;
  pool<simulated_resource, TypeParam> source{simulated_resource{}, options};
  void* const kept = source.allocate(256);
  for (int step = 0; step < 9; ++step) source.deallocate(source.allocate(1024));
  EXPECT_EQ(source.counts().blocks_allocated, 2u) << "a smaller block has 4096 bytes, too";
  source.deallocate(kept);  // now one block of the first size may serve all
  EXPECT_LT(source.counts().reserved, 256u + 4096);
  auto const blocks = source.counts().blocks_allocated;
  for (int step = 0; step < 9; ++step) source.deallocate(source.allocate(1024));
  EXPECT_EQ(source.counts().blocks_allocated, blocks);
}

TYPED_TEST(PoolCoalescing, EachCoalesceLeavesFewerBlocksOrLessMemory) {
  std::uint32_t const seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  for (heuristic const& rule : rules) {
    if (rule.size == heuristic::target::high_water) continue;  // may want more than before
    if (rule.checked_at == heuristic::moment::before_growth) continue;
    pool<simulated_resource, TypeParam> source{simulated_resource{},
                                               with(rule, random() % 2 == 0 ? 16 : 8192)};
    std::vector<void*> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.empty() || random() % 2 == 0) {
        live.push_back(source.allocate(random() % 4000 + 1));
        continue;
      }
      std::swap(live[random() % live.size()], live.back());
      auto const before = source.counts();
      source.deallocate(live.back());
      live.pop_back();
      auto const after = source.counts();
      auto const blocks = [](pool_counts const& found) {
        return found.blocks_allocated - found.blocks_returned;
      };
      EXPECT_LE(after.reserved, before.reserved);
      if (after.coalesces != before.coalesces) {
        EXPECT_TRUE(blocks(after) < blocks(before) || after.reserved < before.reserved);
      }
    }
    EXPECT_TRUE(source.audit().empty());
  }
}

}  // namespace pool_coalescing_test
}  // namespace quarry::test
