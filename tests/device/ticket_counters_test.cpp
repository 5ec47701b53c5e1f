// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/ticket_counters.hpp"

#include "quarry/simt/launch.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace quarry {

using namespace detail;
namespace ticket_counters_test {

TEST(SegmentRun, KeepsItsSegmentsAndChangesItsTag) {
  segment_run const empty_run;
  EXPECT_EQ(empty_run.count(), 0u);
  auto const first = empty_run.next(0xfffff, 64);
  EXPECT_EQ(first.first(), 0xfffffu);
  EXPECT_EQ(first.count(), 64u);
  EXPECT_FALSE(first == empty_run);
  auto const second = first.next(0xfffff, 64);
  EXPECT_FALSE(second == first) << "a later run of the same segments";
  EXPECT_NE(second.key(), first.key());
  EXPECT_EQ(segment_run::first_of_key(second.key()), 0xfffffu);
}

TEST(SegmentRun, HasTheSameTagAgainAfter64Runs) {
  segment_run run;
  for (int i = 0; i < 64; ++i) {
    run = run.next(7, 3);
    EXPECT_LT(run.encoded(), word{1} << segment_run::bits);
  }
  EXPECT_EQ(run.next(7, 3).key(), segment_run{}.next(7, 3).key());
}

/// The layouts of a heap's classes.
std::vector<class_layout> layouts_of(bytes segment_bytes) {
  heap const owner{
      {.bytes = segment_bytes, .segment_bytes = segment_bytes, .backend_kind = backend::cpu}};
  auto const& state = test::state_of(owner);
  return {state.layouts, state.layouts + state.classes};
}

TEST(TicketCounter, MapsEachTicketToItsOwnSliceAndReachesAllSlices) {
  segment_run const run = segment_run{}.next(5, 3);
  for (auto const& layout : layouts_of(64_KiB)) {
    SCOPED_TRACE("size " + std::to_string(layout.size));
    std::vector<bool> seen(std::size_t{run.count()} * layout.slice.slices());
    std::size_t reached = 0;
    for (std::uint32_t counter = 0; counter < counters_per_class; ++counter) {
      bool is_exhausted = false;
      std::uint32_t lasts = 0;
      std::uint32_t valid = 0;
      for (std::uint32_t ticket = 0; !is_exhausted; ++ticket) {
        auto const place = ticket_counter::slice_of(layout, run, counter, ticket);
        is_exhausted = !place.is_valid;
        lasts += place.is_last ? 1 : 0;
        if (is_exhausted) break;
        ++valid;
        ASSERT_GE(place.segment, 5u);
        ASSERT_LT(place.segment, 8u);
        ASSERT_LT(place.slice, layout.slice.slices());
        auto const index = std::size_t{place.segment - 5} * layout.slice.slices() + place.slice;
        ASSERT_FALSE(seen[index]) << "ticket " << ticket << " of counter " << counter;
        seen[index] = true;
        ++reached;
        ASSERT_EQ(place.is_last,
                  !ticket_counter::slice_of(layout, run, counter, ticket + 1).is_valid);
      }
      EXPECT_EQ(ticket_counter::tickets_of(layout, run, counter), valid);
      EXPECT_EQ(lasts, valid == 0 ? 0u : 1u);
      EXPECT_FALSE(
          ticket_counter::slice_of(layout, run, counter, ticket_counter::ticket_limit).is_valid);
    }
    EXPECT_EQ(reached, seen.size());
  }
}

TEST(TicketCounter, HasRoomForAllTicketsOfTheLongestRun) {
  for (bytes const segment_bytes : {64_KiB, 1_MiB, 64_MiB}) {
    for (auto const& layout : layouts_of(segment_bytes)) {
      SCOPED_TRACE("segment " + std::to_string(segment_bytes) + " size " +
                   std::to_string(layout.size));
      std::uint32_t const longest = ticket_counter::longest_run(layout);
      ASSERT_GE(longest, layout.run_segments);
      ASSERT_LE(longest, segment_run::max_segments);
      segment_run const run = segment_run{}.next(5, longest);
      ASSERT_EQ(run.count(), longest);
      std::uint32_t const units = longest * layout.units;
      std::uint32_t const last_unit = (units - 1) / counters_per_class;
      std::uint32_t const counter = (units - 1) % counters_per_class;
      std::uint32_t const last = ((last_unit + 1) << layout.unit_shift) - 1;
      ASSERT_LE(last, ticket_counter::ticket_limit / 2)
          << "`rewind` sets a used-up counter to this ticket";
      auto const place = ticket_counter::slice_of(layout, run, counter, last);
      EXPECT_TRUE(place.is_valid && place.is_last);
      EXPECT_EQ(place.segment, 5 + longest - 1);
      EXPECT_EQ(place.slice, layout.slice.slices() - 1);
      EXPECT_FALSE(ticket_counter::slice_of(layout, run, counter, last + 1).is_valid);
      EXPECT_FALSE(ticket_counter::slice_of(layout, run, counter, ticket_counter::ticket_limit / 2)
                       .is_valid);
    }
  }
}

TEST(TicketCounter, HasNoTicketInAnEmptyRun) {
  for (auto const& layout : layouts_of(64_KiB)) {
    EXPECT_FALSE(ticket_counter::slice_of(layout, segment_run{}, 0, 0).is_valid);
    EXPECT_FALSE(
        ticket_counter::slice_of(layout, segment_run{}.next(3, 0), counters_per_class - 1, 0)
            .is_valid);
  }
}

TEST(TicketCounter, ReturnsItsRunAndTicketTogether) {
  word state = 0;
  ticket_counter const counter{state};
  auto const run = segment_run{}.next(9, 2);
  counter.open(run);
  EXPECT_EQ(ticket_counter::ticket_of(counter.claim(32)), 0u);
  word const second = counter.claim(1);
  EXPECT_EQ(ticket_counter::ticket_of(second), 32u);
  EXPECT_TRUE(ticket_counter::run_of(second) == run);
}

TEST(TicketCounter, CloseReturnsItsRunAndTickets) {
  word state = 0;
  ticket_counter const counter{state};
  auto const run = segment_run{}.next(9, 2);
  counter.open(run);
  (void)counter.claim(7);
  word const closed = counter.close(run.next(0, 0));
  EXPECT_EQ(ticket_counter::ticket_of(closed), 7u);
  EXPECT_TRUE(ticket_counter::run_of(closed) == run);
  EXPECT_FALSE(ticket_counter::run_of(counter.peek()) == run);
}

TEST(TicketCounter, IsRewoundBeforeItsTicketsOverflowIntoItsRun) {
  word state = 0;
  ticket_counter const counter{state};
  auto const run = segment_run{}.next(1, 1);
  counter.open(run);
  (void)counter.claim(1);
  counter.rewind();
  EXPECT_EQ(ticket_counter::ticket_of(counter.peek()), 1u) << "no rewind is needed yet";
  (void)counter.claim(ticket_counter::ticket_limit);
  counter.rewind();
  EXPECT_LT(ticket_counter::ticket_of(counter.peek()), ticket_counter::ticket_limit);
  EXPECT_GT(ticket_counter::ticket_of(counter.peek()), 1u << 20) << "it stays used up";
  EXPECT_TRUE(ticket_counter::run_of(counter.peek()) == run);
}

TEST(TicketCounter, ReturnsEachTicketToOneThread) {
  word state = 0;
  ticket_counter{state}.open(segment_run{}.next(1, 1));
  std::vector<std::atomic<int>> taken(4 * 1000 * 3);
  simt::launch_threads({4, 1}, 4, [&] {
    for (int i = 0; i < 1000; ++i) {
      auto const first = ticket_counter::ticket_of(ticket_counter{state}.claim(3));
      for (std::uint32_t ticket = first; ticket < first + 3; ++ticket) ++taken[ticket];
    }
  });
  for (auto const& times : taken) ASSERT_EQ(times, 1);
}

TEST(ClassRun, CountsTicketCountersThatAreUsedUp) {
  auto const run = segment_run{}.next(4, 2);
  word state = class_run::encode(run, 3, false);
  class_run const tested{state};
  EXPECT_TRUE(class_run::run_of(state) == run);
  EXPECT_EQ(class_run::used_up(tested.count_used_up(run)), 4u);
  EXPECT_FALSE(class_run::is_busy(state));
}

TEST(ClassRun, DropsALateCountForAnOldRun) {
  auto const old = segment_run{}.next(4, 2);
  auto const current = old.next(4, 2);
  word state = class_run::encode(current, 0, false);
  EXPECT_TRUE(class_run::run_of(class_run{state}.count_used_up(old)) == current);
  EXPECT_EQ(class_run::used_up(state), 0u);
}

TEST(ClassRun, OneCallerLocksTheRunAndOnlyInTheStateThatItRead) {
  auto const run = segment_run{}.next(4, 2);
  word state = class_run::encode(run, 1, false);
  class_run const tested{state};
  word const seen = tested.peek();
  (void)tested.count_used_up(run);
  EXPECT_FALSE(tested.lock(seen)) << "it has changed";
  EXPECT_TRUE(tested.lock(tested.peek()));
  EXPECT_FALSE(tested.lock(tested.peek())) << "it is busy";
  tested.set(run.next(8, 1), 2);
  EXPECT_TRUE(class_run::is_busy(tested.peek()));
  tested.unlock();
  EXPECT_FALSE(class_run::is_busy(tested.peek()));
  EXPECT_EQ(class_run::run_of(tested.peek()).first(), 8u);
  EXPECT_EQ(class_run::used_up(tested.peek()), 2u);
}

}  // namespace ticket_counters_test
}  // namespace quarry
