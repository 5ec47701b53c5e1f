// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/slice_supply.hpp"

#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"
#include "support/fill.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace quarry {

using namespace detail;
namespace slice_supply_test {

constexpr std::uint32_t half = 32 * 1024;

using test::fill;
using test::net;

void release_all(heap const& owner, std::vector<void*> const& memory) {
  for (void* const slice : memory) heap_internals::free_now(owner.ref(), slice);
}

void expect_sound(heap const& owner) {
  for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
}

TEST(SliceSupply, AllocatesEverySliceOnceAndThenFails) {
  for (std::uint32_t const size : {16u, 48u, 80u, 640u, 5120u, half}) {
    SCOPED_TRACE("size " + std::to_string(size));
    auto const owner = test::small_heap(3);
    auto const all = fill(owner, size);
    EXPECT_EQ(all.size(), 3u * test::state_of(owner).layouts[size_class_of(size)].slice.slices());
    EXPECT_EQ((std::set<void*>{all.begin(), all.end()}.size()), all.size());
    expect_sound(owner);
  }
}

TEST(SliceSupply, AllocatesAReturnedSlice) {
  auto const owner = test::small_heap(1);
  auto const all = fill(owner, 640);
  heap_internals::free_now(owner.ref(), all[17]);
  EXPECT_EQ(owner.ref().malloc(net(640)), all[17]);
  EXPECT_EQ(owner.ref().malloc(net(640)), nullptr);
  expect_sound(owner);
}

TEST(SliceSupply, AdvertisesASegmentFromItsFirstReturnedSliceUntilItIsClaimed) {
  auto const owner = test::small_heap(1);
  auto const& state = test::state_of(owner);
  size_class const id = size_class_of(640);
  auto const all = fill(owner, 640);
  EXPECT_TRUE(state.class_tree(id).empty());
  heap_internals::free_now(owner.ref(), all[0]);
  EXPECT_TRUE(state.class_tree(id).contains(0));
  EXPECT_EQ(owner.ref().malloc(net(640)), all[0]);
  EXPECT_EQ(owner.ref().malloc(net(640)), nullptr);
  EXPECT_TRUE(state.class_tree(id).empty()) << "the claimer that found no slice withdrew it";
}

TEST(SliceSupply, ReturnsASegmentWithItsLastSlice) {
  auto const owner = test::small_heap(1);
  auto const& state = test::state_of(owner);
  for (std::uint32_t const size : {16u, 80u, half}) {
    auto const all = fill(owner, size);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) heap_internals::free_now(owner.ref(), all[i]);
    EXPECT_TRUE(state.segment_tree().empty());
    heap_internals::free_now(owner.ref(), all.back());
    EXPECT_EQ(state.segment_tree().count(), 1u) << "size " << size;
    expect_sound(owner);
  }
}

TEST(SliceSupply, ReportsWhichSlicesWereFreeAlready) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(640);
  (void)fill(owner, 640);
  block const only = state.block_at(id, 0, 0);
  EXPECT_EQ(slice_return::release(state, id, 0, only, 0, 0, 0b0110).double_freed, 0u);
  EXPECT_EQ(slice_return::release(state, id, 0, only, 0, 0, 0b0011).double_freed, 0b0010u);
  expect_sound(owner);
}

TEST(SliceSupply, TakesBackTheUnusedSegmentsOfAClass) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  EXPECT_FALSE(run_supply::any_has_run(state));
  void* const memory = owner.ref().malloc(net(16));
  size_class const id = size_class_of(16);
  EXPECT_TRUE(run_supply::any_has_run(state));
  EXPECT_FALSE(run_supply::other_classes_have_run(state, id));
  EXPECT_TRUE(run_supply::other_classes_have_run(state, id + 1));
  auto const free_segments = state.segment_tree().count();
  EXPECT_TRUE(run_supply::reclaim(state, id));
  EXPECT_FALSE(run_supply::any_has_run(state));
  EXPECT_GE(state.segment_tree().count(), free_segments);
  EXPECT_EQ(state.segment_tree().count(), 7u) << "all segments except the one with a slice in use";
  expect_sound(owner);
  heap_internals::free_now(owner.ref(), memory);
  EXPECT_EQ(state.segment_tree().count(), 8u);
  expect_sound(owner);
}

