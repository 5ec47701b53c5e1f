// SPDX-License-Identifier: Apache-2.0
// How lanes wait while another lane replaces the run of their class.
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
    return slice_supply::others_replace_run(
        layout, run.encoded() << ticket_counter::ticket_bits | ticket, 0);
  };
  std::uint32_t const tickets = ticket_counter::tickets_of(layout, run, 0);
  EXPECT_FALSE(replace(tickets));
  EXPECT_FALSE(replace(tickets + slice_supply::lanes_that_replace_run));
  EXPECT_TRUE(replace(tickets + slice_supply::lanes_that_replace_run + 1));
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

}  // namespace wait_for_tickets_test
}  // namespace quarry
