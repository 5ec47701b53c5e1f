// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/plan_cursor.hpp"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace quarry;
using quarry::bytes;

plan plan_of_sizes(std::vector<bytes> const& all, std::uint64_t period_begin) {
  plan result{.period_begin = period_begin};
  for (bytes const size : all) result.allocations.push_back({size, not_planned, 1});
  return result;
}
plan const ten_sizes = plan_of_sizes({10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, 10);

TEST(PlanCursor, FollowsThePlanToItsEnd) {
  plan_cursor cursor{ten_sizes, 64};
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(cursor.next(10 * (i + 1)), i);
  EXPECT_EQ(cursor.next(10), std::nullopt);
  cursor.restart();
  EXPECT_EQ(cursor.next(10), 0u);
}

TEST(PlanCursor, RepeatsThePeriod) {
  plan_cursor cursor{plan_of_sizes({10, 20, 30}, 1), 64};
  for (int i = 0; i < 3; ++i) (void)cursor.next(10 * static_cast<bytes>(i + 1));
  EXPECT_EQ(cursor.next(20), 1u);
  EXPECT_EQ(cursor.next(30), 2u);
  EXPECT_EQ(cursor.next(20), 1u);
  cursor.restart();
  EXPECT_EQ(cursor.next(20), 1u);
}

TEST(PlanCursor, StaysWhereItIsAfterAnUnplannedRequest) {
  plan_cursor cursor{ten_sizes, 64};
  (void)cursor.next(10);
  EXPECT_EQ(cursor.next(7), std::nullopt);
  EXPECT_EQ(cursor.next(20), 1u);
  EXPECT_EQ(cursor.next(50), std::nullopt);  // one request is not enough to skip others
  EXPECT_EQ(cursor.next(30), 2u);
  EXPECT_EQ(cursor.jumps(), 0u);
}

TEST(PlanCursor, TakesSizesInTheRangeOfAnAllocation) {
  plan ranged = plan_of_sizes({10, 20, 30, 40}, 0);
  ranged.allocations[1].min_size = 15;
  ranged.allocations[3].min_size = 1;
  plan_cursor cursor{ranged, 64};
  EXPECT_EQ(cursor.next(9), std::nullopt) << "the first allocation has one size";
  EXPECT_EQ(cursor.next(10), 0u);
  EXPECT_EQ(cursor.next(15), 1u);
  EXPECT_EQ(cursor.next(30), 2u);
  EXPECT_EQ(cursor.next(41), std::nullopt);
  EXPECT_EQ(cursor.next(40), 3u);
  EXPECT_EQ(cursor.next(10), 0u);
  EXPECT_EQ(cursor.next(14), std::nullopt);
  EXPECT_EQ(cursor.next(20), 1u);
  EXPECT_EQ(cursor.jumps(), 0u);
}

TEST(PlanCursor, SkipsMissingRequestsAfterTwo) {
  plan_cursor cursor{ten_sizes, 64};
  (void)cursor.next(10);
  EXPECT_EQ(cursor.next(40), std::nullopt);
  EXPECT_EQ(cursor.next(50), 4u);
  EXPECT_EQ(cursor.next(60), 5u);
  EXPECT_EQ(cursor.next(20), std::nullopt);
  EXPECT_EQ(cursor.next(30), 2u);  // and goes back
  EXPECT_EQ(cursor.jumps(), 2u);
}

TEST(PlanCursor, LooksNoFurtherThanItsLookahead) {
  plan_cursor near{ten_sizes, 3}, far{ten_sizes, 9};
  (void)near.next(90);
  (void)far.next(90);
  EXPECT_EQ(near.next(100), std::nullopt);
  EXPECT_EQ(far.next(100), 9u);
}

TEST(PlanCursor, ReturnsOnlyAllocationsOfTheRequestedSize) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<bytes> all;
    for (auto count = random() % 30; all.size() < count;) all.push_back(16 * (1 + random() % 5));
    auto const followed = plan_of_sizes(all, random() % (all.size() + 1));
    plan_cursor cursor{followed, static_cast<std::uint32_t>(random() % 40)};
    for (int i = 0; i < 1000; ++i) {
      if (random() % 100 == 0) cursor.restart();
      bytes const size = 16 * (1 + random() % 6);
      auto const found = cursor.next(size);
      ASSERT_LE(cursor.position(), all.size());
      if (found) {
        ASSERT_EQ(all.at(*found), size);
      }
    }
  }
}

}  // namespace