/// So a kernel with one size waits for few runs. Runs of several classes would take all segments.
TEST(SliceSupply, OpensRunsOfTwiceTheLengthWhileNoOtherClassHasOne) {
  auto const owner = test::small_heap(64);
  auto& state = test::state_of(owner);
  auto const length_of_next_run = [&](size_class id) {
    EXPECT_TRUE(state.run(id).lock(state.run(id).peek()));
    EXPECT_TRUE(run_supply::open_run(state, id));
    state.run(id).unlock();
    return class_run::run_of(state.run(id).peek()).count();
  };
  size_class const id = size_class_of(half), other = size_class_of(half / 2);
  std::uint32_t length = length_of_next_run(id);
  ASSERT_LT(length, 8u);
  while (length < 16) {
    std::uint32_t const previous = length;
    length = length_of_next_run(id);
    EXPECT_EQ(length, std::min(2 * previous, 16u)) << "a quarter of the segments";
  }
  (void)length_of_next_run(other);
  EXPECT_LE(length_of_next_run(other), 12u) << "a quarter of those that are free";
  expect_sound(owner);
}

TEST(SliceSupply, ReturnsASegmentWithALateReservationThatLeavesNoTrace) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(half);
  state.segment_counts[id].peak = 2;  // as if the class had had two segments once
  ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
  ASSERT_TRUE(run_supply::open_run(state, id));
  state.run(id).unlock();
  auto const run = class_run::run_of(state.run(id).peek());
  ASSERT_GE(run.count(), 2u);
  // Takes the first slice of the run: malloc would use the counter of this warp.
  ASSERT_EQ(ticket_counter::ticket_of(state.ticket_counter_at(id, 0).claim(1)), 0u);
  void* const memory =
      reinterpret_cast<void*>(state.base + (std::uint64_t{run.first()} << state.segment_shift));
  std::uint32_t const last = run.first() + run.count() - 1;
  block const late_block = state.block_at(id, last, 0);
  ASSERT_TRUE(late_block.reserve(3).is_open_in(0));
  EXPECT_TRUE(run_supply::reclaim(state, id));
  EXPECT_EQ(state.segment_tree().count(), 7u);
  slice_return::follow_late(state, last, 0, late_block.leave(3, false));
  EXPECT_EQ(late_block.peek().count(), 0);
  EXPECT_EQ(late_block.peek().lanes_inside(), 0u);
  expect_sound(owner);
  heap_internals::free_now(owner.ref(), memory);
  EXPECT_EQ(fill(owner, half).size(), 16u);
}

TEST(SliceSupply, TakesNothingBackFromARunThatIsReplaced) {
  auto const owner = test::small_heap(2);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(16);
  ASSERT_NE(owner.ref().malloc(net(16)), nullptr);
  auto const run = state.run(id);
  ASSERT_TRUE(run.lock(run.peek()));
  EXPECT_FALSE(run_supply::reclaim(state, id));
  run.unlock();
  EXPECT_TRUE(run_supply::reclaim(state, id));
}

TEST(SliceSupply, MovesMemoryBetweenClassesOnDemand) {
  auto const owner = test::small_heap(2);
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t const size : {16u, 80u, 1024u, 48u, half}) {
      auto const all = fill(owner, size);
      EXPECT_EQ(all.size(), 2u * test::state_of(owner).layouts[size_class_of(size)].slice.slices())
          << "size " << size << " round " << round;
      release_all(owner, all);
    }
  }
  expect_sound(owner);
}

TEST(SliceSupply, MovesUnusedSegmentsOfAClassToAnotherClass) {
  auto const owner = test::small_heap(2);
  void* const small = owner.ref().malloc(net(16));
  EXPECT_EQ(fill(owner, half).size(), 2u) << "one segment of two";
  heap_internals::free_now(owner.ref(), small);
  EXPECT_EQ(fill(owner, half).size(), 2u) << "the other segment after its last free";
}

