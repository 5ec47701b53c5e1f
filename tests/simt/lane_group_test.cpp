// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/lane_group.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace quarry::simt {
namespace lane_group_test {

/// Returns a group of all lanes of the block, which has one warp of `threads` lanes.
lane_group whole_warp(std::uint32_t threads) {
  for (;;) {
    block_barrier();
    auto const group = lane_group::coalesced<struct whole_warp_site>();
    if (group.size() == threads) return group;
  }
}

/// Runs `kernel` in one warp of 32 lanes that form one group.
template <class Kernel>
void in_whole_warp(Kernel const& kernel) {
  launch_fibers({1, warp_size}, {.seed = 2, .partial_groups = 0},
                [&] { kernel(whole_warp(warp_size), this_place().thread); });
}

TEST(LaneGroup, RanksItsMembersByLane) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.size(), 32u);
    EXPECT_EQ(all.rank(), lane);
    EXPECT_EQ(all.leader(), 0u);
    EXPECT_EQ(all.is_leader(), lane == 0);
    EXPECT_EQ(lane_group::own_lane(), lane);
  });
}

TEST(LaneGroup, RanksALaneAmongAnySetOfLanes) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.rank_among(all.members()), all.rank());
    EXPECT_EQ(all.rank_among(0), 0u);
    EXPECT_EQ(all.rank_among(0b10110), count_ones(0b10110 & low_bits(lane)));
    EXPECT_EQ(all.match(lane % 2).rank_among(0xffff), std::min(lane, 16u))
        << "the set may include lanes outside the group";
  });
}

TEST(LaneGroup, ContainsOnlyTheLanesThatTookThisBranch) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    launch_fibers({2, 50}, {.seed = seed}, [] {
      auto const place = this_place();
      lane_mask const odd = 0xaaaaaaaa;
      if (place.thread % 2 == 1) {
        auto const group = lane_group::coalesced<struct odd_site>();
        EXPECT_EQ(group.members() & ~odd, 0u);
        EXPECT_NE(group.members() >> (place.thread % warp_size) & 1, 0u)
            << "a group contains the calling lane";
        if (place.thread >= warp_size) {
          EXPECT_LT(group.members(), 1u << (50 - warp_size));
        }
      } else {
        EXPECT_EQ(lane_group::coalesced<struct even_site>().members() & odd, 0u);
      }
    });
  }
}

TEST(LaneGroup, IsPartialInSomeSchedulesAndWholeInOthers) {
  QUARRY_TEST_USES_FIBERS();
  std::set<std::uint32_t> sizes;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    launch_fibers({1, 32}, {.seed = seed},
                  [&] { sizes.insert(lane_group::coalesced<struct any_site>().size()); });
  }
  EXPECT_TRUE(sizes.contains(32u));
  EXPECT_GT(sizes.size(), 5u);
}

TEST(LaneGroup, IsTheSameForAllItsMembers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<lane_mask> masks(64);
    launch_fibers({1, 64}, {.seed = seed, .partial_groups = 128}, [&] {
      masks[this_place().thread] = lane_group::coalesced<struct any_site>().members();
    });
    for (std::uint32_t thread = 0; thread < 64; ++thread) {
      for (lane_mask rest = masks[thread]; rest != 0; rest &= rest - 1) {
        auto const other =
            thread / warp_size * warp_size + static_cast<std::uint32_t>(std::countr_zero(rest));
        ASSERT_EQ(masks[other], masks[thread])
            << "seed " << seed << " lanes " << thread << " and " << other;
      }
    }
  }
}

TEST(LaneGroup, MatchesMembersWithEqualKeys) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    auto const equals = all.match(lane % 3);
    EXPECT_EQ(equals.size(), lane % 3 == 2 ? 10u : 11u);
    EXPECT_EQ(equals.leader(), lane % 3);
    EXPECT_EQ(equals.rank(), lane / 3);
    EXPECT_EQ(equals.match(lane).size(), 1u) << "all keys differ";
    EXPECT_EQ(all.match(std::uint64_t{lane == 4 ? 1u : 0u} << 40).size(), lane == 4 ? 1u : 31u)
        << "the high half of a key matters";
  });
}

TEST(LaneGroup, MatchesMembersWithEqualOwnersAndKeys) {
  QUARRY_TEST_USES_FIBERS();
  static char const owners[2]{};
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.match(owners, 7u).members(), all.members());
    EXPECT_EQ(all.match(owners, lane % 2).members(), lane % 2 == 0 ? 0x55555555u : 0xAAAAAAAAu);
    EXPECT_EQ(all.match(owners + lane / 16, 7u).members(), lane < 16 ? 0xFFFFu : 0xFFFF0000u);
    EXPECT_EQ(all.match(owners + lane / 16, lane % 2).size(), 8u) << "one of four groups";
    EXPECT_EQ(all.match(owners, std::uint64_t{lane % 2} << 40).size(), 16u) << "keys of 8 bytes";
  });
}

/// 20 bytes without padding: not a multiple of 8.
struct five_words {
  std::uint32_t words[5];
};
struct no_data {};

TEST(LaneGroup, MatchesMembersWhoseObjectsHaveTheSameBytes) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.match_bytes(no_data{}).members(), all.members());
    for (std::uint32_t word = 0; word < 5; ++word) {
      five_words object{{1, 2, 3, 4, 5}};
      EXPECT_EQ(all.match_bytes(object).members(), all.members()) << "each lane has a copy";
      object.words[word] += lane % 2;
      EXPECT_EQ(all.match_bytes(object).members(), lane % 2 == 0 ? 0x55555555u : 0xAAAAAAAAu);
      object.words[(word + 2) % 5] += lane / 16;
      EXPECT_EQ(all.match_bytes(object).size(), 8u) << "one of four groups";
    }
  });
}

