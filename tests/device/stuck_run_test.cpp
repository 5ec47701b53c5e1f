// SPDX-License-Identifier: Apache-2.0
// A request whose class has no run for long, because the lane that replaces the run stands still.
#include "quarry/device/detail/slice_supply.hpp"

#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace quarry::detail {
namespace stuck_run_test {

using test::expect_sound;

constexpr std::uint32_t half = 32 * 1024;

/// The size that `malloc` takes a slice of `size` bytes for.
bytes net(std::uint32_t size) { return size - hardening::padded(0); }

/// Allocates slices of `size` bytes until the heap refuses.
std::vector<void*> fill(heap const& owner, std::uint32_t size) {
  std::vector<void*> result;
  for (void* memory = owner.ref().malloc(net(size)); memory != nullptr;
       memory = owner.ref().malloc(net(size)))
    result.push_back(memory);
  return result;
}

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
  bit_tree::range const held = state.segment_tree().claim_front(3);
  ASSERT_EQ(held.count, 3u);
  state.free_segments.add(-3);
  ASSERT_TRUE(state.run(other).lock(state.run(other).peek()));
  ASSERT_TRUE(slice_supply::open_run(state, other));
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
  request.restart();
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
