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

/// A heap in which a lane replaces the run of slices of 16 B. All ticket counters of that class are
/// used up, but for one, which has one ticket left.
struct heap_with_one_ticket {
  explicit heap_with_one_ticket(std::uint32_t open) {
    EXPECT_NE(owner.ref().malloc(net(16)), nullptr);
    run = ticket_counter::run_of(state.ticket_counter_at(id, open).peek());
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      std::uint32_t const tickets = ticket_counter::tickets_of(state.layouts[id], run, i);
      EXPECT_GT(tickets, 1u);
      if (i == open) last = tickets - 1;
      state.ticket_counter_at(id, i).open(run, i == open ? tickets - 1 : tickets);
    }
    EXPECT_TRUE(state.run(id).lock(state.run(id).peek())) << "another lane replaces the run";
  }

  heap owner = test::small_heap(8);
  heap_state& state = test::state_of(owner);
  size_class id = size_class_of(16);
  segment_run run{};
  std::uint32_t last = 0;  // the ticket
};

TEST(WaitForTickets, ALaneThatSearchesClaimsFromTheCounterThatHasTickets) {
  for (std::uint32_t open = 0; open < counters_per_class; ++open) {
    heap_with_one_ticket a{open};
    slice_request request{&a.state, a.id, 1};
    EXPECT_TRUE(slice_supply::wait_for_tickets(request));
    EXPECT_EQ(request.counter, open);
    EXPECT_EQ(request.origin, slice_request::source::tickets);
    request.origin = slice_request::source::none;
    EXPECT_FALSE(slice_supply::wait_for_tickets(request)) << "that was the last ticket";
    EXPECT_EQ(request.origin, slice_request::source::none);
  }
}

/// The lanes of a warp wait together, in another function.
TEST(WaitForTickets, ALaneThatWaitsWithItsWarpGetsASliceOfTheCounterThatHasTickets) {
  for (std::uint32_t open = 0; open < counters_per_class; ++open) {
    heap_with_one_ticket a{open};
    heap_handle const handle = heap_internals::handle_of(a.owner.ref());
    EXPECT_EQ(ticket_wait::claim(handle, a.id, ticket_counter::ticket_limit), nullptr)
        << "the search must rewind the counter";
    class_layout const& layout = a.state.layouts[a.id];
    ticket_slice const expected = ticket_counter::slice_of(layout, a.run, open, a.last);
    EXPECT_EQ(ticket_wait::claim(handle, a.id, 0),
              handle.address(expected.segment, bytes{expected.slice} * layout.size));
    EXPECT_EQ(class_run::used_up(a.state.run(a.id).peek()), 1u)
        << "it was the counter's last ticket";
    EXPECT_EQ(ticket_wait::claim(handle, a.id, 0), nullptr);
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