/// Mallocs that fail, or that a claim serves, continue to count tickets of an exhausted run.
TEST(SliceSupply, AllocatesNoSliceTwiceWhenTicketsOfAnExhaustedRunReachTheirLimit) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const owner = test::small_heap(2);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(640);
    auto const all = fill(owner, 640);
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      word const counter = state.ticket_counter_at(id, i).peek();
      (void)state.ticket_counter_at(id, i).claim(ticket_counter::ticket_limit -
                                                 ticket_counter::ticket_of(counter) - 1);
    }
    std::set<void*> live{all.begin() + 32, all.end()};
    int shared = 0;
    simt::launch_fibers({4, 33}, {.seed = seed}, [&, ref = owner.ref()] {
      for (int step = 0; step < 4; ++step) {
        void* const memory = ref.malloc(net(640));
        if (memory == nullptr) continue;
        if (!live.insert(memory).second) ++shared;
        simt::interleave();
        live.erase(memory);
        heap_internals::free_now(ref, memory);
      }
    });
    EXPECT_EQ(shared, 0);
    for (std::uint32_t i = 0; i < counters_per_class; ++i)
      EXPECT_LT(ticket_counter::ticket_of(state.ticket_counter_at(id, i).peek()),
                ticket_counter::ticket_limit);
    expect_sound(owner);
  }
}

/// A lane that took the last ticket of a counter counts it late, when a new run has the tag of
/// its run.
TEST(SliceSupply, ALateCountOf64RunsAgoLosesNoSlice) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(half);
  void* const first = owner.ref().malloc(net(half));
  segment_run const run = class_run::run_of(state.run(id).peek());
  std::uint32_t counted = class_run::used_up(state.run(id).peek());
  while (counted < counters_per_class)
    counted = class_run::used_up(state.run(id).count_used_up(run));
  auto rest = fill(owner, half);
  EXPECT_EQ(rest.size(), 15u) << "the remaining slices of the counters are not lost";
  expect_sound(owner);
  rest.push_back(first);
  release_all(owner, rest);
  while (run_supply::any_has_run(state))
    (void)run_supply::reclaim_from_others(state, run_supply::no_class, true);
  EXPECT_EQ(state.segment_tree().count(), 8u);
}

/// Compares allocations of random sizes with a map of their ranges.
TEST(SliceSupply, NeverAllocatesMemoryInUse) {
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    auto const owner = test::small_heap(4);
    std::map<char*, bytes> live;
    std::uint32_t const limit = 64u << random() % 9;
    for (int step = 0; step < 3000; ++step) {
      if (random() % 100 < 55) {
        bytes const size = 1 + random() % limit;
        auto* const memory = static_cast<char*>(owner.ref().malloc(size));
        if (memory == nullptr) continue;
        auto const next = live.lower_bound(memory);
        ASSERT_TRUE(next == live.end() || memory + size <= next->first);
        ASSERT_TRUE(next == live.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= memory);
        live.emplace(memory, size);
      } else if (!live.empty()) {
        auto const victim =
            std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        heap_internals::free_now(owner.ref(), victim->first);
        live.erase(victim);
      }
    }
    expect_sound(owner);
    for (auto const& [memory, size] : live) heap_internals::free_now(owner.ref(), memory);
    expect_sound(owner);
  }
}

/// Fills the heap and drains it again. `live` contains the allocations of all lanes.
void fill_and_drain(heap_ref heap, std::uint64_t seed, std::uint32_t smallest,
                    std::set<void*>& live, int& shared) {
  std::mt19937_64 random{seed};
  std::vector<void*> own;
  for (int step = 0; step < 60; ++step) {
    if (random() % 100 < (step / 20 % 2 == 0 ? 80u : 20u)) {
      void* const memory = heap.malloc(net(smallest << random() % 2));
      if (memory == nullptr) continue;
      if (!live.insert(memory).second) ++shared;
      own.push_back(memory);
    } else if (!own.empty()) {
      live.erase(own.back());
      heap_internals::free_now(heap, own.back());
      own.pop_back();
    }
  }
  for (void* const memory : own) {
    live.erase(memory);
    heap_internals::free_now(heap, memory);
  }
}

