// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/joined_slices.hpp"

#include "support/state_of.hpp"

#include <gtest/gtest.h>

namespace quarry {

using namespace detail;
namespace joined_slices_test {

constexpr size_class id = size_class_of(64);

std::uint32_t count_at(heap_state const& state, std::uint32_t slice) {
  return joined_slices::count_at(state, id, 0, slice);
}

TEST(JoinedSlices, CountsWhatHoldsAnAllocationAndItsOffset) {
  EXPECT_EQ(joined_slices::count_for(240, id), 4u);
  EXPECT_EQ(joined_slices::count_for(256, id), 5u) << "the offset takes 16 bytes";
  EXPECT_EQ(joined_slices::count_for(4080, id), 64u);
}

TEST(JoinedSlices, AreOneAllocationUntilTheyAreSeparated) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  joined_slices::join(state, 0, 1, word{0b11111000}, 5);
  EXPECT_EQ(count_at(state, 64 + 2), 1u);
  EXPECT_EQ(count_at(state, 64 + 3), 5u);
  EXPECT_EQ(count_at(state, 64 + 4), 0u) << "it continues the allocation";
  EXPECT_EQ(count_at(state, 64 + 7), 0u);
  EXPECT_EQ(count_at(state, 64 + 8), 1u);
  EXPECT_EQ(joined_slices::first_of(state, id, 0, 64 + 6), 64u + 3);
  EXPECT_EQ(joined_slices::separate(state, 0, 64 + 4), 0u) << "not its first slice";
  EXPECT_EQ(joined_slices::separate(state, 0, 64 + 3), 0b11111000u);
  EXPECT_EQ(joined_slices::separate(state, 0, 64 + 3), 0u);
  EXPECT_EQ(state.joins_at(0, 1).load(simt::relaxed), 0u);
}

TEST(JoinedSlices, NeighboursAreAllocationsOfTheirOwn) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  word const slices = low_bits(6) << 2 | low_bits(3) << 61;
  joined_slices::join(state, 0, 0, slices, 3);
  EXPECT_EQ(joined_slices::first_of_rank(slices, 3, 0), 2u);
  EXPECT_EQ(joined_slices::first_of_rank(slices, 3, 1), 5u);
  EXPECT_EQ(joined_slices::first_of_rank(slices, 3, 2), 61u);
  EXPECT_EQ(joined_slices::separate(state, 0, 5), low_bits(3) << 5);
  EXPECT_EQ(joined_slices::separate(state, 0, 2), low_bits(3) << 2);
  EXPECT_EQ(joined_slices::separate(state, 0, 61), low_bits(3) << 61);
  EXPECT_EQ(state.joins_at(0, 0).load(simt::relaxed), 0u);
}

TEST(JoinedSlices, AWordCanBeOneAllocation) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  joined_slices::join(state, 0, 3, ~word{0}, 64);
  EXPECT_EQ(count_at(state, 3 * 64), 64u);
  EXPECT_EQ(joined_slices::separate(state, 0, 3 * 64), ~word{0});
}

/// A free that comes so late that the segment has another use.
TEST(JoinedSlices, OfAnotherUseAreRestored) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  joined_slices::join(state, 0, 0, low_bits(5), 5);
  word const slices = joined_slices::separate(state, 0, 0);
  auto const present = state.segments[0].load();
  joined_slices::restore(state, present, 0, 0, slices);
  EXPECT_EQ(count_at(state, 0), 1u) << "the same use: they stay apart";
  joined_slices::restore(state, segment_use::slices_of(id, 7), 0, 0, slices);
  EXPECT_EQ(count_at(state, 0), 5u);
}

TEST(JoinedSlices, SlicesOf16BytesAreNeverJoined) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  EXPECT_EQ(joined_slices::count_at(state, size_class_of(16), 0, 4095), 1u)
      << "a segment has joins for 2,048 slices";
}

}  // namespace joined_slices_test
}  // namespace quarry
