// SPDX-License-Identifier: Apache-2.0
// When a stream pool merges memory, when it grows, and which blocks it returns before that.
#include "host/pools/simulated_streams.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace quarry::test {
namespace stream_pool_growth_test {

using simulated_pool = stream_pool<simulated_resource, simulated_streams>;

struct StreamPoolGrowth : testing::Test {
  simulated_pool& make(stream_pool_options const& options) {
    pool = std::make_unique<simulated_pool>(simulated_resource{}, simulated_streams{}, options);
    return *pool;
  }
  simulated_world& world() { return pool->order().world(); }
  std::unique_ptr<simulated_pool> pool;
};

TEST_F(StreamPoolGrowth, DoesNotSplitItsMemoryBetweenStreamsThatAlternate) {
  auto& source = make({.first_block = 1_MiB, .next_block = 64_KiB, .max_bytes = 1_MiB});
  for (int round = 0; round < 200; ++round) {
    for (std::uint32_t const stream : {1u, 2u}) {
      std::vector<void*> parts;
      bytes const size = bytes{1} << (8 + round % 12);
      for (bytes sum = 0; sum + size <= 1_MiB; sum += size)
        parts.push_back(source.allocate(size, stream));
      for (void* const part : parts) ASSERT_TRUE(source.deallocate(part, stream));
    }
  }
  EXPECT_EQ(source.counts().reserved, 1_MiB);
}

TEST_F(StreamPoolGrowth, GrowsBeforeAStreamWaitsWithGrowsFirst) {
  auto& source =
      make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 2_MiB, .grows_first = true});
  source.deallocate(source.allocate(1_MiB, 1), 1);
  (void)source.allocate(1_MiB, 2);
  EXPECT_EQ(source.counts().waits, 0u);
  EXPECT_EQ(source.counts().reserved, 2_MiB);
  (void)source.allocate(1_MiB, 3);  // at its limit the pool takes memory of stream 1
  EXPECT_EQ(source.counts().waits, 1u);
  EXPECT_THROW((void)source.allocate(1, 3), out_of_memory);
}

/// Streams that share a pool and stop working must not leave it in pieces (a fault of RMM's pool,
/// issue 2039: requests fail though enough memory is free, with two streams already).
TEST_F(StreamPoolGrowth, GivesAllMemoryThatUnusedStreamsLeaveInPieces) {
  for (std::uint32_t const streams : {2u, 16u}) {
    for (bytes const size : {256_KiB, 16_KiB, bytes{512}}) {
      for (bool const was_busy : {false, true}) {
        auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
        std::vector<void*> pieces;
        for (bytes sum = 0; sum + size <= 1_MiB; sum += size)
          pieces.push_back(
              source.allocate(size, static_cast<std::uint32_t>(1 + pieces.size() % streams)));
        if (was_busy)
          for (std::uint32_t stream = 1; stream <= streams; ++stream) (void)world().tick(stream);
        for (std::size_t i = 0; i < pieces.size(); ++i)
          ASSERT_TRUE(source.deallocate(pieces[i], static_cast<std::uint32_t>(1 + i % streams)));
        void* const all = source.allocate(1_MiB, 1);
        ASSERT_TRUE(source.deallocate(all, 1));
        EXPECT_EQ(source.allocate(1_MiB, streams + 1), all);
        EXPECT_EQ(source.counts().reserved, 1_MiB);
      }
    }
  }
}

/// A request that no memory can serve must not separate other streams' free memory from the work
/// that still uses it (a fault of RMM's pool, issue 2489: three streams and a failed request).
TEST_F(StreamPoolGrowth, OrdersStreamsAfterEarlierUsesIfARequestBetweenThemFails) {
  for (bool const grows_first : {false, true}) {
    auto& source = make({.first_block = 1_MiB,
                         .next_block = 1_MiB,
                         .max_bytes = 1_MiB,
                         .grows_first = grows_first});
    void* const first = source.allocate(512_KiB, 1);
    void* const second = source.allocate(512_KiB, 1);
    auto const used = world().tick(1);
    source.deallocate(first, 1);
    source.deallocate(second, 1);
    EXPECT_THROW((void)source.allocate(2_MiB, 2), out_of_memory);
    EXPECT_EQ(source.allocate(512_KiB, 3), first);
    EXPECT_TRUE(world().is_before(1, used, 3));

    // Stream 2 merges and uses all memory but does not wait for stream 3's use by itself.
    auto const used_by_3 = world().tick(3);
    source.deallocate(first, 3);
    EXPECT_THROW((void)source.allocate(2_MiB, 4), out_of_memory);
    EXPECT_EQ(source.allocate(1_MiB, 2), first);
    EXPECT_TRUE(world().is_before(1, used, 2));
    EXPECT_TRUE(world().is_before(3, used_by_3, 2));
    source.deallocate(first, 2);
    EXPECT_EQ(source.allocate(1_MiB, 5), first);
    EXPECT_TRUE(world().is_before(1, used, 5));
    EXPECT_TRUE(world().is_before(3, used_by_3, 5));
    EXPECT_TRUE(source.audit().empty());
  }
}