TEST(SliceSupply, AllocatesEachSliceToOneLaneInEveryInterleaving) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const smallest : {2048u, 8192u, 16384u}) {
    for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
      SCOPED_TRACE("smallest " + std::to_string(smallest) + " seed " + std::to_string(seed));
      auto const owner = test::small_heap(2);
      std::set<void*> live;
      int shared = 0;
      simt::launch_fibers({2, 3}, {.seed = seed}, [&, ref = owner.ref()] {
        fill_and_drain(ref, seed * 10 + simt::this_place().rank(), smallest, live, shared);
      });
      EXPECT_EQ(shared, 0);
      expect_sound(owner);
      while (run_supply::reclaim_from_others(test::state_of(owner), run_supply::no_class, true) &&
             run_supply::any_has_run(test::state_of(owner))) {
      }
      EXPECT_EQ(test::state_of(owner).segment_tree().count(), 2u) << "all segments are free";
    }
  }
}

/// Few slices of blocks of 1,024 slices are in use. So blocks become free and are revived while
/// other blocks of their segment do the same.
TEST(SliceSupply, RevivesBlocksWhileOtherBlocksBecomeFree) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const owner = test::small_heap(1);
    auto const all = fill(owner, is_on(mitigation::canary) ? 32 : 16);
    void* const kept = all.back();
    for (void* const memory : all) {
      if (memory != kept) heap_internals::free_now(owner.ref(), memory);
    }
    std::set<void*> live{kept};
    int shared = 0;
    simt::launch_fibers({1, 4}, {.seed = seed}, [&, ref = owner.ref()] {
      for (int step = 0; step < 40; ++step) {
        void* const memory = ref.malloc(net(is_on(mitigation::canary) ? 32 : 16));
        if (memory == nullptr) continue;
        if (!live.insert(memory).second) ++shared;
        simt::interleave();
        live.erase(memory);
        heap_internals::free_now(ref, memory);
      }
    });
    EXPECT_EQ(shared, 0);
    expect_sound(owner);
    heap_internals::free_now(owner.ref(), kept);
    EXPECT_EQ(test::state_of(owner).segment_tree().count(), 1u);
  }
}

/// A lane took segments from a class, and returns them slowly. Meanwhile they are in no tree and in
/// no run.
TEST(SliceSupply, WaitsForSegmentsThatAreBeingReturned) {
  QUARRY_TEST_USES_FIBERS();
  for (bytes const size : {net(64), bytes{3 * 64 * 1024} - hardening::padded(0)}) {
    for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::to_string(size) + " bytes, seed " + std::to_string(seed));
      auto const owner = test::small_heap(3);
      auto& state = test::state_of(owner);
      EXPECT_EQ(state.segment_tree().claim_back(3), 0u);
      state.free_segments.add(-3);
      state.begin_return();
      void* memory = nullptr;
      simt::launch_fibers({2, 1}, {.seed = seed}, [&, ref = owner.ref()] {
        if (simt::this_place().rank() == 0) {
          memory = ref.malloc(size);
          return;
        }
        for (int step = 0; step < 120; ++step) simt::pause();
        state.segment_tree().insert_range(0, 3);
        state.free_segments.add(3);
        state.end_return();
      });
      EXPECT_NE(memory, nullptr);
      expect_sound(owner);
    }
  }
}

/// Fills the heap with slices of 640 bytes and lets an allocation fail, so that the class is known
/// to be full.
std::vector<void*> fill_until_known(heap const& owner) {
  auto all = fill(owner, 640);
  EXPECT_TRUE(test::state_of(owner).is_full(size_class_of(640)));
  EXPECT_EQ(owner.ref().malloc(net(640)), nullptr);
  return all;
}

TEST(SliceSupply, AFullClassGetsAFreedSlice) {
  auto const owner = test::small_heap(2);
  auto const all = fill_until_known(owner);
  for (int round = 0; round < 3; ++round) {
    heap_internals::free_now(owner.ref(), all[17]);
    EXPECT_EQ(owner.ref().malloc(net(640)), all[17]);
    EXPECT_EQ(owner.ref().malloc(net(640)), nullptr);
  }
  expect_sound(owner);
}

TEST(SliceSupply, AFullClassGetsASegmentOfAnotherClass) {
  auto const owner = test::small_heap(2);
  auto others = fill(owner, half);
  std::sort(others.begin(), others.end());
  heap_internals::free_now(owner.ref(), others[0]);
  heap_internals::free_now(owner.ref(), others[1]);
  auto const all = fill_until_known(owner);
  std::size_t const per_segment = test::state_of(owner).layouts[size_class_of(640)].slice.slices();
  EXPECT_EQ(all.size(), per_segment);
  heap_internals::free_now(owner.ref(), others[2]);
  heap_internals::free_now(owner.ref(), others[3]);
  EXPECT_EQ(fill(owner, 640).size(), per_segment);
  expect_sound(owner);
}

