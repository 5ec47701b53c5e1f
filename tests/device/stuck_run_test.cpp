// SPDX-License-Identifier: Apache-2.0
// A request whose class has no run for long, because the lane that replaces the run stands still.
#include "quarry/device/detail/slice_supply.hpp"

#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"
#include "support/fibers_allowed.hpp"
#include "support/fill.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace quarry::detail {
namespace stuck_run_test {

using test::expect_sound;
using test::fill;
using test::net;

constexpr std::uint32_t half = 32 * 1024;

/// On a GPU, the lane that replaces a run may stand still for seconds while its warp computes.
TEST(StuckRun, ALaneTakesASegmentIfAnotherLaneKeepsTheRun) {
  for (std::uint32_t const size : {16u, 640u, half}) {
    SCOPED_TRACE(std::to_string(size) + " bytes");
    auto const owner = test::small_heap(4);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(size);
    ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
    std::vector<void*> slices;
    for (int i = 0; i < 3; ++i) slices.push_back(owner.ref().malloc(net(size)));
    EXPECT_EQ(std::set<void*>(slices.begin(), slices.end()).size(), 3u);
    EXPECT_EQ(std::count(slices.begin(), slices.end(), nullptr), 0);
    EXPECT_EQ(owner.first_fault(), std::nullopt);
    EXPECT_LE(state.segment_counts[id].current, size == half ? 2u : 1u)
        << "the slices that the first lane left serve the next";
    for (void* const slice : slices) heap_internals::free_now(owner.ref(), slice);
    state.run(id).unlock();
    EXPECT_EQ(fill(owner, size).size(), 4u * state.layouts[id].slice.slices());
    expect_sound(owner);
  }
}

/// Lanes of two small classes, whose runs are open, and of two classes whose runs other lanes keep.
/// Notes for each lane of a small class how often a lane took a segment before `malloc` returned.
struct allocate_four_classes {
  heap_ref heap;
  heap_state* state;
  std::uint32_t* takes;

  void operator()() const {
    std::uint32_t const lane = simt::this_place().thread;
    bytes const size = lane % 4 == 0 ? 64 : lane % 4 == 1 ? 128 : lane % 4 == 2 ? 640 : half;
    EXPECT_NE(heap.malloc(net(static_cast<std::uint32_t>(size))), nullptr);
    if (lane % 4 < 2)
      takes[lane] = state->takes[size_class_of(640)] + state->takes[size_class_of(half)];
  }
};

TEST(StuckRun, LanesThatCallTogetherLeaveTogether) {
  QUARRY_TEST_USES_FIBERS();
  std::size_t waited = 0;
  for (std::uint64_t const seed : test::seeds_up_to(4)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const owner = test::small_heap(64);
    auto& state = test::state_of(owner);
    for (std::uint32_t const size : {64u, 128u}) ASSERT_NE(owner.ref().malloc(net(size)), nullptr);
    for (std::uint32_t const size : {640u, half}) {
      size_class const id = size_class_of(size);
      ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
    }
    std::vector<std::uint32_t> takes(64);
    simt::launch_fibers({1, 64}, {.seed = seed},
                        allocate_four_classes{owner.ref(), &state, takes.data()});
    waited += static_cast<std::size_t>(
        std::count_if(takes.begin(), takes.end(), [](std::uint32_t count) { return count != 0; }));
    for (std::uint32_t const size : {640u, half}) state.run(size_class_of(size)).unlock();
    expect_sound(owner);
  }
  EXPECT_GT(waited, 0u) << "lanes that had their memory went on before the lanes of their group";
}

/// Spends the request's patience until `take_segment` succeeds. Returns whether it does within
/// `microseconds`.
bool takes_within(slice_request& request, std::uint32_t microseconds) {
  word const run = request.state->run(request.id).peek();
  while (!request.patience.has_lasted(microseconds)) {
    request.patience.spend();
    if (slice_supply::take_segment(request, run)) return true;
  }
  return false;
}

TEST(StuckRun, OneLaneOfAClassTakesASegmentAtATimeUnlessItStandsStill) {
  auto const owner = test::small_heap(4);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(640);
  state.takes[id] = 1;  // a lane takes a segment, and never ends
  slice_request request{&state, id, 1};
  EXPECT_FALSE(takes_within(request, 2500));
  EXPECT_TRUE(takes_within(request, 6000));
  EXPECT_EQ(state.takes[id], 4u) << "the lane has replaced the other, and has ended";
  slice_request next{&state, id, 1};
  EXPECT_TRUE(takes_within(next, 2500));
}

TEST(StuckRun, MemoryOfOtherClassesIsReclaimed) {
  auto const owner = test::small_heap(4);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(640), other = size_class_of(half);
  bit_tree::range const held = state.segment_tree().claim_range(3);
  ASSERT_EQ(held.count, 3u);
  state.free_segments.add(-3);
  ASSERT_TRUE(state.run(other).lock(state.run(other).peek()));
  ASSERT_TRUE(run_supply::open_run(state, other));
  state.run(other).unlock();
  ASSERT_TRUE(state.segment_tree().empty()) << "the other class has the last segment";
  ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
  EXPECT_NE(owner.ref().malloc(net(640)), nullptr);
  state.run(id).unlock();
  state.segment_tree().insert_range(held.first, held.count);
  state.free_segments.add(3);
  expect_sound(owner);
}

TEST(StuckRun, ASearchThatBeginsAnewWaitsAnew) {
  auto const owner = test::small_heap(4);
  auto& state = test::state_of(owner);
  slice_request request{&state, size_class_of(640), 1};
  ASSERT_TRUE(takes_within(request, 2500));
  request.restart(slice_request::stage::own_class);
  EXPECT_FALSE(slice_supply::take_segment(request, state.run(request.id).peek()));
  EXPECT_FALSE(takes_within(request, 900));
}

TEST(StuckRun, AGroupTakesASegmentThatServesOnlySomeOfItsLanes) {
  auto const owner = test::small_heap(4);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(half);
  slice_request request{&state, id, 5};
  ASSERT_TRUE(takes_within(request, 2500));
  EXPECT_EQ(request.origin, slice_request::source::tickets);
  EXPECT_EQ(fill(owner, half).size(), 7u) << "one of eight slices belongs to the request";
}

TEST(StuckRun, EndsAfterABoundedNumberOfStepsIfAnotherLaneKeepsTheRunAndNoSegmentIsFree) {
  auto const owner = test::small_heap(2);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(640);
  ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
  auto const others = fill(owner, half);
  EXPECT_EQ(owner.ref().malloc(net(640)), nullptr);
  state.run(id).unlock();
  for (void* const slice : others) heap_internals::free_now(owner.ref(), slice);
  EXPECT_NE(owner.ref().malloc(net(640)), nullptr);
  expect_sound(owner);
}

}  // namespace stuck_run_test
}  // namespace quarry::detail