/// The stream's old and new free memory must merge, although the pool shared the old memory.
TEST_F(StreamPoolGrowth, MergesAllFreeMemoryOfAStreamThatWorksAlone) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 2_MiB});
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> parts;
    for (int i = 0; i < 16; ++i) parts.push_back(source.allocate(64_KiB, 1));
    for (void* const part : parts) source.deallocate(part, 1);
    source.deallocate(source.allocate(512_KiB, 1), 1);
    source.deallocate(source.allocate(1_MiB, 1), 1);
  }
  EXPECT_EQ(source.counts().reserved, 1_MiB);
  EXPECT_EQ(source.counts().waits, 0u);
}

TEST_F(StreamPoolGrowth, DoesNotSplitALargeChunkIfACommonChunkFitsTighter) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const small = source.allocate(64_KiB, 1);
  void* const between = source.allocate(4_KiB, 1);
  void* const large = source.allocate(512_KiB, 2);
  (void)source.allocate(1_MiB - 580_KiB, 1);
  source.deallocate(small, 1);
  source.share(1);
  source.deallocate(large, 2);
  world().done_percent = 100;
  EXPECT_EQ(source.allocate(48_KiB, 2), small);
  EXPECT_EQ(source.allocate(512_KiB, 2), large);
  EXPECT_EQ(source.counts().waits, 0u);
  EXPECT_TRUE(source.deallocate(between, 1));
}

/// A chunk that the stream would have to wait for is no reason to wait, even if it fits tighter.
TEST_F(StreamPoolGrowth, PrefersAStreamsOwnChunkToAWait) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const small = source.allocate(64_KiB, 1);
  (void)source.allocate(4_KiB, 1);
  void* const large = source.allocate(512_KiB, 2);
  (void)source.allocate(1_MiB - 580_KiB, 1);
  source.deallocate(large, 2);
  source.deallocate(small, 1);
  source.share(1);
  EXPECT_EQ(source.allocate(48_KiB, 2), large);
  EXPECT_EQ(source.counts().waits, 0u);
}

TEST_F(StreamPoolGrowth, ReturnsEmptyBlocksBeforeItGrowsAfterTheWorkThatUsedThem) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0});
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(source.allocate(1_MiB, 1));
  auto const used = world().tick(1);
  for (void* const each : blocks) source.deallocate(each, 1);
  void* const large = source.allocate(2_MiB, 2);
  EXPECT_EQ(source.counts().reserved, 4_MiB) << "no less than the peak use";
  EXPECT_EQ(source.counts().blocks_returned, 2u);
  EXPECT_GE(world().finished[1], used);
  EXPECT_TRUE(source.deallocate(large, 2));
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPoolGrowth, GrowsWithoutReturnsDuringACapture) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0});
  void* const small = source.allocate(1_MiB, 1);
  source.deallocate(small, 1);
  world().never_records = 2;
  (void)source.allocate(2_MiB, 2);
  EXPECT_EQ(source.counts().blocks_returned, 0u);
  EXPECT_EQ(source.counts().reserved, 3_MiB);
  EXPECT_LT(world().finished[1], world().clocks[1][1]) << "the host does not wait";
}

TEST_F(StreamPoolGrowth, KeepsBlocksWithMemoryThatIsNotCovered) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0});
  for (std::uint32_t const stream : {1u, 2u}) (void)source.allocate(960_KiB, stream);
  void* const rest = source.allocate(1_MiB, 1);
  void* const part = source.allocate(32_KiB, 2);  // too small for an event
  source.deallocate(rest, 1);
  source.deallocate(part, 2);
  (void)source.allocate(4_MiB, 3);
  EXPECT_EQ(source.counts().blocks_returned, 1u) << "the block of `rest`";
  EXPECT_EQ(source.allocate(32_KiB, 2), part);
  EXPECT_TRUE(source.audit().empty());
}

/// Requests that repeat, and for which no layout of the peak's size suffices.
TEST_F(StreamPoolGrowth, StopsReturningBlocksIfTheRequestsRepeat) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0});
  auto const round = [&] {
    for (bytes const size : {1_MiB, 2_MiB, 3_MiB}) {
      std::vector<void*> parts;
      for (bytes sum = 0; sum + size <= 6_MiB; sum += size)
        parts.push_back(source.allocate(size, 1));
      for (void* const part : parts) source.deallocate(part, 1);
    }
  };
  round();
  EXPECT_GT(source.counts().blocks_returned, 0u);
  for (int i = 0; i < 200; ++i) round();
  auto const returned = source.counts().blocks_returned;
  for (int i = 0; i < 200; ++i) round();
  EXPECT_EQ(source.counts().blocks_returned, returned);
  EXPECT_LE(source.counts().reserved, 18_MiB);
}

}  // namespace stream_pool_growth_test
}  // namespace quarry::test
