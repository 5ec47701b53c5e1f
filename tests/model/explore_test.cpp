// SPDX-License-Identifier: Apache-2.0
#include "support/explore.hpp"

#include "support/fibers_allowed.hpp"

#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace quarry::test {
namespace explore_test {

using counter = simt::atomic_ref<std::uint32_t>;

/// Lanes that make `steps` accesses each. `check` records the order of their accesses.
scenario recording(std::uint32_t lanes, std::uint32_t steps, std::set<std::string>& seen) {
  struct state {
    std::uint32_t counter = 0;
    std::string order;
  };
  auto const shared_state = std::make_shared<state>();
  scenario run;
  for (std::uint32_t i = 0; i < lanes; ++i) {
    run.lanes.emplace_back([shared_state, i, steps] {
      for (std::uint32_t step = 0; step < steps; ++step) {
        counter{shared_state->counter}.fetch_add(1, simt::relaxed);
        shared_state->order += static_cast<char>('0' + i);
      }
    });
  }
  run.check = [shared_state, &seen] {
    seen.insert(shared_state->order);
    return std::string{};
  };
  return run;
}

TEST(Explore, RunsEveryInterleavingWithoutABound) {
  QUARRY_TEST_USES_FIBERS();
  std::set<std::string> orders;
  auto const result = explore([&] { return recording(2, 4, orders); }, {.preemptions = 100});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(orders.size(), 70u) << "8 choose 4";
}

TEST(Explore, RunsEveryInterleavingOfThreeLanes) {
  QUARRY_TEST_USES_FIBERS();
  std::set<std::string> orders;
  auto const result = explore([&] { return recording(3, 2, orders); }, {.preemptions = 100});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(orders.size(), 90u) << "6! / (2! 2! 2!)";
}

TEST(Explore, WithoutPreemptionsRunsOnlyTheOrdersOfWholeLanes) {
  QUARRY_TEST_USES_FIBERS();
  std::set<std::string> orders;
  auto const result = explore([&] { return recording(2, 3, orders); }, {.preemptions = 0});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(orders, (std::set<std::string>{"000111", "111000"}));
}

TEST(Explore, IsIncompleteIfItRunsOutOfSchedules) {
  QUARRY_TEST_USES_FIBERS();
  std::set<std::string> orders;
  auto const result =
      explore([&] { return recording(2, 4, orders); }, {.preemptions = 100, .max_schedules = 10});
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.schedules, 10u);
}

TEST(Explore, FindsALostUpdateAndReportsItsSchedule) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = explore([] {
    auto const shared = std::make_shared<std::uint32_t>(0);
    auto const add = [shared] {
      auto const old_value = counter{*shared}.load(simt::relaxed);
      counter{*shared}.store(old_value + 1, simt::relaxed);
    };
    return scenario{{add, add},
                    [shared] { return *shared == 2 ? std::string{} : "an update was lost"; }};
  });
  EXPECT_NE(result.failure.find("an update was lost; schedule"), std::string::npos)
      << result.failure;
}

TEST(Explore, ContinuesAWaitingLaneWhenTheOtherLaneHasActed) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = explore(
      [] {
        auto const flag = std::make_shared<std::uint32_t>(0);
        return scenario{{[flag] {
                           while (counter{*flag}.load(simt::acquire) == 0) simt::pause();
                         },
                         [flag] { counter{*flag}.store(1, simt::release); }},
                        [] { return std::string{}; }};
      },
      {.preemptions = 100});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.failure, "");
}

TEST(Explore, ReportsALivelock) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = explore(
      [] {
        auto const never = std::make_shared<std::uint32_t>(0);
        return scenario{{[never] {
                          while (counter{*never}.load(simt::relaxed) == 0) simt::pause();
                        }},
                        [] { return std::string{}; }};
      },
      {.max_steps = 100});
  EXPECT_EQ(result.failure.substr(0, 8), "livelock");
}

TEST(Explore, ReportsAnExceptionOfALane) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = explore([] {
    return scenario{{[] { throw std::runtime_error{"on purpose"}; }}, [] { return std::string{}; }};
  });
  EXPECT_NE(result.failure.find("on purpose"), std::string::npos);
}

}  // namespace explore_test
}  // namespace quarry::test
