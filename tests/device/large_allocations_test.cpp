// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/large_allocations.hpp"

#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry {

using namespace detail;
namespace large_allocations_test {

TEST(LargeAllocations, MarkTheirHeadAndTailsInTheSegmentTable) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  EXPECT_EQ(large_allocations::claim(state, 3), 5u) << "claims come from the end of the heap";
  EXPECT_TRUE(state.segments[5].load() == segment_use::head(3));
  EXPECT_TRUE(state.segments[6].load() == segment_use::tail(1));
  EXPECT_TRUE(state.segments[7].load() == segment_use::tail(2));
  EXPECT_EQ(state.segment_tree().count(), 5u);
  EXPECT_TRUE(owner.audit().empty());
}

TEST(LargeAllocations, AreFreedOnce) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  auto const first = large_allocations::claim(state, 3);
  EXPECT_FALSE(large_allocations::free(state, first, segment_use::head(2)));
  EXPECT_TRUE(large_allocations::free(state, first, segment_use::head(3)));
  EXPECT_FALSE(large_allocations::free(state, first, segment_use::head(3)));
  EXPECT_EQ(state.segment_tree().count(), 8u);
  EXPECT_TRUE(owner.audit().empty());
}

TEST(LargeAllocations, TakeBackTheUnusedSegmentsOfClasses) {
  auto const owner = test::small_heap(9);
  auto& state = test::state_of(owner);
  ASSERT_NE(owner.ref().malloc(32_KiB - hardening::padded(0)), nullptr);
  EXPECT_NE(large_allocations::claim(state, 4), bit_tree::none);
  EXPECT_EQ(large_allocations::claim(state, 5), bit_tree::none) << "one slice is in use";
  EXPECT_TRUE(owner.audit().empty());
}

/// Compares the claimed ranges of segments with a map.
TEST(LargeAllocations, NeverOverlap) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    auto const owner = test::small_heap(100);
    auto& state = test::state_of(owner);
    std::map<std::uint32_t, std::uint32_t> live;
    for (int step = 0; step < 500; ++step) {
      if (random() % 2 == 0) {
        auto const count = 1 + static_cast<std::uint32_t>(random() % 20);
        auto const first = large_allocations::claim(state, count);
        if (first == bit_tree::none) continue;
        auto const next = live.lower_bound(first);
        ASSERT_TRUE(next == live.end() || first + count <= next->first);
        ASSERT_TRUE(next == live.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= first);
        live.emplace(first, count);
      } else if (!live.empty()) {
        auto const victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
        EXPECT_TRUE(
            large_allocations::free(state, victim->first, segment_use::head(victim->second)));
        live.erase(victim);
      }
    }
    for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
  }
}

}  // namespace large_allocations_test
}  // namespace quarry
