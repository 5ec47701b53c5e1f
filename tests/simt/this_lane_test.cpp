// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/this_lane.hpp"

#include "quarry/simt/atomic.hpp"
#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace quarry::simt {
namespace this_lane_test {

TEST(ThisLane, IsTheOnlyLaneOutsideALaunch) {
  auto const place = this_place();
  EXPECT_EQ(place.rank(), 0u);
  EXPECT_EQ(place.count(), 1u);
  block_barrier();  // does not wait: there is no other lane
  grid_barrier();
  pause();
}

TEST(ThisLane, KnowsItsPlaceInFibers) {
  QUARRY_TEST_USES_FIBERS();
  std::vector<int> seen(3 * 40);
  launch_fibers({3, 40}, {}, [&] {
    auto const place = this_place();
    EXPECT_EQ(place.blocks, 3u);
    EXPECT_EQ(place.threads, 40u);
    EXPECT_EQ(warp_hint(), place.block + place.thread / warp_size);
    ++seen[place.rank()];
  });
  for (int const times : seen) EXPECT_EQ(times, 1);
}

/// Tests blocks with different numbers of threads, and calls by all warps or only by the first warp
/// of each block.
TEST(ThisLane, SpreadsWarpsEvenlyForAllBlockSizes) {
  QUARRY_TEST_USES_FIBERS();
  constexpr std::uint32_t places = 12;
  for (std::uint32_t const threads : {32u, 128u, 160u, 256u, 384u}) {
    for (bool const first_warp_only : {false, true}) {
      SCOPED_TRACE(std::to_string(threads) + (first_warp_only ? " first warps" : " all warps"));
      std::vector<std::uint32_t> calls(places);
      launch_fibers({2 * places, threads}, {}, [&] {
        auto const thread = this_place().thread;
        bool const is_first = first_warp_only ? thread == 0 : thread % warp_size == 0;
        if (is_first) ++calls[warp_hint() % places];
      });
      for (auto const count : calls) EXPECT_EQ(count, calls[0]);
    }
  }
}

TEST(ThisLane, KnowsItsPlaceOnThreads) {
  std::vector<std::atomic<int>> seen(3 * 40);
  launch_threads({3, 40}, 4, [&] { ++seen[this_place().rank()]; });
  for (auto const& times : seen) EXPECT_EQ(times, 1);
}

/// Each lane records in `seen` whether it passed a barrier before all lanes of its block had
/// arrived.
void expect_block_barrier_waits(std::vector<std::uint32_t>& arrived,
                                std::vector<std::uint32_t>& seen) {
  auto const place = this_place();
  for (std::uint32_t round = 1; round <= 3; ++round) {
    atomic_ref<std::uint32_t>{arrived[place.block]}.fetch_add(1, relaxed);
    block_barrier();
    if (atomic_ref<std::uint32_t>{arrived[place.block]}.load(relaxed) < round * place.threads)
      seen[place.rank()] = 1;
    block_barrier();
  }
}

TEST(ThisLane, WaitsAtABlockBarrierForItsBlockInFibers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::uint32_t> arrived(3);
    std::vector<std::uint32_t> passed_early(3 * 50);
    launch_fibers({3, 50}, {.seed = seed},
                  [&] { expect_block_barrier_waits(arrived, passed_early); });
    EXPECT_EQ(passed_early, std::vector<std::uint32_t>(3 * 50)) << "seed " << seed;
  }
}

TEST(ThisLane, WaitsAtABlockBarrierForItsBlockOnThreads) {
  std::vector<std::uint32_t> arrived(2);
  std::vector<std::uint32_t> passed_early(2 * 4);
  launch_threads({2, 4}, 8, [&] { expect_block_barrier_waits(arrived, passed_early); });
  EXPECT_EQ(passed_early, std::vector<std::uint32_t>(8));
}

TEST(ThisLane, WaitsAtAGridBarrierForAllBlocks) {
  QUARRY_TEST_USES_FIBERS();
  std::uint32_t arrived = 0;
  launch_fibers({4, 20}, {.seed = 3}, [&] {
    for (std::uint32_t round = 1; round <= 3; ++round) {
      atomic_ref<std::uint32_t>{arrived}.fetch_add(1, relaxed);
      grid_barrier();
      EXPECT_GE(arrived, round * 80);
      grid_barrier();
    }
  });
}

