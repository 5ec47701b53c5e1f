// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/owned_arena.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {

using namespace detail;
namespace owned_arena_test {

constexpr std::uint64_t region = 1 << 20;

TEST(OwnedArena, KeepsAFreedChunkForItsOwner) {
  owned_arena all;
  auto const first = *all.add_owner();
  auto const second = *all.add_owner();
  all.reserve();
  auto const base = all.allocate_in({region, 1024}, {1024, 1024}, first);
  EXPECT_EQ(all.deallocate(base, first).requested, 1024u);
  EXPECT_EQ(all.allocate({1024, 1024}, second), std::nullopt);
  EXPECT_EQ(all.allocate({1024, 1024}, 0), std::nullopt);
  EXPECT_EQ(all.allocate({1024, 1024}, first), base);
  EXPECT_TRUE(all.audit().empty());
}

TEST(OwnedArena, MergesNeighboursOfOneOwnerOnly) {
  owned_arena all;
  auto const owner = *all.add_owner();
  auto const other_owner = *all.add_owner();
  all.reserve();
  auto const first = all.allocate_in({region, 1024}, {512, 512}, 0);
  auto const second = all.allocate({512, 512}, 0).value();
  ASSERT_EQ(second, first + 512);
  all.deallocate(first, owner);
  all.deallocate(second, other_owner);
  for (auto const each : {owner, other_owner}) {
    all.cover(each);
    all.merge_cached(each);
  }
  EXPECT_TRUE(all.audit().empty());
  EXPECT_EQ(all.allocate({1024, 1024}, owner), std::nullopt);
  all.share(owner);
  all.share(other_owner);
  EXPECT_TRUE(all.audit().empty());
  EXPECT_FALSE(all.has_any(owner));
  EXPECT_EQ(all.allocate({1024, 1024}, 0), first);
}

TEST(OwnedArena, SharesOnlyCoveredChunks) {
  owned_arena all;
  auto const owner = *all.add_owner();
  all.reserve();
  auto const first = all.allocate_in({region, 1024}, {512, 512}, owner);
  auto const second = all.allocate({512, 512}, owner).value();
  all.deallocate(first, owner);
  all.cover(owner);
  all.deallocate(second, owner);
  all.share(owner);
  EXPECT_EQ(all.allocate({512, 512}, 0), first);
  EXPECT_EQ(all.allocate({512, 512}, 0), std::nullopt);
  EXPECT_TRUE(all.has_recent(owner));
  EXPECT_EQ(all.allocate({512, 512}, owner), second);
  EXPECT_FALSE(all.has_any(owner));
  EXPECT_TRUE(all.audit().empty());
}

TEST(OwnedArena, TakesTheTightestOfItsOwnAndTheCommonChunks) {
  owned_arena all;
  auto const owner = *all.add_owner();
  auto const other_owner = *all.add_owner();
  all.reserve();
  struct {
    bytes size;
    std::uint32_t owner;
    std::uint64_t base = 0;
  } chunks[] = {{512, 0}, {1024, owner}, {256, other_owner}, {1248, 0}};
  (void)all.allocate_in({region, 3120}, {16, 16}, 0);
  for (auto& each : chunks) {
    each.base = all.allocate({each.size, each.size}, 0).value();
    (void)all.allocate({16, 16}, 0).value();  // keeps the chunks from merging
  }
  auto const free_to = [&](std::uint64_t base, std::uint32_t new_owner) {
    all.deallocate(base, new_owner);
    all.cover(new_owner);
    all.merge_cached(new_owner);
  };
  for (auto const& each : chunks) free_to(each.base, each.owner);
  EXPECT_EQ(all.allocate_tightest({1024, 1024}, owner), chunks[1].base);
  free_to(chunks[1].base, owner);
  EXPECT_EQ(all.allocate_tightest({512, 512}, owner), chunks[0].base);
  EXPECT_EQ(all.allocate_tightest({512, 512}, owner), chunks[1].base) << "its own is tighter now";
  EXPECT_EQ(all.allocate_tightest({1200, 1200}, owner), chunks[3].base);
  EXPECT_EQ(all.allocate_tightest({1200, 1200}, owner), std::nullopt);
  EXPECT_TRUE(all.audit().empty());
}

TEST(OwnedArena, RefusesInvalidFrees) {
  owned_arena all;
  auto const owner = *all.add_owner();
  all.reserve();
  auto const base = all.allocate_in({region, 1024}, {100, 112}, owner);
  EXPECT_FALSE(all.deallocate(base + 16, owner));
  EXPECT_TRUE(all.deallocate(base, owner));
  EXPECT_FALSE(all.deallocate(base, owner));
  EXPECT_TRUE(all.audit().empty());
}

/// Chunks in use never overlap. An owner gets only chunks of its own and common chunks.
TEST(OwnedArena, AgreesWithAMapOfBytesAndOwners) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    std::mt19937 random{seed};
    owned_arena all;
    for (int i = 0; i < 3; ++i) (void)all.add_owner();
    constexpr bytes units = 1 << 12;  // units of 16 bytes
    std::vector<std::uint32_t> owner_of(units, 0);
    std::vector<bool> used(units, false);
    std::map<std::uint64_t, bytes> allocated;
    all.reserve();
    allocated[all.allocate_in({region, units * 16}, {16, 16}, 0)] = 16;
    used[0] = true;
    for (int step = 0; step < 4000; ++step) {
      auto const whose = static_cast<std::uint32_t>(1 + random() % 3);
      if (random() % 50 == 0) {
        all.cover(whose);
        all.share(whose);
        for (auto& owner : owner_of) owner = owner == whose ? 0 : owner;
      } else if (random() % 2 == 0 && !allocated.empty()) {
        auto const freed =
            std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
        auto const was = all.deallocate(freed->first, whose);
        ASSERT_TRUE(was);
        for (bytes i = 0; i < was.granted / 16; ++i) {
          used[(freed->first - region) / 16 + i] = false;
          owner_of[(freed->first - region) / 16 + i] = whose;
        }
        allocated.erase(freed);
      } else {
        bytes const size = 16 * (1 + random() % 60);
        std::uint32_t const source = random() % 2 == 0 ? whose : 0;
        if (random() % 8 == 0) all.cover(source);
        if (random() % 4 == 0) all.merge_cached(source);
        auto const found = all.allocate({size, size}, source);
        if (!found) continue;
        std::uint64_t const base = *found;
        bytes const room = all.size_of(base)->granted;
        for (bytes i = 0; i < room / 16; ++i) {
          ASSERT_FALSE(used[(base - region) / 16 + i]) << "seed " << seed << " step " << step;
          ASSERT_EQ(owner_of[(base - region) / 16 + i], source)
              << "seed " << seed << " step " << step;
          used[(base - region) / 16 + i] = true;
        }
        allocated[base] = room;
      }
      if (step % 20 == 0) {
        ASSERT_TRUE(all.audit().empty()) << all.audit()[0];
      }
    }
  }
}

}  // namespace owned_arena_test
}  // namespace quarry::test
