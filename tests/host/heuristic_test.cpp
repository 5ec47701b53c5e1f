// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/heuristic.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace {

constexpr pool_state some{.held = 1000,
                          .releasable = 500,
                          .releasable_blocks = 3,
                          .live = 300,
                          .most_live = 700,
                          .rounded = 320,
                          .most_rounded = 720,
                          .free_pieces = 5};

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
  empty.releasable = empty.held;
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(empty), 1000u);
}

TEST(Heuristic, OfThePosterSeesNothingReleasableInAPoolOfOneFreePiece) {
  pool_state one = some;
  one.free_pieces = 1;
  one.releasable = one.held;
  EXPECT_EQ(heuristic::percent_releasable(100).by(heuristic_rules::poster_2022).wanted(one), 0u);
  EXPECT_EQ(heuristic::percent_releasable(100).wanted(one), 1000u);
}

TEST(Heuristic, AimsAtTheHighWaterOfItsRules) {
  auto const one = heuristic::blocks_releasable(1).to_high_water();
  EXPECT_EQ(one.wanted(some), 720u);
  EXPECT_EQ(one.by(heuristic_rules::poster_2022).wanted(some), 700u);
}

TEST(Heuristic, OfCostFiresWhenTheRentHasReachedThePrice) {
  auto const rule = heuristic::worth(10);
  pool_state state{.held = 100, .releasable = 50, .releasable_blocks = 2};
  state.rent = 10 * 0x1p20 - 1;
  EXPECT_EQ(rule.wanted(state), 0u);
  state.rent = 10 * 0x1p20;
  EXPECT_EQ(rule.wanted(state), 100u);
  state.releasable_blocks = 1;
  EXPECT_EQ(rule.wanted(state), 0u) << "one block is coalesced already";
}

}  // namespace
}  // namespace quarry::test
