// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of lanes of a warp that wait for words and look together.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/waiting_lanes.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace quarry::test {
namespace waiting_lanes_model_test {

using mpi::waiting_lanes;

constexpr std::uint32_t most_lanes = 3;

/// The votes of a warp. A vote is complete when all of its members have voted; members that name
/// different sets are a fault.
struct votes {
  std::uint32_t members = 0, arrived = 0, found = 0, told = 0, number = 0;
  std::uint32_t result = 0, told_result = 0;
  std::string fault;

  /// The explorer changes lanes at atomics only, so all but the wait is one step.
  std::uint32_t meet(std::uint32_t set, std::uint32_t lane, bool value, std::uint32_t speech,
                     bool tells) {
    std::uint32_t const own = 1u << lane;
    if (arrived != 0 && members != set) fault = "two sets of members vote at once";
    if ((set & own) == 0) fault = "a lane votes that is no member";
    members = set;
    arrived |= own;
    found |= value ? own : 0;
    told |= speech;
    std::uint32_t const round = number;
    if (arrived == members) {
      result = found;
      told_result = told;
      arrived = found = told = 0;
      ++number;
    }
    simt::atomic_ref<std::uint32_t> const rounds{number};
    while (rounds.load(simt::relaxed) == round) simt::pause();
    return tells ? told_result : result;
  }
};

struct warp_of_model {
  votes& at;
  std::uint32_t own;

  std::uint32_t lane() const { return own; }
  std::uint32_t vote(std::uint32_t members, bool value) const {
    return at.meet(members, own, value, 0, false);
  }
  std::uint32_t tell(std::uint32_t members, std::uint32_t value, std::uint32_t speaker) const {
    return at.meet(members, own, false, own == speaker ? value : 0, true);
  }
  void pause() const {}
};

/// Lane 0 waits for what lane 1 does, and lane 1 for what lane 2 does after a wait without success.
struct chain {
  waiting_lanes::place place = 0;
  votes all;
  std::array<std::uint32_t, most_lanes> done{};
  std::array<bool, most_lanes> has_come{};

  bool wait(std::uint32_t lane, std::uint32_t looks, std::uint32_t awaited) {
    simt::atomic_ref<std::uint32_t> const word{done[awaited]};
    return waiting_lanes::wait(place, warp_of_model{all, lane}, looks,
                               [&] { return word.load(simt::relaxed) != 0; });
  }
  void run(std::uint32_t lane, std::uint32_t lanes) {
    if (lane + 1 < lanes) {
      while (!wait(lane, 2, lane + 1)) simt::pause();
    } else {
      (void)wait(lane, 1, lane);
    }
    has_come[lane] = true;
    simt::atomic_ref<std::uint32_t>{done[lane]}.store(1, simt::relaxed);
  }
};

scenario chain_of(std::uint32_t lanes) {
  auto const shared = std::make_shared<chain>();
  scenario made;
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    made.lanes.push_back([shared, lane, lanes] { shared->run(lane, lanes); });
  made.check = [shared, lanes]() -> std::string {
    if (!shared->all.fault.empty()) return shared->all.fault;
    if (shared->place != 0) return "a lane has left its bit";
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
      if (!shared->has_come[lane]) return "a lane has not ended its wait";
    return {};
  };
  return made;
}

TEST(WaitingLanesModel, TwoLanesEndTheirWaits) {
  expect_all_schedules_hold([] { return chain_of(2); }, {.preemptions = 6});
}
TEST(WaitingLanesModel, ThreeLanesVoteInOneSet) {
  expect_all_schedules_hold([] { return chain_of(3); }, {.preemptions = 2});
}

TEST(WaitingLanes, EndsAfterItsLooks) {
  waiting_lanes::place place = 0;
  votes all;
  std::uint32_t looks = 0;
  EXPECT_FALSE(waiting_lanes::wait(place, warp_of_model{all, 5}, 7, [&] {
    ++looks;
    return false;
  }));
  EXPECT_EQ(looks, 7u);
  EXPECT_EQ(place, 0u);
  EXPECT_TRUE(waiting_lanes::wait(place, warp_of_model{all, 5}, 7, [] { return true; }));
  EXPECT_EQ(place, 0u);
}

}  // namespace waiting_lanes_model_test
}  // namespace quarry::test
