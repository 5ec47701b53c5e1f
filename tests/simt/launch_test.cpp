// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/launch.hpp"

#include "quarry/simt/atomic.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace quarry::simt {
namespace launch_test {

/// The order in which lanes make their accesses.
std::vector<std::uint64_t> order_of(fiber_schedule schedule) {
  std::vector<std::uint64_t> order;
  std::uint32_t shared = 0;
  launch_fibers({2, 40}, schedule, [&] {
    for (int i = 0; i < 3; ++i) {
      atomic_ref<std::uint32_t>{shared}.fetch_add(1, relaxed);
      order.push_back(this_place().rank());
    }
    order.push_back(lane_group::coalesced<struct some_site>().members());
  });
  return order;
}

/// Returns a group of all lanes of a block, which has one warp of `threads` lanes.
lane_group whole_warp(std::uint32_t threads) {
  for (;;) {
    block_barrier();
    auto const group = lane_group::coalesced<struct whole_warp_site>();
    if (group.size() == threads) return group;
  }
}

std::string message_of(std::uint64_t seed, grid lanes, std::function<void()> const& kernel) {
  try {
    launch_fibers(lanes, {.seed = seed, .partial_groups = 0}, kernel);
  } catch (std::exception const& problem) {
    return problem.what();
  }
  return "nothing was thrown";
}

TEST(LaunchFibers, RunsEachLaneOnce) {
  QUARRY_TEST_USES_FIBERS();
  std::vector<int> runs(7 * 33);
  launch_fibers({7, 33}, {}, [&] { ++runs[this_place().rank()]; });
  EXPECT_EQ(runs, std::vector<int>(7 * 33, 1));
}

TEST(LaunchFibers, RunsNothingOnAnEmptyGrid) {
  QUARRY_TEST_USES_FIBERS();
  int runs = 0;
  launch_fibers({0, 32}, {}, [&] { ++runs; });
  launch_fibers({4, 0}, {}, [&] { ++runs; });
  EXPECT_EQ(runs, 0);
}

TEST(LaunchFibers, RunsAllLanesOnTheCallersThread) {
  QUARRY_TEST_USES_FIBERS();
  launch_fibers({2, 8}, {}, [caller = std::this_thread::get_id()] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(current_lane, nullptr);
}

TEST(LaunchFibers, RefusesMoreThanAMillionLanes) {
  EXPECT_THROW(launch_fibers({(1u << 20) + 1, 1}, {}, [] {}), std::invalid_argument);
  EXPECT_THROW(launch_fibers({1u << 20, 1u << 20}, {}, [] {}), std::invalid_argument)
      << "the product of blocks and threads overflows";
}

TEST(LaunchFibers, RepeatsAnInterleavingFromItsSeed) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    EXPECT_EQ(order_of({.seed = seed}), order_of({.seed = seed}));
}

TEST(LaunchFibers, InterleavesDifferentlyForDifferentSeeds) {
  QUARRY_TEST_USES_FIBERS();
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) orders.insert(order_of({.seed = seed}));
  EXPECT_EQ(orders.size(), 50u);
}

TEST(LaunchFibers, DoesNotSwitchLanesBetweenAccessesWithoutSwitches) {
  QUARRY_TEST_USES_FIBERS();
  auto const order = order_of({.seed = 4, .switches = 0});
  std::uint32_t in_a_row = 0;
  for (std::size_t i = 0; i + 2 < order.size(); ++i)
    in_a_row += order[i] == order[i + 1] && order[i] == order[i + 2] ? 1 : 0;
  EXPECT_GE(in_a_row, 80u) << "each lane makes its three accesses in a row";
}

TEST(LaunchFibers, RethrowsAnExceptionOfALaneAndUnwindsTheOtherLanes) {
  QUARRY_TEST_USES_FIBERS();
  struct guard {
    explicit guard(int& alive) : alive_{alive} { ++alive_; }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() { --alive_; }
    int& alive_;
  };
  int alive = 0;
  EXPECT_EQ(message_of(1, {2, 40},
                       [&] {
                         guard const counted{alive};
                         block_barrier();
                         if (this_place().rank() == 50) throw std::runtime_error{"lane 50"};
                         grid_barrier();
                       }),
            "lane 50");
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(current_lane, nullptr);
}

