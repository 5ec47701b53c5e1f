// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/block_slots.hpp"

#include "quarry/simt/launch.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

namespace quarry {
namespace block_slots_test {

TEST(SegmentRun, KeepsItsSegmentsAndChangesItsTag) {
  segment_run const none;
  EXPECT_EQ(none.count(), 0u);
  auto const one = none.next(0xfffff, 64);
  EXPECT_EQ(one.first(), 0xfffffu);
  EXPECT_EQ(one.count(), 64u);
  EXPECT_FALSE(one == none);
  auto const again = one.next(0xfffff, 64);
  EXPECT_FALSE(again == one) << "the same segments, later";
  EXPECT_NE(again.key(), one.key());
  EXPECT_EQ(segment_run::first_of_key(again.key()), 0xfffffu);
}

TEST(SegmentRun, ComesRoundToTheSameTagAfter512Runs) {
  segment_run run;
  for (int i = 0; i < 512; ++i) {
    run = run.next(7, 3);
    EXPECT_LT(run.encoded(), word{1} << segment_run::bits);
  }
  EXPECT_EQ(run.next(7, 3).key(), segment_run{}.next(7, 3).key());
}

/// The shapes that a heap makes for its classes.
std::vector<class_shape> shapes_of(bytes segment_bytes) {
  heap const owner{{.bytes = segment_bytes, .segment_bytes = segment_bytes, .where = machine::cpu}};
  auto const& state = test::state_of(owner);
  return {state.shapes, state.shapes + state.classes};
}

TEST(BlockSlot, LeadsEachTicketToASliceOfItsOwnAndReachesAll) {
  segment_run const run = segment_run{}.next(5, 3);
  for (auto const& shape : shapes_of(64_KiB)) {
    SCOPED_TRACE("size " + std::to_string(shape.size));
    std::vector<bool> seen(std::size_t{run.count()} * shape.slice.slices());
    std::size_t reached = 0;
    for (std::uint32_t slot = 0; slot < slots_per_class; ++slot) {
      bool over = false;
      std::uint32_t lasts = 0;
      std::uint32_t valid = 0;
      for (std::uint32_t ticket = 0; !over; ++ticket) {
        auto const place = block_slot::place_of(shape, run, slot, ticket);
        over = !place.valid;
        lasts += place.last ? 1 : 0;
        if (over) break;
        ++valid;
        ASSERT_GE(place.segment, 5u);
        ASSERT_LT(place.segment, 8u);
        ASSERT_LT(place.slice, shape.slice.slices());
        auto const at = std::size_t{place.segment - 5} * shape.slice.slices() + place.slice;
        ASSERT_FALSE(seen[at]) << "ticket " << ticket << " of slot " << slot;
        seen[at] = true;
        ++reached;
        ASSERT_EQ(place.last, !block_slot::place_of(shape, run, slot, ticket + 1).valid);
      }
      EXPECT_EQ(block_slot::tickets_of(shape, run, slot), valid);
      EXPECT_EQ(lasts, valid == 0 ? 0u : 1u);
      EXPECT_FALSE(block_slot::place_of(shape, run, slot, block_slot::ticket_limit).valid);
    }
    EXPECT_EQ(reached, seen.size());
  }
}

TEST(BlockSlot, HasRoomForAllTicketsOfTheLongestRun) {
  for (bytes const segment_bytes : {64_KiB, 1_MiB, 64_MiB}) {
    for (auto const& shape : shapes_of(segment_bytes)) {
      SCOPED_TRACE("segment " + std::to_string(segment_bytes) + " size " +
                   std::to_string(shape.size));
      std::uint32_t const longest = block_slot::longest_run(shape);
      ASSERT_GE(longest, shape.run_segments);
      ASSERT_LE(longest, segment_run::max_segments);
      segment_run const run = segment_run{}.next(5, longest);
      ASSERT_EQ(run.count(), longest);
      std::uint32_t const units = longest * shape.units;
      std::uint32_t const last_unit = (units - 1) / slots_per_class;
      std::uint32_t const slot = (units - 1) % slots_per_class;
      std::uint32_t const last = ((last_unit + 1) << shape.unit_shift) - 1;
      ASSERT_LE(last, block_slot::ticket_limit / 2) << "where `rewind` sets a used-up slot";
      auto const place = block_slot::place_of(shape, run, slot, last);
      EXPECT_TRUE(place.valid && place.last);
      EXPECT_EQ(place.segment, 5 + longest - 1);
      EXPECT_EQ(place.slice, shape.slice.slices() - 1);
      EXPECT_FALSE(block_slot::place_of(shape, run, slot, last + 1).valid);
      EXPECT_FALSE(block_slot::place_of(shape, run, slot, block_slot::ticket_limit / 2).valid);
    }
  }
}

TEST(BlockSlot, OfARunOfNothingHasNoTicket) {
  for (auto const& shape : shapes_of(64_KiB)) {
    EXPECT_FALSE(block_slot::place_of(shape, segment_run{}, 0, 0).valid);
    EXPECT_FALSE(
        block_slot::place_of(shape, segment_run{}.next(3, 0), slots_per_class - 1, 0).valid);
  }
}

TEST(BlockSlot, TellsItsRunAndTicketTogether) {
  word state = 0;
  block_slot const slot{state};
  auto const run = segment_run{}.next(9, 2);
  slot.open(run);
  EXPECT_EQ(block_slot::ticket_of(slot.take(32)), 0u);
  word const second = slot.take(1);
  EXPECT_EQ(block_slot::ticket_of(second), 32u);
  EXPECT_TRUE(block_slot::run_of(second) == run);
}

TEST(BlockSlot, GivesItsTicketsToWhoClosesIt) {
  word state = 0;
  block_slot const slot{state};
  auto const run = segment_run{}.next(9, 2);
  slot.open(run);
  (void)slot.take(7);
  word const before = slot.close(run.next(0, 0));
  EXPECT_EQ(block_slot::ticket_of(before), 7u);
  EXPECT_TRUE(block_slot::run_of(before) == run);
  EXPECT_FALSE(block_slot::run_of(slot.peek()) == run);
}

TEST(BlockSlot, IsSetBackBeforeItsTicketsRunIntoItsRun) {
  word state = 0;
  block_slot const slot{state};
  auto const run = segment_run{}.next(1, 1);
  slot.open(run);
  (void)slot.take(1);
  slot.rewind();
  EXPECT_EQ(block_slot::ticket_of(slot.peek()), 1u) << "not needed yet";
  (void)slot.take(block_slot::ticket_limit);
  slot.rewind();
  EXPECT_LT(block_slot::ticket_of(slot.peek()), block_slot::ticket_limit);
  EXPECT_GT(block_slot::ticket_of(slot.peek()), 1u << 20) << "it stays used up";
  EXPECT_TRUE(block_slot::run_of(slot.peek()) == run);
}

TEST(BlockSlot, GivesEachTicketToOneThread) {
  word state = 0;
  block_slot{state}.open(segment_run{}.next(1, 1));
  std::vector<std::atomic<int>> taken(4 * 1000 * 3);
  simt::launch_threads({4, 1}, 4, [&] {
    for (int i = 0; i < 1000; ++i) {
      auto const first = block_slot::ticket_of(block_slot{state}.take(3));
      for (std::uint32_t ticket = first; ticket < first + 3; ++ticket) ++taken[ticket];
    }
  });
  for (auto const& times : taken) ASSERT_EQ(times, 1);
}

TEST(ClassRun, CountsSlotsThatAreUsedUp) {
  auto const run = segment_run{}.next(4, 2);
  word state = class_run::encode(run, 3, false);
  class_run const one{state};
  EXPECT_TRUE(class_run::run_of(state) == run);
  EXPECT_EQ(class_run::used_up(one.count_used_up(run)), 4u);
  EXPECT_FALSE(class_run::is_busy(state));
}

TEST(ClassRun, DropsALateCountForAnOldRun) {
  auto const old = segment_run{}.next(4, 2);
  auto const now = old.next(4, 2);
  word state = class_run::encode(now, 0, false);
  EXPECT_TRUE(class_run::run_of(class_run{state}.count_used_up(old)) == now);
  EXPECT_EQ(class_run::used_up(state), 0u);
}

TEST(ClassRun, IsLockedByOneAndOnlyAsItWasSeen) {
  auto const run = segment_run{}.next(4, 2);
  word state = class_run::encode(run, 1, false);
  class_run const one{state};
  word const seen = one.peek();
  (void)one.count_used_up(run);
  EXPECT_FALSE(one.lock(seen)) << "it has changed";
  EXPECT_TRUE(one.lock(one.peek()));
  EXPECT_FALSE(one.lock(one.peek())) << "it is busy";
  one.set(run.next(8, 1), 2);
  EXPECT_TRUE(class_run::is_busy(one.peek()));
  one.unlock();
  EXPECT_FALSE(class_run::is_busy(one.peek()));
  EXPECT_EQ(class_run::run_of(one.peek()).first(), 8u);
  EXPECT_EQ(class_run::used_up(one.peek()), 2u);
}

}  // namespace block_slots_test
}  // namespace quarry