TEST(SliceSupply, AFullClassGetsASegmentOfALargeAllocation) {
  auto const owner = test::small_heap(4);
  void* const large = owner.ref().malloc(net(2 * 64 * 1024));
  ASSERT_NE(large, nullptr);
  auto const all = fill_until_known(owner);
  owner.ref().free(large);
  EXPECT_GE(fill(owner, 640).size(), all.size()) << "in the hardened mode `large` is longer";
  expect_sound(owner);
}

TEST(SliceSupply, AFullClassGetsMemoryWhenTheHeapGrows) {
  auto owner = test::small_heap(1, 4);
  auto const all = fill_until_known(owner);
  owner.grow(2 * 64_KiB);
  EXPECT_EQ(fill(owner, 640).size(), all.size());
  owner.reset();
  EXPECT_EQ(fill(owner, 640).size(), 2 * all.size());
  expect_sound(owner);
}

/// The other class's run has a segment without a slice in use, but another lane is replacing the
/// run, so the search cannot reclaim that segment.
TEST(SliceSupply, AClassDoesNotStayFullWhileAnotherClassHasARun) {
  auto const owner = test::small_heap(2);
  auto& state = test::state_of(owner);
  size_class const other = size_class_of(16);
  heap_internals::free_now(owner.ref(), owner.ref().malloc(net(16)));
  ASSERT_TRUE(state.run(other).lock(state.run(other).peek()));
  auto const some = fill(owner, 640);
  EXPECT_TRUE(state.is_full(size_class_of(640)));
  EXPECT_FALSE(slice_supply::stays_full(state, size_class_of(640)));
  state.run(other).unlock();
  EXPECT_EQ(some.size() + fill(owner, 640).size(),
            2 * state.layouts[size_class_of(640)].slice.slices());
  expect_sound(owner);
}

/// A large request that fails holds the segments without counting them, so a search of a class
/// finds no segment. Then another class uses the segments and frees all its slices.
TEST(SliceSupply, AClassDoesNotStayFullIfSegmentsReappearUncounted) {
  auto const owner = test::small_heap(2);
  auto& state = test::state_of(owner);
  ASSERT_EQ(state.segment_tree().claim_back(2), 0u);
  EXPECT_EQ(owner.ref().malloc(net(640)), nullptr);
  EXPECT_TRUE(slice_supply::stays_full(state, size_class_of(640)));
  state.segment_tree().insert_range(0, 2);
  auto const others = fill(owner, 16);
  release_all(owner, others);
  EXPECT_EQ(fill(owner, 640).size(), 2 * state.layouts[size_class_of(640)].slice.slices());
  heap_internals::free_now(owner.ref(), owner.ref().malloc(net(16)));
  expect_sound(owner);
}

/// Makes every run last for one request: lanes that wait for a run would take all its slices.
TEST(SliceSupply, TheLaneThatOpensARunGetsItsSlices) {
  for (std::uint32_t const count : {1u, 2u, 5u, 32u}) {
    SCOPED_TRACE(std::to_string(count) + " slices");
    auto const owner = test::small_heap(8);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(half);
    slice_request request{&state, id, count};
    ASSERT_TRUE(slice_supply::replace_run(request, state.run(id).peek(), false));
    ASSERT_EQ(request.origin, slice_request::source::tickets);
    EXPECT_EQ(ticket_counter::ticket_of(request.value), 0u);
    segment_run const run = ticket_counter::run_of(request.value);
    std::uint32_t const granted =
        std::min(count, ticket_counter::tickets_of(state.layouts[id], run, request.counter));
    EXPECT_EQ(ticket_counter::ticket_of(state.ticket_counter_at(id, request.counter).peek()),
              granted);
    EXPECT_EQ(granted + fill(owner, half).size(), 16u) << "each slice is allocated once";
  }
}

}  // namespace slice_supply_test
}  // namespace quarry