TEST(LaunchFibers, ReportsADeadlockWithItsSeedAndTheWaitOfEachLane) {
  QUARRY_TEST_USES_FIBERS();
  EXPECT_EQ(message_of(7, {2, 3},
                       [] {
                         auto const place = this_place();
                         if (place.block == 1) {
                           if (place.thread == 0) grid_barrier();
                           return;
                         }
                         auto const group = whole_warp(3);
                         if (place.thread == 1) (void)group.ballot(true);
                         if (place.thread == 2) block_barrier();
                         if (place.thread == 0) block_barrier();
                       }),
            "deadlock (seed 7), 2 of 6 lanes are done:\n"
            "  block 0 thread 0 waits at the block barrier\n"
            "  block 0 thread 1 waits in ballot for lanes 0x7\n"
            "  block 0 thread 2 waits at the block barrier\n"
            "  block 1 thread 0 waits at the grid barrier");
}

TEST(LaunchFibers, ReportsALaneThatEndedWhileItsGroupWaits) {
  QUARRY_TEST_USES_FIBERS();
  EXPECT_EQ(message_of(11, {1, 2},
                       [] {
                         auto const group = whole_warp(2);
                         if (this_place().thread == 1) group.sync();
                       }),
            "deadlock (seed 11), 1 of 2 lanes are done:\n"
            "  block 0 thread 1 waits in sync for lanes 0x3");
}

TEST(LaunchFibers, ThrowsATypeOfItsOwnForADeadlock) {
  QUARRY_TEST_USES_FIBERS();
  EXPECT_THROW(launch_fibers({1, 2}, {.partial_groups = 0},
                             [] {
                               auto const group = whole_warp(2);
                               if (this_place().thread == 1) group.sync();
                             }),
               deadlock);
}

TEST(LaunchFibers, RefusesAGroupWhoseLanesCallDifferentOperations) {
  QUARRY_TEST_USES_FIBERS();
  auto const message = message_of(5, {1, 2}, [] {
    auto const group = whole_warp(2);
    if (this_place().thread == 0) {
      (void)group.ballot(true);
    } else {
      group.sync();
    }
  });
  EXPECT_EQ(message.substr(0, 51), "lanes of one group met in different operations: blo")
      << message;
  EXPECT_NE(message.find("ballot"), std::string::npos);
  EXPECT_NE(message.find("sync"), std::string::npos);
}

