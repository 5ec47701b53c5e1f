// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/lane_span.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace quarry {
namespace lane_span_test {

static_assert(std::random_access_iterator<lane_iterator<int>>);
static_assert(std::random_access_iterator<lane_iterator<int const>>);
static_assert(std::sized_sentinel_for<lane_iterator<int>, lane_iterator<int>>);
static_assert(std::is_convertible_v<lane_iterator<int>, lane_iterator<int const>>);
static_assert(!std::is_convertible_v<lane_iterator<int const>, lane_iterator<int>>);
static_assert(std::is_convertible_v<lane_span<int>, lane_span<int const>>);
static_assert(!std::is_convertible_v<lane_span<int const>, lane_span<int>>);
static_assert(std::is_trivially_copyable_v<lane_span<int>> && sizeof(lane_span<int>) == 16);

TEST(LaneSpan, HasItsElementsAStrideApart) {
  std::vector<int> memory(12);
  std::iota(memory.begin(), memory.end(), 0);
  lane_span<int> const odd{memory.data() + 1, 4, 3};
  EXPECT_EQ((std::vector<int>{odd.begin(), odd.end()}), (std::vector<int>{1, 4, 7, 10}));
  EXPECT_EQ(&odd[2], &memory[7]);
  EXPECT_EQ(odd.end() - odd.begin(), 4);
  EXPECT_EQ(odd.begin()[3], 10);
  EXPECT_EQ(*(odd.end() - 1), 10);
  EXPECT_LT(odd.begin(), odd.end());
  EXPECT_GE(odd.end(), 4 + odd.begin());
}

TEST(LaneSpan, WritesToItsOwnElementsOnly) {
  std::vector<int> memory(12, -1);
  lane_span<int> const span{memory.data() + 1, 4, 3};
  span.fill(5);
  std::vector<int> const three{1, 2, 3};
  EXPECT_EQ(span.copy_from(three.data(), 3), 3u);
  EXPECT_EQ(memory, (std::vector<int>{-1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 5, -1}));
  span.fill(span[2]);
  EXPECT_EQ((std::vector<int>{span.begin(), span.end()}), (std::vector<int>{3, 3, 3, 3}));
}

TEST(LaneSpan, CopiesAndSubspansStopAtItsEnd) {
  std::vector<int> memory(8, -1);
  lane_span<int> const span{memory.data(), 4, 2};
  std::vector<int> const many{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(span.copy_from(many.data(), 6), 4u);
  std::vector<int> out(6, 9);
  EXPECT_EQ(lane_span<int const>{span}.copy_to(out.data(), 6), 4u);
  EXPECT_EQ(out, (std::vector<int>{0, 1, 2, 3, 9, 9}));
  auto const tail = span.subspan(3, 0xFFFF'FFFFu);
  EXPECT_EQ(tail.size(), 1u);
  EXPECT_EQ(tail[0], 3);
  EXPECT_EQ(span.subspan(1, 3).subspan(1, 1)[0], 2);
  EXPECT_TRUE(span.subspan(4, 1).empty());
  EXPECT_TRUE(span.subspan(0xFFFF'FFFFu, 0xFFFF'FFFFu).empty());
  EXPECT_TRUE(lane_span<int>{}.subspan(0, 1).empty());
  EXPECT_EQ(lane_span<int>{}.begin(), lane_span<int>{}.end());
}

/// Runs the same algorithms on a vector and on a span with the same numbers.
TEST(LaneSpan, GivesAlgorithmsTheSameResultsAsAVector) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 source{seed};
    auto const random = [&] { return static_cast<std::uint32_t>(source()); };
    std::uint32_t const size = random() % 100, stride = 1 + random() % 32;
    std::vector<int> plain(size), memory(std::size_t{size} * stride + 1);
    for (auto& value : plain) value = static_cast<int>(random() % 50);
    lane_span<int> const span{memory.data(), size, stride};
    span.copy_from(plain.data(), size);
    auto const is_same = [&] {
      return std::equal(span.begin(), span.end(), plain.begin(), plain.end());
    };

    EXPECT_EQ(std::accumulate(span.begin(), span.end(), 0),
              std::accumulate(plain.begin(), plain.end(), 0));
    auto const middle = static_cast<std::ptrdiff_t>(size / 3);
    std::rotate(span.begin(), span.begin() + middle, span.end());
    std::rotate(plain.begin(), plain.begin() + middle, plain.end());
    EXPECT_TRUE(is_same());
    std::nth_element(span.begin(), span.begin() + middle, span.end());
    std::sort(span.begin(), span.end());
    std::sort(plain.begin(), plain.end());
    EXPECT_TRUE(is_same());
    EXPECT_EQ(std::ranges::lower_bound(span, 25) - span.begin(),
              std::ranges::lower_bound(plain, 25) - plain.begin());
    std::ranges::reverse(span);
    std::reverse(plain.begin(), plain.end());
    EXPECT_TRUE(is_same());
  }
}

}  // namespace lane_span_test
}  // namespace quarry
