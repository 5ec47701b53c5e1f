// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/bits.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace quarry {
namespace bits_test {

constexpr word all = ~word{0};

TEST(Bits, LowBitsSetsTheRequestedNumberOfBitsAndAtMost64) {
  EXPECT_EQ(low_bits(0), 0u);
  EXPECT_EQ(low_bits(1), 1u);
  EXPECT_EQ(low_bits(63), all >> 1);
  EXPECT_EQ(low_bits(64), all);
  EXPECT_EQ(low_bits(1000), all);
}

TEST(Bits, LowestOneOfZeroIs64) {
  EXPECT_EQ(lowest_one(0), 64u);
  EXPECT_EQ(lowest_one(word{1} << 63), 63u);
  EXPECT_EQ(highest_one(1), 0u);
  EXPECT_EQ(highest_one(all), 63u);
}

TEST(Bits, RunsStartWhereEnoughOnesFollow) {
  EXPECT_EQ(starts_of_runs(0b0111'0110, 2), 0b0011'0010u);
  EXPECT_EQ(starts_of_runs(0b0111'0110, 3), 0b0001'0000u);
  EXPECT_EQ(starts_of_runs(all, 64), 1u);
  EXPECT_EQ(starts_of_runs(all - 1, 64), 0u);
  EXPECT_EQ(starts_of_runs(all, 1), all);
}

TEST(Bits, SelectOneFindsTheBitWithTheGivenNumberOfOnesBelow) {
  EXPECT_EQ(select_one(0b0101'1000, 0), 3u);
  EXPECT_EQ(select_one(0b0101'1000, 2), 6u);
  EXPECT_EQ(select_one(all, 63), 63u);
  EXPECT_EQ(select_one(word{1} << 63, 0), 63u);
}

TEST(Bits, RotatedMovesTheTopBitsToTheBottomAndBack) {
  EXPECT_EQ(rotated(0b1100'0001, 8, 3), 0b0000'1110u);
  for (std::uint32_t width = 1; width <= 12; ++width) {
    for (std::uint32_t number = 0; number < 1u << width; ++number) {
      for (std::uint32_t by = 0; by <= width; ++by)
        ASSERT_EQ(rotated(rotated(number, width, by), width, width - by), number) << width;
    }
  }
}

TEST(Bits, ScaledMapsRandomNumbersEvenlyToNumbersBelowASize) {
  EXPECT_EQ(scaled(0, 7), 0u);
  EXPECT_EQ(scaled(~0u, 7), 6u);
  EXPECT_EQ(scaled(~0u, 1), 0u);
  EXPECT_EQ(scaled(~0u, ~0u), ~0u - 1);
  for (std::uint32_t const size : {1u, 2u, 3u, 10u, 64u, 1000u}) {
    std::vector<std::uint32_t> hits(size);
    constexpr std::uint32_t draws = 1u << 16;
    for (std::uint32_t i = 0; i < draws; ++i) ++hits[scaled(i << 16, size)];
    for (std::uint32_t const count : hits) EXPECT_NEAR(count, draws / size, 1) << "size " << size;
  }
}

TEST(Bits, AnyOneReturnsEachSetBitEquallyOften) {
  EXPECT_EQ(random_one(0, 0), 64u);
  EXPECT_EQ(random_one(0, ~0u), 64u);
  word const bits = word{1} << 63 | 0b1001'0110;
  std::map<std::uint32_t, std::uint32_t> hits;
  for (std::uint32_t i = 0; i < 5000; ++i)
    ++hits[random_one(
        bits, static_cast<std::uint32_t>(std::uint64_t{i} * (std::uint64_t{1} << 32) / 5000))];
  EXPECT_EQ(hits.size(), count_ones(bits));
  for (auto const& [position, count] : hits) {
    EXPECT_NE(bits >> position & 1, 0u);
    EXPECT_NEAR(count, 1000, 1) << "position " << position;
  }
}

TEST(Bits, MixIsABijectionOnSmallNumbersAndSpreadsTheirTopBits) {
  std::set<std::uint32_t> seen;
  std::set<std::uint32_t> tops;
  for (std::uint32_t i = 0; i < 4096; ++i) {
    seen.insert(mix(i));
    tops.insert(mix(i) >> 26);
  }
  EXPECT_EQ(seen.size(), 4096u);
  EXPECT_EQ(tops.size(), 64u);
}

/// Checks each function bit by bit.
TEST(Bits, AgreeWithANaiveLoop) {
  constexpr std::uint64_t seed = 99;
  SCOPED_TRACE("seed 99");
  std::mt19937_64 random{seed};
  for (int round = 0; round < 20000; ++round) {
    word bits = random();
    for (auto thin = random() % 4; thin > 0; --thin) bits &= random();
    if (random() % 4 == 0) bits = ~bits;
    auto const number = static_cast<std::uint32_t>(random() % 65);
    auto const is_one = [&](std::uint32_t at) { return at < 64 && (bits >> at & 1) != 0; };

    std::uint32_t ones = 0;
    std::uint32_t lowest = 64;
    std::uint32_t highest = 64;
    word lowest_bits = 0;
    word starts = 0;
    for (std::uint32_t at = 0; at < 64; ++at) {
      if (is_one(at)) {
        if (lowest == 64) lowest = at;
        highest = at;
        if (ones < number) lowest_bits |= word{1} << at;
        ASSERT_EQ(select_one(bits, ones), at);
        ++ones;
      }
      std::uint32_t length = 0;
      while (is_one(at + length)) ++length;
      if (number != 0 && length >= number) starts |= word{1} << at;
    }
    ASSERT_EQ(count_ones(bits), ones);
    ASSERT_EQ(lowest_one(bits), lowest);
    if (bits != 0) {
      ASSERT_EQ(highest_one(bits), highest);
    }
    ASSERT_EQ(lowest_ones(bits, number), lowest_bits);
    auto const draw = static_cast<std::uint32_t>(random());
    ASSERT_TRUE(bits == 0 ? random_one(bits, draw) == 64 : is_one(random_one(bits, draw)));
    if (number != 0) {
      ASSERT_EQ(starts_of_runs(bits, number), starts) << std::hex << bits << " runs of " << number;
    }
  }
}

}  // namespace bits_test
}  // namespace quarry
