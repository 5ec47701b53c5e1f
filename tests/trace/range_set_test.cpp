// SPDX-License-Identifier: Apache-2.0
#include "trace/range_set.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace {

using part = std::pair<std::uint64_t, std::uint64_t>;

std::vector<part> missing_of(trace::range_set& ranges, std::uint64_t base, std::uint64_t size) {
  std::vector<part> result;
  ranges.remove(base, size, [&](std::uint64_t begin, std::uint64_t bytes) {
    result.emplace_back(begin, bytes);
  });
  return result;
}

TEST(RangeSet, RemovesAPartOfSeveralRangesAndNamesWhatIsMissing) {
  trace::range_set ranges;
  ranges.add(10, 10);
  ranges.add(30, 10);
  EXPECT_EQ(missing_of(ranges, 15, 20), (std::vector<part>{{20, 10}}));
  EXPECT_EQ(missing_of(ranges, 10, 30), (std::vector<part>{{15, 20}}));
}

TEST(RangeSet, EndsARangeAtTheLastAddress) {
  trace::range_set ranges;
  ranges.add(~std::uint64_t{15}, 100);
  EXPECT_TRUE(missing_of(ranges, ~std::uint64_t{15}, ~std::uint64_t{0}).empty());
  ranges.add(5, 0);
  EXPECT_TRUE(missing_of(ranges, 5, 0).empty());
}

TEST(RangeSet, BehavesAsABitForEachAddress) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  trace::range_set ranges;
  std::array<bool, 128> model = {};
  for (int i = 0; i < 20'000; ++i) {
    std::size_t const base = random() % model.size();
    std::size_t const size = random() % (model.size() - base + 1) / (1 + random() % 8);
    if (random() % 2 == 0) {
      ranges.add(base, size);
      std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(base), size, true);
      continue;
    }
    std::vector<part> expected;
    for (std::size_t at = base; at < base + size; ++at) {
      if (std::exchange(model[at], false)) continue;
      if (expected.empty() || expected.back().first + expected.back().second != at)
        expected.emplace_back(at, 0);
      ++expected.back().second;
    }
    ASSERT_EQ(missing_of(ranges, base, size), expected);
  }
}

}  // namespace
}  // namespace quarry::test