TEST(LaunchFibers, PartsOnSeveralThreadsRunEachLaneOnce) {
  for (std::uint32_t const middle : {0u, 1u, 32u, 45u, 79u, 80u}) {
    std::vector<std::atomic<int>> runs(80);
    std::atomic<int> arrived{0};
    auto const run = [&](lane_part part) {
      launch_fibers({2, 40}, {.seed = part.number + 1, .part = part}, [&] {
        ++runs[this_place().rank()];
        EXPECT_EQ(this_place().rank() < middle ? 0u : 1u, current_lane->thread());
        auto const group = lane_group::coalesced<struct part_site>();
        EXPECT_EQ(group.broadcast(current_lane->thread()), current_lane->thread());
        for (++arrived; arrived != 80;)
          pause();  // so that lanes of both parts run at the same time
      });
    };
    std::jthread const other{run, lane_part{middle, ~std::uint64_t{0}, 1}};
    run({0, middle, 0});
    while (arrived != 80) yield_thread();
    for (auto const& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(LaunchFibers, RefusesABarrierInAPart) {
  EXPECT_THROW(launch_fibers({1, 4}, {.part = {1, 2, 0}}, [] { block_barrier(); }), bad_state);
  EXPECT_THROW(launch_fibers({1, 4}, {.part = {0, 3, 0}}, [] { grid_barrier(); }), bad_state);
}

TEST(LaunchFibers, LanesOfAPartUseTheirOwnStacks) {
  constexpr std::size_t bytes = 64 * 1024;
  std::vector<char> memory(4 * bytes);
  launch_fibers({1, 4}, {.stacks = {memory.data(), bytes, bytes}, .part = {1, 2, 0}}, [&] {
    char const local = 0;
    auto const offset = static_cast<std::size_t>(&local - memory.data());
    EXPECT_EQ(offset / bytes, this_place().rank());
  });
}

/// A clock that only the lanes advance. Atomic for ThreadSanitizer, to which a lane is a thread.
std::atomic<std::uint64_t> steps_of_lanes = 0;
std::uint64_t clock_of_steps() { return steps_of_lanes; }

TEST(LaunchFibers, MeasuresHowLongEachLaneRunsApartFromTheOthers) {
  for (std::uint64_t const seed : {1u, 2u, 3u}) {
    steps_of_lanes = 1000;
    std::uint32_t shared = 0;
    launch_fibers({2, 40}, {.seed = seed, .clock = &clock_of_steps}, [&] {
      std::uint64_t const own = this_place().rank() + 1;
      for (std::uint64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(current_lane->time_run(steps_of_lanes), i * own);
        steps_of_lanes += own;
        atomic_ref<std::uint32_t>{shared}.fetch_add(1, relaxed);  // others may run
        if (i % 2 != 0) current_lane->pause();
      }
      (void)lane_group::coalesced<struct some_site>();
      EXPECT_EQ(current_lane->time_run(steps_of_lanes), 5 * own);
    });
  }
}

TEST(LaunchFibers, HasNoTimesOfLanesWithoutAClock) {
  launch_fibers({1, 2}, {}, [] { EXPECT_EQ(current_lane->time_run(7), 7u); });
}

TEST(LaunchThreads, RunsEachLaneOnceWithAndWithoutSharedThreads) {
  for (std::uint32_t const threads : {1u, 3u, 64u}) {
    std::vector<std::atomic<int>> runs(4 * 16);
    launch_threads({4, 16}, threads, [&] { ++runs[this_place().rank()]; });
    for (auto const& times : runs) EXPECT_EQ(times, 1) << threads << " threads";
  }
}

TEST(LaunchThreads, RunsEachLaneOnItsOwnThreadIfThereAreEnoughThreads) {
  std::set<std::thread::id> ids;
  std::uint32_t taken = 0;
  launch_threads({2, 3}, 6, [&] {
    atomic_ref<std::uint32_t> const lock{taken};
    while (lock.exchange(1, acquire) != 0) pause();
    ids.insert(std::this_thread::get_id());
    lock.store(0, release);
    grid_barrier();
  });
  EXPECT_EQ(ids.size(), 6u);
}

TEST(LaunchThreads, RefusesBarriersIfLanesShareThreads) {
  EXPECT_THROW(launch_threads({1, 4}, 3, [] { block_barrier(); }), std::logic_error);
  EXPECT_THROW(launch_threads({1, 4}, 3, [] { grid_barrier(); }), std::logic_error);
}

TEST(LaunchThreads, RefusesZeroThreads) {
  EXPECT_THROW(launch_threads({1, 1}, 0, [] {}), std::invalid_argument);
}

TEST(LaunchThreads, RethrowsAnExceptionOfALaneAndEndsTheOtherLanes) {
  for (std::uint32_t const threads : {2u, 8u}) {
    std::atomic<int> ended{0};
    EXPECT_THROW(
        launch_threads({2, 4}, threads,
                       [&] {
                         ++ended;
                         if (this_place().rank() == 5) throw std::runtime_error{"lane 5"};
                         if (threads == 8)
                           grid_barrier();  // the barrier does not wait for the lane that threw
                       }),
        std::runtime_error);
    EXPECT_EQ(ended, 8);
  }
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // they reserve all addresses
/// Launches 64 lanes with a barrier in a process that has no address space for 64 stacks.
[[noreturn]] void launch_with_too_few_threads() {
  std::uint64_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  rlim_t const limit = pages * 4096 + (rlim_t{100} << 20);
  rlimit const limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::_Exit(3);
  std::atomic<int> ran{0};
  try {
    launch_threads({1, 64}, 64, [&] {
      ++ran;
      block_barrier();
    });
  } catch (std::system_error const&) {
    std::fprintf(stderr, "%d lanes ran\n", ran.load());
    std::_Exit(0);
  }
  std::_Exit(2);
}

TEST(LaunchThreadsDeathTest, RunsNoLaneIfAThreadCannotStart) {
  EXPECT_EXIT(launch_with_too_few_threads(), testing::ExitedWithCode(0), "^0 lanes ran");
}
#endif

}  // namespace launch_test
}  // namespace quarry::simt