TEST(LaneGroup, BroadcastsTheValueOfTheLeaderOrOfALane) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.broadcast(lane + 100), 100u);
    EXPECT_EQ(all.broadcast(lane + 100, 17), 117u);
    auto const parity = all.match(lane % 2);
    EXPECT_EQ(parity.broadcast(std::uint64_t{lane} << 40), std::uint64_t{lane % 2} << 40);
    EXPECT_EQ(all.broadcast(-1.5f - static_cast<float>(lane), 2), -3.5f);
    EXPECT_EQ(all.broadcast(static_cast<std::uint8_t>(lane), 31), 31u);
    EXPECT_TRUE(all.broadcast(lane == 0));
  });
}

TEST(LaneGroup, BallotsItsMembersOnly) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.ballot(lane < 5), 0b11111u);
    EXPECT_EQ(all.match(lane % 2).ballot(lane < 6), lane % 2 == 1 ? 0b101010u : 0b010101u);
    EXPECT_EQ(all.ballot(false), 0u);
  });
}

TEST(LaneGroup, ReducesWithOr) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.or_reduce(word{1} << lane * 2), 0x5555555555555555u);
    EXPECT_EQ(all.match(lane / 16).or_reduce(word{1} << lane), lane < 16 ? 0xffffu : 0xffff0000u);
  });
}

TEST(LaneGroup, ReducesWithMax) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.max_reduce(lane ^ 5), 31u);
    EXPECT_EQ(all.max_reduce(~lane), ~0u) << "unsigned";
    EXPECT_EQ(all.match(lane % 3).max_reduce(100 - lane), 100 - lane % 3);
  });
}

TEST(LaneGroup, SumsTheValuesOfLowerLanes) {
  QUARRY_TEST_USES_FIBERS();
  in_whole_warp([](lane_group const& all, std::uint32_t lane) {
    EXPECT_EQ(all.exclusive_sum(lane), lane * (lane - 1) / 2);
    EXPECT_EQ(all.match(lane % 2).exclusive_sum(1u), lane / 2);
    EXPECT_EQ(all.exclusive_sum(std::uint64_t{1} << 40), std::uint64_t{lane} << 40);
  });
}

TEST(LaneGroup, WaitsForAllItsMembers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint32_t arrived = 0;
    launch_fibers({1, 32}, {.seed = seed, .partial_groups = 0}, [&] {
      auto const all = whole_warp(32);
      ++arrived;
      all.sync();
      EXPECT_EQ(arrived, 32u) << "seed " << seed;
    });
  }
}

/// Compares every operation of a group of any shape with a loop over the values of its members.
TEST(LaneGroup, AgreesWithALoopOverItsMembers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    std::vector<std::uint64_t> keys(45);
    std::vector<std::uint64_t> values(45);
    std::generate(keys.begin(), keys.end(), [&] { return random() % 3; });
    std::generate(values.begin(), values.end(), [&] { return random(); });
    launch_fibers({1, 45}, {.seed = seed}, [&] {
      std::uint32_t const thread = this_place().thread;
      std::uint32_t const first = thread / warp_size * warp_size;
      auto const all = lane_group::coalesced<struct property_site>();
      auto const group = all.match(keys[thread]);
      lane_mask members = 0;
      lane_mask votes = 0;
      std::uint64_t sum = 0;
      word any = 0;
      for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
        if ((all.members() >> lane & 1) == 0 || keys[first + lane] != keys[thread]) continue;
        members |= lane_mask{1} << lane;
        votes |= static_cast<lane_mask>(values[first + lane] & 1) << lane;
        any |= values[first + lane];
        if (first + lane < thread) sum += values[first + lane];
      }
      EXPECT_EQ(group.members(), members);
      EXPECT_EQ(group.ballot((values[thread] & 1) != 0), votes);
      EXPECT_EQ(group.or_reduce(values[thread]), any);
      EXPECT_EQ(group.exclusive_sum(values[thread]), sum);
      EXPECT_EQ(group.broadcast(values[thread]), values[first + group.leader()]);
    });
  }
}

TEST(LaneGroup, IsOneLaneOnAThread) {
  launch_threads({2, 40}, 4, [] {
    auto const group = lane_group::coalesced<struct thread_site>();
    EXPECT_EQ(group.size(), 1u);
    EXPECT_EQ(group.rank(), 0u);
    EXPECT_TRUE(group.is_leader());
    EXPECT_EQ(group.leader(), this_place().thread % warp_size);
    EXPECT_EQ(group.match(7).members(), group.members());
    EXPECT_EQ(group.match_bytes(five_words{}).members(), group.members());
    EXPECT_EQ(group.broadcast(5), 5);
    EXPECT_EQ(group.ballot(true), group.members());
    EXPECT_EQ(group.ballot(false), 0u);
    EXPECT_EQ(group.or_reduce(6), 6u);
    EXPECT_EQ(group.exclusive_sum(6), 0);
    group.sync();
  });
}

TEST(LaneGroup, IsOneLaneOutsideALaunch) {
  auto const group = lane_group::coalesced<struct outside_site>();
  EXPECT_EQ(group.members(), 1u);
  EXPECT_TRUE(group.is_leader());
  EXPECT_EQ(group.broadcast(5u), 5u);
  EXPECT_EQ(group.or_reduce(9), 9u);
  EXPECT_EQ(group.match(3).members(), 1u);
}

}  // namespace lane_group_test
}  // namespace quarry::simt
