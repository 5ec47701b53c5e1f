// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/caching_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace quarry::test {
namespace caching_arena_test {

TEST(CachingArena, TheNextRequestOfASizeGetsTheChunkFreedLast) {
  fast_fit arena;
  arena.reserve();
  auto const first = arena.allocate_in({4096, 4096}, {30, 32});
  auto const second = arena.allocate({32, 32}).value();
  (void)arena.allocate({32, 32});
  arena.deallocate(first);
  arena.deallocate(second);
  EXPECT_FALSE(arena.deallocate(second)) << "the chunk is cached, not allocated";
  EXPECT_FALSE(arena.size_of(second).has_value());
  EXPECT_EQ(arena.allocated(), 1u);
  EXPECT_EQ(arena.allocate({17, 32}), second);
  EXPECT_EQ(arena.size_of(second)->requested, 17u);
  EXPECT_TRUE(arena.audit().empty());
}

/// No request reuses the two cached chunks, and one request needs the memory of both chunks. The
/// next frees then merge at once.
TEST(CachingArena, StopsCachingForAWhileWhenSizesAreNotReused) {
  fast_fit arena;
  arena.reserve();
  auto const first = arena.allocate_in({4096, 4096}, {1024, 1024});
  auto const second = arena.allocate({1024, 1024}).value();
  auto const third = arena.allocate({2048, 2048}).value();
  arena.deallocate(first);
  arena.deallocate(second);
  EXPECT_EQ(arena.free_chunks(), 0u) << "both chunks are cached";
  EXPECT_EQ(arena.allocate({2048, 2048}), first) << "the cached chunks were not reused";
  for (int i = 0; i < 2 * 128; ++i) {
    ASSERT_EQ(arena.free_chunks(), 0u) << i;
    arena.deallocate(third);
    ASSERT_EQ(arena.free_chunks(), 1u) << i;
    ASSERT_EQ(arena.allocate({2048, 2048}), third);
  }
  arena.deallocate(third);
  EXPECT_EQ(arena.free_chunks(), 0u) << "the chunk is cached again";
  EXPECT_TRUE(arena.audit().empty());
}

TEST(CachingArena, ReusesFreedMemoryOfALargeBlockBeforeTheUnusedRest) {
  fast_fit arena;
  arena.reserve();
  auto const first = arena.allocate_in({1 << 20, 1 << 20}, {4096, 4096});
  for (int i = 0; i < 3; ++i) (void)arena.allocate({4096, 4096});
  for (std::uint64_t i = 0; i < 4; ++i) arena.deallocate(first + i * 4096);
  EXPECT_EQ(arena.free_chunks(), 1u) << "the four chunks are cached";
  EXPECT_EQ(arena.allocate({16384, 16384}), first);
  EXPECT_TRUE(arena.audit().empty());
}

TEST(CachingArena, KeepsCachedChunksIfHalfOfTheMemoryWasUsed) {
  fast_fit arena;
  arena.reserve();
  auto const first = arena.allocate_in({1 << 16, 1 << 16}, {4096, 4096});
  for (int i = 0; i < 9; ++i) (void)arena.allocate({4096, 4096});
  for (std::uint64_t i = 0; i < 4; ++i) arena.deallocate(first + i * 4096);
  EXPECT_EQ(arena.allocate({8192, 8192}), first + 10 * 4096);
  EXPECT_EQ(arena.allocate({4096, 4096}), first + 3 * 4096) << "the chunk freed last is cached";
  EXPECT_TRUE(arena.audit().empty());
}

/// A program whose sizes change from phase to phase, over a block of a gigabyte.
TEST(CachingArena, UsesLittleOfALargeBlockBeyondThePeak) {
  constexpr std::uint64_t block = 1 << 30;
  fast_fit arena;
  arena.reserve();
  std::minstd_rand random{1};
  std::vector<std::uint64_t> allocated{arena.allocate_in({block, block}, {16, 16})};
  bytes in_use = 16, peak = 0, end = 0;
  for (bytes largest = 65'536; largest > 1000; largest -= largest / 4) {
    for (int i = 0; i < 200; ++i) {
      bytes const size = (largest - random() % (largest / 8)) & ~bytes{15};
      auto const base = arena.allocate({size, size}).value();
      allocated.push_back(base);
      peak = std::max(peak, in_use += size);
      end = std::max(end, base + size - block);
    }
    std::shuffle(allocated.begin(), allocated.end(), random);
    for (; allocated.size() > 20; allocated.pop_back())
      in_use -= arena.deallocate(allocated.back()).requested;
  }
  EXPECT_LT(end, peak + peak / 2);
  EXPECT_TRUE(arena.audit().empty());
}

TEST(CachingArena, CachesNothingAfterCachingIsDisabled) {
  fast_fit arena;
  arena.disable_caching();
  arena.reserve();
  auto const base = arena.allocate_in({4096, 4096}, {1000, 1008});
  EXPECT_EQ(arena.size_of_cut(1008), 1008u);
  EXPECT_FALSE(arena.deallocate_to_cache(base).has_value());
  EXPECT_EQ(arena.deallocate(base).requested, 1000u);
  EXPECT_EQ(arena.releasable_blocks(), 1u) << "the chunk is merged at once";
  EXPECT_TRUE(arena.audit().empty());
}

}  // namespace caching_arena_test
}  // namespace quarry::test
