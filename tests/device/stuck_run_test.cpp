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

TEST(StuckRun, AGroupTakesASegmentThatServesOnlySomeOfItsLanes) {
  auto const owner = test::small_heap(4);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(half);
  slice_request request{&state, id, 5};
  word const run = state.run(id).peek();
  EXPECT_FALSE(slice_supply::take_segment(request, run)) << "the request has not waited";
  for (int i = 0; i < 100'000 && request.origin == slice_request::source::none; ++i) {
    request.patience.spend();
    (void)slice_supply::take_segment(request, run);
  }
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
