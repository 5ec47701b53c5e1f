// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/place_owners.hpp"

#include "host/pools/simulated_streams.hpp"

#include <gtest/gtest.h>

namespace {

using namespace quarry;
using quarry::test::simulated_streams;
using owners = place_owners<simulated_streams>;

/// Two small places, and one place over both.
plan overlapping_places() {
  return {.size = 512, .period_begin = 3, .allocations = {{256, 0, 1}, {256, 256, 2}, {512, 0, 3}}};
}

TEST(PlaceOwners, OrderAPlaceBehindTheFreesOfAllItsSegments) {
  simulated_streams streams;
  auto& world = streams.world();
  owners tested{overlapping_places()};
  EXPECT_TRUE(tested.order_behind_frees(streams, 3, 0, 512));
  EXPECT_TRUE(tested.order_behind_frees(streams, 1, 0, 256));
  auto const first = world.tick(1);
  tested.record_free(streams, 1, 0, 256);
  auto const second = world.tick(2);
  tested.record_free(streams, 2, 256, 256);
  EXPECT_EQ(tested.streams(), 3u);
  EXPECT_EQ(tested.events(), 2u);
  EXPECT_TRUE(tested.order_behind_frees(streams, 3, 0, 512));
  EXPECT_EQ(tested.waits(), 2u);
  EXPECT_TRUE(world.is_before(1, first, 3));
  EXPECT_TRUE(world.is_before(2, second, 3));
  EXPECT_FALSE(world.is_before(1, first, 2));
  tested.finish_events(streams);
  EXPECT_EQ(world.live_events, 0u);
}

TEST(PlaceOwners, OneEventCoversTheEarlierFreesOfItsStream) {
  simulated_streams streams;
  owners tested{overlapping_places()};
  tested.record_free(streams, 1, 0, 256);  // the only stream: no event
  EXPECT_FALSE(tested.order_behind_frees(streams, 2, 0, 256));
  EXPECT_TRUE(tested.order_behind_frees(streams, 1, 0, 256));
  tested.record_free(streams, 1, 256, 256);
  EXPECT_EQ(tested.events(), 1u);
  EXPECT_TRUE(tested.order_behind_frees(streams, 2, 0, 256));
  tested.finish_events(streams);
}

TEST(PlaceOwners, RefuseBytesWhoseStreamIsUnknownUntilAllWorkIsDone) {
  simulated_streams streams;
  owners tested{overlapping_places()};
  tested.record_free(streams, simulated_streams::not_a_stream, 0, 256);
  EXPECT_FALSE(tested.order_behind_frees(streams, 1, 0, 512));
  EXPECT_THROW((void)tested.order_behind_frees(streams, simulated_streams::not_a_stream, 0, 256),
               quarry::bad_argument);
  streams.world().is_capturing = true;
  EXPECT_FALSE(tested.synchronize_all(streams));
  EXPECT_FALSE(tested.order_behind_frees(streams, 1, 0, 512));
  streams.world().is_capturing = false;
  EXPECT_TRUE(tested.synchronize_all(streams));
  EXPECT_TRUE(tested.order_behind_frees(streams, 1, 0, 512));
}

}  // namespace
