// SPDX-License-Identifier: Apache-2.0
// How lanes wait while another lane replaces the run of their class.
#include "quarry/device/detail/heap_internals.hpp"
#include "quarry/device/detail/slice_supply.hpp"
#include "support/fill.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

namespace quarry {

using namespace detail;
namespace wait_for_tickets_test {

using test::net;

TEST(WaitForTickets, TheFirstLanesThatFindACounterUsedUpReplaceTheRunAndOthersWait) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(640);
  owner.ref().free(owner.ref().malloc(net(640)));
  word const counter = state.ticket_counter_at(id, 0).peek();
  segment_run const run = ticket_counter::run_of(counter);
  class_layout const& layout = state.layouts[id];
  auto const replace = [&](std::uint32_t ticket) {
    return ticket_wait::others_replace_run(
        layout, run.encoded() << ticket_counter::ticket_bits | ticket, 0);
  };
  std::uint32_t const tickets = ticket_counter::tickets_of(layout, run, 0);
  EXPECT_FALSE(replace(tickets));
  EXPECT_FALSE(replace(tickets + ticket_wait::lanes_that_replace_run));
  EXPECT_TRUE(replace(tickets + ticket_wait::lanes_that_replace_run + 1));
  EXPECT_TRUE(replace(ticket_counter::ticket_limit));
}

/// All counters but one are used up. Whichever has tickets, a lane that waits finds them.
TEST(WaitForTickets, ALaneThatWaitsClaimsFromTheCounterThatHasTickets) {
  for (std::uint32_t open = 0; open < counters_per_class; ++open) {
    auto const owner = test::small_heap(8);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(16);
    ASSERT_NE(owner.ref().malloc(net(16)), nullptr);
    segment_run const run = ticket_counter::run_of(state.ticket_counter_at(id, open).peek());
    slice_request request{&state, id, 1};
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      std::uint32_t const tickets = ticket_counter::tickets_of(state.layouts[id], run, i);
      ASSERT_GT(tickets, 1u);
      state.ticket_counter_at(id, i).open(run, i == open ? tickets - 1 : tickets);
    }
    ASSERT_TRUE(state.run(id).lock(state.run(id).peek())) << "another lane replaces the run";
    EXPECT_TRUE(slice_supply::wait_for_tickets(request));
    EXPECT_EQ(request.counter, open);
    EXPECT_EQ(request.origin, slice_request::source::tickets);
    request.origin = slice_request::source::none;
    EXPECT_FALSE(slice_supply::wait_for_tickets(request)) << "that was the last ticket";
    EXPECT_EQ(request.origin, slice_request::source::none);
  }
}

/// The lanes of a warp wait in another function than one lane that searches.
TEST(WaitForTickets, ALaneThatWaitsWithItsWarpGetsASliceOfTheCounterThatHasTickets) {
  for (std::uint32_t open = 0; open < counters_per_class; ++open) {
    auto const owner = test::small_heap(8);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(16);
    ASSERT_NE(owner.ref().malloc(net(16)), nullptr);
    segment_run const run = ticket_counter::run_of(state.ticket_counter_at(id, open).peek());
    class_layout const& layout = state.layouts[id];
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      std::uint32_t const tickets = ticket_counter::tickets_of(layout, run, i);
      if (i == open) last = tickets - 1;
      state.ticket_counter_at(id, i).open(run, i == open ? tickets - 1 : tickets);
    }
    ASSERT_TRUE(state.run(id).lock(state.run(id).peek())) << "another lane replaces the run";
    heap_handle const handle = heap_internals::handle_of(owner.ref());
    EXPECT_EQ(ticket_wait::claim(handle, id, ticket_counter::ticket_limit), nullptr)
        << "the search must rewind the counter";
    ticket_slice const expected = ticket_counter::slice_of(layout, run, open, last);
    EXPECT_EQ(ticket_wait::claim(handle, id, 0),
              handle.address(expected.segment, bytes{expected.slice} * layout.size));
    EXPECT_EQ(class_run::used_up(state.run(id).peek()), 1u) << "it was the counter's last ticket";
    EXPECT_EQ(ticket_wait::claim(handle, id, 0), nullptr);
  }
}

TEST(WaitForTickets, ALaneDoesNotWaitIfNoLaneReplacesTheRun) {
  auto const owner = test::small_heap(8);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(16);
  EXPECT_EQ(ticket_wait::look(state, id, 0), ticket_wait::run_is_ready);
  ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
  EXPECT_EQ(ticket_wait::look(state, id, 0), ticket_wait::none);
}

}  // namespace wait_for_tickets_test
}  // namespace quarry
