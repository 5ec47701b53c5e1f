// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/stream_owners.hpp"

#include "host/pools/simulated_streams.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace stream_owners_test {

constexpr std::uint64_t region = 1 << 20;
constexpr bytes block_size = 64_KiB;

/// The owners of one block of 16 chunks. All chunks are in use at first.
struct StreamOwners : testing::Test {
  StreamOwners() {
    chunks.reserve();
    auto const first = owners.state_of(1).owner;
    in_use.push_back(chunks.allocate_in({region, block_size}, size, first));
    while (in_use.size() < 16) in_use.push_back(chunks.allocate(size, first).value());
  }
  /// Frees one chunk on `stream`.
  void free_on(std::uint32_t stream) {
    auto& owner = owners.state_of(stream);
    (void)chunks.deallocate(in_use.back(), owner.owner);
    in_use.pop_back();
    owners.count_free(stream, owner, size.granted);
  }
  [[nodiscard]] std::uint64_t common_for(std::uint32_t stream) {
    return owners.allocate_common(stream, owners.state_of(stream), size).value_or(0);
  }
  simulated_world& world() { return owners.order().world(); }

  static constexpr chunk_sizes size{block_size / 16, block_size / 16};
  owned_arena chunks;
  stream_owners<simulated_streams> owners{simulated_streams{}, chunks};
  std::vector<std::uint64_t> in_use;
};

TEST_F(StreamOwners, RecordsAnEventForEachSixteenthOfThePool) {
  free_on(1);
  EXPECT_EQ(owners.events(), 0u);
  free_on(1);
  EXPECT_EQ(owners.events(), 1u);
  free_on(1);
  EXPECT_EQ(owners.events(), 1u);
}

TEST_F(StreamOwners, SharesOnlyChunksCoveredByAnEvent) {
  free_on(1);
  owners.share_all();
  EXPECT_EQ(common_for(2), 0u);
  free_on(1);
  owners.share_all();
  EXPECT_NE(common_for(2), 0u);
  EXPECT_NE(common_for(2), 0u);
  EXPECT_EQ(common_for(2), 0u);
  EXPECT_EQ(owners.waits(), 1u);
}

TEST_F(StreamOwners, MakesTheChunksOfAStreamThatWorksAloneCommon) {
  for (int i = 0; i < 4; ++i) free_on(1);
  EXPECT_EQ(owners.events(), 2u);
  EXPECT_EQ(owners.shares(), 0u);
  for (int i = 0; i < 4; ++i) EXPECT_NE(common_for(2), 0u);
  EXPECT_EQ(owners.waits(), 1u);
}

TEST_F(StreamOwners, KeepsTheChunksOfStreamsThatAlternate) {
  for (std::uint32_t const stream : {1u, 2u}) (void)owners.state_of(stream);
  for (std::uint32_t const stream : {1u, 2u, 1u, 2u}) free_on(stream);
  EXPECT_EQ(owners.events(), 4u);
  EXPECT_EQ(common_for(1), 0u);
  EXPECT_EQ(common_for(2), 0u);
  for (int i = 0; i < 2; ++i) free_on(2);  // no other call between these two
  for (int i = 0; i < 4; ++i) EXPECT_NE(common_for(2), 0u);
  EXPECT_EQ(common_for(2), 0u) << "stream 1 keeps its chunks";
}

TEST_F(StreamOwners, OrdersAStreamAfterTheWorkThatUsedCommonChunks) {
  auto& first = owners.state_of(1);
  auto& second = owners.state_of(2);
  EXPECT_TRUE(owners.is_ordered(second));
  for (int i = 0; i < 2; ++i) free_on(1);
  owners.share_all();
  EXPECT_TRUE(owners.is_ordered(first)) << "a stream need not wait for itself";
  EXPECT_FALSE(owners.is_ordered(second));
  EXPECT_NE(common_for(2), 0u);
  EXPECT_EQ(owners.waits(), 1u);
  EXPECT_TRUE(owners.is_ordered(second)) << "it waits already";
  auto& third = owners.state_of(3);
  EXPECT_FALSE(owners.is_ordered(third));
  world().done_percent = 100;
  EXPECT_TRUE(owners.is_ordered(third));
  EXPECT_NE(common_for(3), 0u);
  EXPECT_EQ(owners.waits(), 1u);
  EXPECT_EQ(world().live_events, 0u);
}

TEST_F(StreamOwners, FinishesTheWorkThatUsedCommonChunks) {
  auto const used = world().tick(1);
  for (int i = 0; i < 2; ++i) free_on(1);
  owners.share_all();
  EXPECT_TRUE(owners.finish_common(2));
  EXPECT_GE(world().finished[1], used);
  EXPECT_EQ(world().live_events, 0u);
  EXPECT_NE(common_for(2), 0u);
  EXPECT_EQ(owners.waits(), 0u);
  world().never_records = 2;  // as a stream that is being captured
  EXPECT_FALSE(owners.finish_common(2));
}

TEST_F(StreamOwners, AStreamDoesNotWaitForItself) {
  for (int i = 0; i < 2; ++i) free_on(1);
  owners.share_all();
  EXPECT_NE(common_for(1), 0u);
  EXPECT_EQ(owners.waits(), 0u);
}

TEST_F(StreamOwners, AReusedHandleIsAnotherOwner) {
  auto const old_owner = owners.state_of(1).owner;
  world().destroy(1);
  EXPECT_EQ(owners.last(1)->owner, old_owner) << "last() must not query the stream";
  world().create(1);
  EXPECT_NE(owners.state_of(1).owner, old_owner);
  EXPECT_EQ(world().misuses, 0u);
}

/// An event of the new stream does not cover the frees of the old stream.
TEST_F(StreamOwners, AnEventOfAnotherStreamCoversNothing) {
  free_on(1);
  world().destroy(1);
  world().create(1);
  auto& old = *owners.last(1);
  owners.count_free(1, old, block_size);
  EXPECT_EQ(owners.events(), 0u);
  EXPECT_EQ(owners.last(1), nullptr);
  owners.share_all();
  EXPECT_EQ(common_for(2), 0u);
  EXPECT_TRUE(owners.synchronize_all());
  EXPECT_NE(common_for(2), 0u);
}

TEST_F(StreamOwners, SynchronizesAllOwnersOrNone) {
  free_on(1);
  for (std::uint32_t const stream : {2u, 1u}) (void)owners.state_of(stream);  // they alternate
  free_on(2);
  world().is_capturing = true;
  EXPECT_FALSE(owners.synchronize_all());
  EXPECT_EQ(common_for(3), 0u);
  world().is_capturing = false;
  EXPECT_TRUE(owners.synchronize_all());
  EXPECT_NE(common_for(3), 0u);
  EXPECT_NE(common_for(3), 0u);
  EXPECT_EQ(owners.waits(), 0u);
}

TEST_F(StreamOwners, ForgetsOwnersWithoutChunks) {
  for (std::uint32_t stream = 10; stream < 500; ++stream) (void)owners.state_of(stream);
  EXPECT_LE(owners.count(), 128u);
}

TEST_F(StreamOwners, LeavesNoEvent) {
  auto const order = owners.order();
  {
    stream_owners<simulated_streams> more{order, chunks};
    auto& owner = more.state_of(7);
    (void)chunks.deallocate(in_use.back(), owner.owner);
    in_use.pop_back();
    more.count_free(7, owner, block_size);
    EXPECT_EQ(world().live_events, 1u);
  }
  EXPECT_EQ(world().live_events, 0u);
}

}  // namespace stream_owners_test
}  // namespace quarry::test
