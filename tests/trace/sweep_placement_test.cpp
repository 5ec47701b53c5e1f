// SPDX-License-Identifier: Apache-2.0
#include "trace/sweep_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace {

using namespace quarry::trace;
using quarry::bytes;

constexpr bytes unlimited = ~bytes{0} >> 1;
placement_progress const no_progress;

/// Random lifetimes. Some wrap around the period, which is the second half.
placement_problem random_problem(std::mt19937_64& random, bool wraps) {
  auto const count = static_cast<std::uint32_t>(2 + random() % 150);
  placement_problem result{{}, wraps ? count / 2 : count};
  for (std::uint32_t i = 0; i < count; ++i) {
    lifetime each{.size = 16 * (random() % 200), .end = i + 1};
    each.end += static_cast<std::uint32_t>(random() % (count - i));
    if (wraps && i > result.wrap_begin && random() % 10 == 0) {
      each.end = count;
      each.wrapped_end =
          result.wrap_begin + static_cast<std::uint32_t>(1 + random() % (i - result.wrap_begin));
    }
    result.allocations.push_back(each);
  }
  return result;
}
bool live_together(placement_problem const& problem, std::uint32_t i, std::uint32_t j) {
  for (std::uint32_t time = 0; time < problem.allocations.size(); ++time) {
    auto const is_live = [&](std::uint32_t number) {
      lifetime const& each = problem.allocations[number];
      return (time >= number && time < each.end) ||
             (time >= problem.wrap_begin && time < each.wrapped_end);
    };
    if (is_live(i) && is_live(j)) return true;
  }
  return false;
}

TEST(SweepPlacement, OfRandomLifetimesHasNoOverlap) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random{seed};
    auto const problem = random_problem(random, seed % 2 == 0);
    bytes const min_size = 16 * (random() % 60);
    step_counter counter{no_progress};
    sweep_placement tested{problem, min_size, random, counter};
    ASSERT_TRUE(tested.place(unlimited, 0, 20'000));
    bytes size = 0;
    for (std::uint32_t const i : tested.placed()) {
      lifetime const& each = problem.allocations[i];
      ASSERT_TRUE(each.size >= min_size || each.wrapped_end != 0);
      bytes const begin = tested.offsets()[i], end = begin + each.size;
      size = std::max(size, end);
      for (std::uint32_t const j : tested.placed()) {
        bytes const other = tested.offsets()[j];
        if (i != j && begin < other + problem.allocations[j].size && other < end) {
          ASSERT_FALSE(live_together(problem, i, j)) << i << ' ' << j;
        }
      }
    }
    EXPECT_EQ(tested.size(), size);
  }
}

TEST(SweepPlacement, RefusesALimitBelowWhatLivesAtOneTime) {
  placement_problem const problem{{{64, 2}, {64, 2}}, 2};
  std::mt19937_64 random{1};
  step_counter counter{no_progress};
  sweep_placement tested{problem, 1, random, counter};
  EXPECT_FALSE(tested.place(128, 0, 1000));
  sweep_placement larger{problem, 1, random, counter};
  EXPECT_TRUE(larger.place(129, 128, 2000));
  EXPECT_EQ(larger.size(), 128u);
}

TEST(SweepPlacement, LeavesOutSmallAllocations) {
  placement_problem const problem{{{64, 2}, {16, 2}}, 2};
  std::mt19937_64 random{1};
  step_counter counter{no_progress};
  sweep_placement tested{problem, 32, random, counter};
  EXPECT_TRUE(tested.place(unlimited, 64, 1000));
  EXPECT_EQ(tested.placed(), std::vector<std::uint32_t>{0});
  placement_problem const small{{{16, 2}, {16, 2, 1}}, 0};  // the second one wraps
  sweep_placement without_large{small, 32, random, counter};
  EXPECT_FALSE(without_large.place(unlimited, 0, 100'000));
}

/// Steps of a program whose caches grow: each step copies each cache into a larger one. Groups of
/// caches end, and others begin.
placement_problem growing_caches() {
  constexpr std::size_t groups = 6, caches = 12;
  placement_problem result;
  std::vector<std::uint32_t> latest(groups * caches, not_freed);
  std::vector<bytes> sizes(groups);
  for (unsigned step = 0; step < 60; ++step) {
    for (std::size_t group = 0; group < groups; ++group) {
      bool const begins = (step + 11 * group) % 40 == 0;
      sizes[group] = begins ? 50'000 + 20'000 * group : sizes[group] + 3072;
      for (std::size_t i = group * caches; i < (group + 1) * caches; ++i) {
        auto const number = static_cast<std::uint32_t>(result.allocations.size());
        if (latest[i] != not_freed) result.allocations[latest[i]].end = number + 1;
        latest[i] = number;
        result.allocations.push_back({sizes[group], not_freed});
      }
    }
  }
  result.wrap_begin = static_cast<std::uint32_t>(result.allocations.size());
  for (lifetime& each : result.allocations) each.end = std::min(each.end, result.wrap_begin);
  return result;
}

TEST(SweepPlacement, OfGrowingCachesIsNearTheLowerBound) {
  auto const problem = growing_caches();
  bytes const lower_bound = std::ranges::max(live_bytes(problem));
  std::vector<bytes> sizes;
  for (int run = 0; run < 2; ++run) {
    std::mt19937_64 random{1};
    step_counter counter{no_progress};
    sweep_placement tested{problem, 1, random, counter};
    ASSERT_TRUE(tested.place(lower_bound + lower_bound / 4, lower_bound, 4'000'000));
    sizes.push_back(tested.size());
  }
  EXPECT_LE(double(sizes[0]), 1.02 * double(lower_bound));
  EXPECT_EQ(sizes[0], sizes[1]) << "the same seed gives another placement";
}

}  // namespace
