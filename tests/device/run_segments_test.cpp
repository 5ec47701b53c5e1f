// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/run_segments.hpp"

#include "quarry/device/hardening.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

namespace quarry {
namespace {

constexpr std::uint32_t half = 32 * 1024;

void expect_sound(heap const& owner) {
  for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
}

/// As a malloc that finds no run, but nothing is handed out.
void open_run(heap_state& state, size_class id) {
  ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
  ASSERT_TRUE(slice_supply::open_run(state, id));
  state.run(id).unlock();
}

TEST(RunSegments, EndsTheGenerationOfASegmentThatItGivesBackUntouched) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  for (std::uint32_t const size : {16u, 640u, 16u, half, 16u}) {  // 4 blocks, 1, 4, 1, 4
    size_class const id = size_class_of(size);
    std::uint32_t const generation = state.segments[0].generation();
    open_run(state, id);
    for (std::uint32_t i = 0; i < state.blocks_of(id); ++i)
      EXPECT_EQ(state.block_at(id, 0, i).generation(), generation) << "size " << size;
    EXPECT_TRUE(slice_supply::take_back(state, id));
    EXPECT_EQ(state.segment_tree().count(), 1u);
    EXPECT_EQ(state.segments[0].generation(), generation + 1);
    EXPECT_EQ(state.segments[0].rest().known_blocks(), state.blocks_of(id));
    expect_sound(owner);
  }
  std::uint32_t served = 0;
  while (owner.ref().malloc(16 - hardening::padded(0)) != nullptr) ++served;
  EXPECT_EQ(served, 4096u);
  expect_sound(owner);
}

/// Eight at a time, and the rest one by one.
TEST(RunSegments, CutsEachSegmentOfARunOfAnyLength) {
  for (std::uint32_t const count : {1u, 7u, 8u, 9u, 19u}) {
    auto const owner = test::small_heap(24);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(16);
    run_segments::format_run(state, id, segment_run{}.next(3, count));
    for (std::uint32_t i = 0; i < 24; ++i) {
      bool const is_cut = i >= 3 && i < 3 + count;
      EXPECT_EQ(state.segments[i].load().is_slices_of(id), is_cut) << i << " of " << count;
      EXPECT_EQ(state.segments[i].look().shape.slices(), is_cut ? 4096u : 0u);
    }
  }
}

/// What a lane that failed to get a ticket added to it does not count.
TEST(RunSegments, AnInvalidTicketTouchesNothing) {
  auto const owner = test::small_heap(2);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(half);
  open_run(state, id);
  auto const run = class_run::run_of(state.run(id).peek());
  for (std::uint32_t slot = 0; slot < slots_per_class; ++slot) {
    if (block_slot::tickets_of(state.shapes[id], run, slot) == 0)
      (void)state.slot(id, slot).take(3);
  }
  EXPECT_TRUE(run_segments::has_untouched(state, id));
  EXPECT_TRUE(slice_supply::take_back(state, id));
  EXPECT_EQ(state.segment_tree().count(), 2u);
  expect_sound(owner);
}

}  // namespace
}  // namespace quarry
