// SPDX-License-Identifier: Apache-2.0
// Two and more groups of one warp, active together, must not mix. Lanes arrive at a group operation
// at random times, so that groups overlap. Each operation's result is compared with the result that
// follows from the group's members.
#include "quarry/simt/lane_group.hpp"
#include "support/backends.hpp"

namespace quarry::simt {
namespace concurrent_groups_test {

using namespace quarry::test;

constexpr std::uint32_t warps = 8;

/// A number that differs between lanes and turns.
QUARRY_HD std::uint32_t number_of(std::uint32_t lane, std::uint32_t turn) {
  return mix(lane * 1000 + turn);
}

/// A lane's turn and its warp's words of memory.
struct situation {
  std::uint32_t lane;
  std::uint32_t turn;
  std::uint32_t* words;  // one for each lane of the warp
};

QUARRY_HD lane_mask lanes_with(lane_mask members, std::uint32_t (*key)(std::uint32_t),
                               std::uint32_t wanted) {
  lane_mask result = 0;
  for (lane_mask rest = members; rest != 0; rest &= rest - 1) {
    if (key(lowest_one(rest)) == wanted) result |= rest & (0u - rest);
  }
  return result;
}
QUARRY_HD std::uint32_t third(std::uint32_t lane) { return lane % 3; }

/// The leader's value arrives late: a lane that does not wait for its leader gets another value.
struct broadcasts_late_value {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    std::uint64_t value = 0;
    if (group.is_leader()) {
      for (std::uint32_t i = 0; i < own.turn % 4; ++i) pause();
      value = number_of(own.lane, 1);
    }
    return group.broadcast(value) == number_of(group.leader(), 1);
  }
};

struct synchronizes {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    if (group.is_leader()) {
      for (std::uint32_t i = 0; i < own.turn % 4; ++i) pause();
      own.words[own.lane] = number_of(own.lane, own.turn);
    }
    group.sync();
    std::uint32_t const seen = own.words[group.leader()];
    bool const is_right = seen == number_of(group.leader(), group.broadcast(own.turn));
    group.sync();  // before the leader's next write
    return is_right;
  }
};

struct ballots {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    return group.ballot(third(own.lane) == 1) == lanes_with(group.members(), &third, 1);
  }
};

struct matches_keys {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    return group.match(third(own.lane)).members() ==
           lanes_with(group.members(), &third, third(own.lane));
  }
};

struct matches_one_key {
  QUARRY_HD static bool is_right(lane_group const& group, situation const&) {
    return group.match(7u).members() == group.members();
  }
};

struct matches_owner_and_key {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    return group.match(own.words, third(own.lane)).members() ==
               lanes_with(group.members(), &third, third(own.lane)) &&
           group.match(own.words, 7u).members() == group.members();
  }
};

struct matches_bytes {
  struct handle {
    void* state;
    std::uint64_t number;
  };
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    return group.match_bytes(handle{own.words, 7}).members() == group.members() &&
           group.match_bytes(handle{own.words, third(own.lane)}).members() ==
               lanes_with(group.members(), &third, third(own.lane));
  }
};

struct compares_all {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    return group.all_equal(7u) && group.all_equal(reinterpret_cast<std::uint64_t>(own.words)) &&
           group.all_equal(own.lane) == (group.size() == 1);
  }
};

struct reduces {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    return group.or_reduce(word{1} << own.lane) == group.members();
  }
};

struct sums {
  QUARRY_HD static bool is_right(lane_group const& group, situation const& own) {
    std::uint64_t expected = 0;
    for (lane_mask rest = group.members(); lowest_one(rest) != own.lane; rest &= rest - 1)
      expected += number_of(lowest_one(rest), 3);
    return group.exclusive_sum(std::uint64_t{number_of(own.lane, 3)}) == expected;
  }
};

