// SPDX-License-Identifier: Apache-2.0
#include "graph/rmat.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace quarry::graph_demo {
namespace rmat_test {

/// The recursion of the paper: quarters a square matrix until one cell is left.
edge naive_cell(splitmix64& random, rmat_probabilities const& chances, std::uint64_t row,
                std::uint64_t column, std::uint64_t side) {
  if (side == 1) return {static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(column)};
  auto const half = side / 2;
  auto chance = static_cast<double>(random() >> 32) / 4294967296.0;
  if (chance < chances.a) return naive_cell(random, chances, row, column, half);
  chance -= chances.a;
  if (chance < chances.b) return naive_cell(random, chances, row, column + half, half);
  chance -= chances.b;
  if (chance < chances.c) return naive_cell(random, chances, row + half, column, half);
  return naive_cell(random, chances, row + half, column + half, half);
}

TEST(Rmat, UsesThePublishedSequenceOfSplitMix64) {
  splitmix64 random{1234567};
  for (std::uint64_t const expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u}) {
    EXPECT_EQ(random(), expected);
  }
}

TEST(Rmat, IsTheSameGraphOnEveryPlatform) {
  EXPECT_EQ(
      rmat(20, 4, 42),
      (std::vector<edge>{{20480, 525345}, {531266, 730272}, {66578, 33800}, {274036, 418048}}));
}

TEST(Rmat, ALongerGraphStartsWithAShorterGraphOfTheSameSeed) {
  auto const shorter = rmat(10, 100, 3);
  auto longer = rmat(10, 200, 3);
  longer.resize(100);
  EXPECT_EQ(longer, shorter);
}

TEST(Rmat, DiffersBetweenSeeds) { EXPECT_NE(rmat(10, 100, 3), rmat(10, 100, 4)); }

TEST(Rmat, HasOnlyLoopsForOneVertex) {
  EXPECT_EQ(rmat(0, 3, 1), (std::vector<edge>{{0, 0}, {0, 0}, {0, 0}}));
  EXPECT_TRUE(rmat(10, 0, 1).empty());
}

TEST(Rmat, GivesOnlyOneCornerIfItsProbabilityIsOne) {
  EXPECT_EQ(rmat(31, 1, 5, {1, 0, 0, 0}), (std::vector<edge>{{0, 0}}));
  EXPECT_EQ(rmat(31, 1, 5, {0, 1, 0, 0}), (std::vector<edge>{{0, 0x7FFF'FFFF}}));
  EXPECT_EQ(rmat(31, 1, 5, {0, 0, 1, 0}), (std::vector<edge>{{0x7FFF'FFFF, 0}}));
  EXPECT_EQ(rmat(31, 1, 5, {0, 0, 0, 1}), (std::vector<edge>{{0x7FFF'FFFF, 0x7FFF'FFFF}}));
}

TEST(Rmat, FillsTheQuadrantsInProportionToTheirProbabilities) {
  constexpr std::uint64_t edges = 1'000'000;
  std::array<double, 4> shares{};
  for (auto const& [source, target] : rmat(16, edges, 1)) {
    shares[(source >> 15) * 2 + (target >> 15)] += 1.0 / edges;
  }
  EXPECT_NEAR(shares[0], 0.57, 0.003);  // Six standard deviations.
  EXPECT_NEAR(shares[1], 0.19, 0.003);
  EXPECT_NEAR(shares[2], 0.19, 0.003);
  EXPECT_NEAR(shares[3], 0.05, 0.003);
}

TEST(Rmat, RefusesAScaleWhoseIdsIncludeTheReservedId) {
  EXPECT_NO_THROW((void)rmat(31, 1, 1));
  EXPECT_THROW((void)rmat(32, 1, 1), std::invalid_argument);
}

TEST(Rmat, RefusesInvalidProbabilities) {
  EXPECT_THROW((void)rmat(4, 1, 1, {0.5, 0.5, 0.5, -0.5}), std::invalid_argument);
  EXPECT_THROW((void)rmat(4, 1, 1, {0.5, 0.1, 0.1, 0.1}), std::invalid_argument);
  EXPECT_THROW((void)rmat(4, 1, 1, {std::numeric_limits<double>::quiet_NaN(), 0, 0, 1}),
               std::invalid_argument);
}

TEST(Rmat, DrawsTheEdgesOfTheNaiveRecursion) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    splitmix64 choice{~seed};
    auto const scale = static_cast<unsigned>(choice() % 32);
    std::array<double, 3>
        cuts{};  // Multiples of 1/256, so that the model's subtractions are exact.
    for (auto& cut : cuts) cut = static_cast<double>(choice() % 257) / 256;
    std::ranges::sort(cuts);
    rmat_probabilities const chances{cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1], 1 - cuts[2]};
    splitmix64 random{seed};
    std::vector<edge> expected(500);
    for (auto& cell : expected) {
      cell = naive_cell(random, chances, 0, 0, std::uint64_t{1} << scale);
    }
    ASSERT_EQ(rmat(scale, expected.size(), seed, chances), expected);
  }
}

}  // namespace rmat_test
}  // namespace quarry::graph_demo
