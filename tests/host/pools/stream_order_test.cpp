// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/stream_order.hpp"

#include "host/pools/simulated_streams.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace stream_order_test {

struct without_wait {
  using stream = int;
  using event = int;
  int record(stream) { return 0; }
};

TEST(StreamOrder, NeedsRecordAndWait) {
  static_assert(stream_order<simulated_streams>);
  static_assert(!stream_order<without_wait>);
  static_assert(!stream_order<int>);
}

TEST(StreamOrder, OfSimulatedStreamsFollowsTheirEvents) {
  simulated_streams order;
  auto const earlier_time = order.world().tick(1);
  EXPECT_TRUE(order.world().is_before(1, earlier_time, 1));
  EXPECT_FALSE(order.world().is_before(1, earlier_time, 2));
  auto done = order.record(1);
  auto const later_time = order.world().tick(1);
  order.wait(2, done);
  EXPECT_TRUE(order.world().is_before(1, earlier_time, 2));
  EXPECT_FALSE(order.world().is_before(1, later_time, 2));
  EXPECT_TRUE(order.finish(1u));
  EXPECT_TRUE(order.world().is_before(1, later_time, 3));
  order.drop(done);
  EXPECT_EQ(order.world().live_events, 0u);
}

TEST(StreamOrder, OfSimulatedStreamsDistinguishesAReusedHandle) {
  simulated_streams order;
  auto const first = order.identity(1);
  auto const used = order.world().tick(1);
  order.world().destroy(1);
  order.world().create(1);
  EXPECT_NE(order.identity(1), first);
  EXPECT_FALSE(order.world().is_before(1, used, 1));
  EXPECT_TRUE(order.finish_all());
  EXPECT_TRUE(order.world().is_before(1, used, 1));
  EXPECT_EQ(order.world().misuses, 0u);
  order.world().destroy(1);
  (void)order.identity(1);
  EXPECT_EQ(order.world().misuses, 1u);
}

}  // namespace stream_order_test
}  // namespace quarry::test