/// The order of operations in a coalesced allocation.
struct allocates_for_the_group {
  QUARRY_HD static bool is_right(lane_group const& all, situation const& own) {
    lane_group const group = all.match_bytes(own.words);
    std::uint64_t largest = 0;
    for (lane_mask rest = group.members(); rest != 0; rest &= rest - 1) {
      std::uint64_t const size = group.broadcast(number_of(own.lane, 5), lowest_one(rest));
      if (size > largest) largest = size;
    }
    std::uint64_t block = 0;
    if (group.is_leader()) {
      pause(own.turn % 4);
      block = largest + group.leader();
    }
    group.sync();
    block = group.broadcast(block);
    std::uint64_t expected = 0;
    for (lane_mask rest = group.members(); rest != 0; rest &= rest - 1) {
      std::uint64_t const size = number_of(lowest_one(rest), 5);
      if (size > expected) expected = size;
    }
    return block == expected + group.leader();
  }
};

template <class Operation>
struct overlapping_groups {
  std::uint32_t* wrong;
  std::uint32_t* groups;  // that had some lanes of their warp, but not all
  std::uint32_t* words;
  std::uint32_t turns;

  QUARRY_HD void operator()() const {
    auto const place = this_place();
    situation own{lane_group::own_lane(), 0, words + place.rank() / warp_size * warp_size};
    std::uint32_t random = mix(static_cast<std::uint32_t>(place.rank()) + 1);
    for (own.turn = 0; own.turn < turns; ++own.turn) {
      random = mix(random + own.turn);
      if (random % 4 == 0) continue;
      for (std::uint32_t wait = random >> 8 & 7; wait > 4; --wait) pause();
      auto const group = lane_group::coalesced<overlapping_groups>();
      if (!Operation::is_right(group, own)) atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, relaxed);
      if (group.size() != warp_size && group.is_leader())
        atomic_ref<std::uint32_t>{*groups}.fetch_add(1, relaxed);
    }
  }
};

template <class Backend>
struct ConcurrentGroups : testing::Test {
  template <class Operation>
  void expect_right() {
    std::uint64_t groups_in_all = 0;
    for (auto const seed : Backend::seeds()) {
      bool const is_gpu = std::string{Backend::name} == "cuda";
      grid const lanes = is_gpu ? grid{132, 256} : grid{1, 2 * warp_size};
      typename Backend::template array<std::uint32_t> wrong(1);
      typename Backend::template array<std::uint32_t> groups(1);
      typename Backend::template array<std::uint32_t> words(static_cast<std::size_t>(lanes.blocks) *
                                                            lanes.threads);
      Backend{seed}.run(lanes, overlapping_groups<Operation>{wrong.data(), groups.data(),
                                                             words.data(), is_gpu ? 200u : 4u});
      ASSERT_EQ(wrong[0], 0u) << "results that are wrong, seed " << seed;
      groups_in_all += groups[0];
    }
    EXPECT_GT(groups_in_all, 0u) << "each group was a whole warp";
  }
};
TYPED_TEST_SUITE(ConcurrentGroups, backends, backend_names);

TYPED_TEST(ConcurrentGroups, BroadcastTheirOwnLeadersValue) {
  this->template expect_right<broadcasts_late_value>();
}
TYPED_TEST(ConcurrentGroups, WaitForTheirOwnMembers) {
  this->template expect_right<synchronizes>();
}
TYPED_TEST(ConcurrentGroups, CountTheirOwnBallots) { this->template expect_right<ballots>(); }
TYPED_TEST(ConcurrentGroups, MatchKeysOfTheirOwnMembers) {
  this->template expect_right<matches_keys>();
}
TYPED_TEST(ConcurrentGroups, StayApartIfAllKeysAreEqual) {
  this->template expect_right<matches_one_key>();
}
TYPED_TEST(ConcurrentGroups, MatchOwnersOfTheirOwnMembers) {
  this->template expect_right<matches_owner_and_key>();
}
TYPED_TEST(ConcurrentGroups, MatchBytesOfTheirOwnMembers) {
  this->template expect_right<matches_bytes>();
}
TYPED_TEST(ConcurrentGroups, CompareTheirOwnMembers) {
  this->template expect_right<compares_all>();
}
TYPED_TEST(ConcurrentGroups, ReduceTheirOwnMembers) { this->template expect_right<reduces>(); }
TYPED_TEST(ConcurrentGroups, SumTheirOwnMembers) { this->template expect_right<sums>(); }
TYPED_TEST(ConcurrentGroups, AllocateForTheirOwnMembers) {
  this->template expect_right<allocates_for_the_group>();
}

}  // namespace concurrent_groups_test
}  // namespace quarry::simt
