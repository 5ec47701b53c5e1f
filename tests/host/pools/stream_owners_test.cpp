// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/stream_owners.hpp"

#include "host/pools/simulated_streams.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace stream_owners_test {

constexpr std::uint64_t region = 1 << 20;
constexpr bytes whole = 64_KiB;

/// Owners of one block of 16 chunks, all in use at first.
struct StreamOwners : testing::Test {
  StreamOwners() {
    chunks.reserve();
    auto const first = owners.of(1).owner;
    in_use.push_back(chunks.allocate_in({region, whole}, size, first));
    while (in_use.size() < 16) in_use.push_back(chunks.allocate(size, first).value());
  }
  /// Gives one chunk back on `on`.
  void give_back(std::uint32_t on) {
    auto& its = owners.of(on);
    (void)chunks.deallocate(in_use.back(), its.owner);
    in_use.pop_back();
    owners.gave_back(on, its, size.granted);
  }
  [[nodiscard]] std::uint64_t common_for(std::uint32_t on) {
    return owners.allocate_common(on, owners.of(on), size).value_or(0);
  }
  simulated_world& world() { return owners.order().world(); }

  static constexpr chunk_sizes size{whole / 16, whole / 16};
  owned_arena chunks;
  stream_owners<simulated_streams> owners{simulated_streams{}, chunks};
  std::vector<std::uint64_t> in_use;
};

TEST_F(StreamOwners, RecordsAnEventForEachSixteenthOfThePool) {
  give_back(1);
  EXPECT_EQ(owners.events(), 0u);
  give_back(1);
  EXPECT_EQ(owners.events(), 1u);
  give_back(1);
  EXPECT_EQ(owners.events(), 1u);
}

TEST_F(StreamOwners, MakesCommonOnlyWhatHasAnEvent) {
  give_back(1);
  owners.share_all();
  EXPECT_EQ(common_for(2), 0u);
  give_back(1);
  owners.share_all();
  EXPECT_NE(common_for(2), 0u);
  EXPECT_NE(common_for(2), 0u);
  EXPECT_EQ(common_for(2), 0u);
  EXPECT_EQ(owners.waits(), 1u);
}

TEST_F(StreamOwners, AStreamDoesNotWaitForItself) {
  for (int i = 0; i < 2; ++i) give_back(1);
  owners.share_all();
  EXPECT_NE(common_for(1), 0u);
  EXPECT_EQ(owners.waits(), 0u);
}

TEST_F(StreamOwners, AHandleThatCameAgainIsAnotherOwner) {
  auto const before = owners.of(1).owner;
  world().destroy(1);
  EXPECT_EQ(owners.last(1)->owner, before) << "asked nobody";
  world().create(1);
  EXPECT_NE(owners.of(1).owner, before);
  EXPECT_EQ(world().misuses, 0u);
}

/// An event of the new stream says nothing of what the old one freed.
TEST_F(StreamOwners, CoversNothingByAnEventOfAnotherStream) {
  give_back(1);
  world().destroy(1);
  world().create(1);
  auto& old = *owners.last(1);
  owners.gave_back(1, old, whole);
  EXPECT_EQ(owners.events(), 0u);
  EXPECT_EQ(owners.last(1), nullptr);
  owners.share_all();
  EXPECT_EQ(common_for(2), 0u);
  EXPECT_TRUE(owners.synchronize_all());
  EXPECT_NE(common_for(2), 0u);
}

TEST_F(StreamOwners, SettlesAllOrNothing) {
  give_back(1);
  give_back(2);
  world().is_capturing = true;
  EXPECT_FALSE(owners.synchronize_all());
  EXPECT_EQ(common_for(3), 0u);
  world().is_capturing = false;
  EXPECT_TRUE(owners.synchronize_all());
  EXPECT_NE(common_for(3), 0u);
  EXPECT_NE(common_for(3), 0u);
  EXPECT_EQ(owners.waits(), 0u);
}

TEST_F(StreamOwners, ForgetsThoseThatHaveNothing) {
  for (std::uint32_t on = 10; on < 500; ++on) (void)owners.of(on);
  EXPECT_LE(owners.count(), 128u);
}

TEST_F(StreamOwners, LeavesNoEvent) {
  auto const order = owners.order();
  {
    stream_owners<simulated_streams> more{order, chunks};
    auto& its = more.of(7);
    (void)chunks.deallocate(in_use.back(), its.owner);
    in_use.pop_back();
    more.gave_back(7, its, whole);
    EXPECT_EQ(world().live_events, 1u);
  }
  EXPECT_EQ(world().live_events, 0u);
}

}  // namespace stream_owners_test
}  // namespace quarry::test