TEST(ThisLane, DoesNotWaitAtBarriersForLanesThatHaveEnded) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint32_t passed = 0;
    launch_fibers({3, 10}, {.seed = seed}, [&] {
      auto const place = this_place();
      if (place.thread % 2 == 0 || place.block == 1) return;
      block_barrier();
      grid_barrier();
      ++passed;
    });
    EXPECT_EQ(passed, 10u) << "seed " << seed;
  }
}

TEST(ThisLane, DoesNotWaitAtBarriersForThreadsThatHaveEnded) {
  std::atomic<int> passed{0};
  launch_threads({2, 3}, 6, [&] {
    if (this_place().thread == 0) return;
    block_barrier();
    grid_barrier();
    ++passed;
  });
  EXPECT_EQ(passed, 4);
}

TEST(ThisLane, LetsAnotherLaneRunWhenItPauses) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint32_t flag = 0;
    launch_fibers({1, 2}, {.seed = seed, .switches = 0}, [&] {
      if (this_place().thread == 1) flag = 1;
      while (flag == 0) pause();  // never ends if the other lane does not run
    });
    EXPECT_EQ(flag, 1u);
  }
}

/// In each round lane 0 of each block broadcasts another value. All lanes of the block must get
/// this value, whatever they pass themselves.
void expect_block_broadcasts(std::vector<std::uint32_t>& wrong) {
  auto const place = this_place();
  for (std::uint64_t round = 1; round <= 4; ++round) {
    std::uint64_t const expected = (round << 40) + place.block;
    std::uint64_t const received =
        block_broadcast(place.thread == 0 ? expected : ~std::uint64_t{0});
    if (received != expected) ++wrong[place.rank()];
  }
}

TEST(ThisLane, IsLeftOutWhileItIsParked) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    int looks = 0, steps = 0;
    bool was_woken = false;
    launch_fibers({1, 2}, {.seed = seed}, [&] {
      if (this_place().rank() == 0) {
        while (steps < 50) {
          was_woken = park();
          ++looks;
        }
      } else {
        for (; steps < 50; ++steps) pause();
        wake(0);
        wake(7);  // no such lane: nothing happens
      }
    });
    EXPECT_LE(looks, 1) << "seed " << seed;
    EXPECT_TRUE(was_woken || looks == 0) << "seed " << seed;
  }
}

/// A lane that nobody wakes looks again if no lane can run, and now and then if others run on.
TEST(ThisLane, LooksAgainIfNobodyWakesIt) {
  QUARRY_TEST_USES_FIBERS();
  bool has_looked = false;
  launch_fibers({1, 1}, {}, [&] {
    EXPECT_FALSE(park());
    has_looked = true;
  });
  EXPECT_TRUE(has_looked);
  has_looked = false;
  launch_fibers({1, 2}, {}, [&] {
    if (this_place().rank() == 0) {
      EXPECT_FALSE(park());
      has_looked = true;
    } else {
      while (!has_looked) pause();
    }
  });
  EXPECT_TRUE(park());  // outside a launch
}

TEST(ThisLane, BroadcastsToItsBlockInFibers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<std::uint32_t> wrong(3 * 40);
    launch_fibers({3, 40}, {.seed = seed}, [&] { expect_block_broadcasts(wrong); });
    ASSERT_EQ(wrong, std::vector<std::uint32_t>(3 * 40)) << "seed " << seed;
  }
}

TEST(ThisLane, BroadcastsToItsBlockOnThreads) {
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint32_t> wrong(2 * 4);
    launch_threads({2, 4}, 8, [&] { expect_block_broadcasts(wrong); });
    ASSERT_EQ(wrong, std::vector<std::uint32_t>(2 * 4));
  }
}

TEST(ThisLane, BroadcastPublishesTheWritesOfLaneZero) {
  for (int round = 0; round < 50; ++round) {
    std::uint64_t payload = 0;
    launch_threads({1, 4}, 4, [&] {
      if (this_place().thread == 0) payload = 7;
      auto* const received = reinterpret_cast<std::uint64_t*>(
          block_broadcast(reinterpret_cast<std::uint64_t>(&payload)));
      EXPECT_EQ(*received, 7u);
    });
  }
}

TEST(ThisLane, BroadcastReturnsItsArgumentOutsideALaunch) { EXPECT_EQ(block_broadcast(9), 9u); }

TEST(ThisLane, RefusesToBroadcastWhereLanesShareThreads) {
  EXPECT_THROW(launch_threads({1, 9}, 8, [] { (void)block_broadcast(1); }), std::logic_error);
}

}  // namespace this_lane_test
}  // namespace quarry::simt
