// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/chunk_arena.hpp"

#include "quarry/host/detail/owned_arena.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {

using namespace detail;
namespace chunk_arena_test {

/// An arena with owners as an arena whose chunks are all common.
struct common_arena : owned_arena {
  using owned_arena::owned_arena;
  std::optional<std::uint64_t> allocate(chunk_sizes size) {
    if (auto const base = owned_arena::allocate(size, 0)) return base;
    cover(0);
    return merge_cached(0) ? owned_arena::allocate(size, 0) : std::nullopt;
  }
  chunk_sizes deallocate(std::uint64_t base) { return owned_arena::deallocate(base, 0); }
};

template <class Arena>
struct ChunkArena : testing::Test {
  Arena arena;

  std::uint64_t take(bytes size) { return arena.allocate({size, size}).value_or(0); }
};
TYPED_TEST_SUITE(ChunkArena, all_placements<common_arena>, placement_case_names);

TYPED_TEST(ChunkArena, AllocatesNothingWithoutABlock) {
  EXPECT_FALSE(this->arena.allocate({16, 16}).has_value());
  EXPECT_TRUE(this->arena.audit().empty());
}

TYPED_TEST(ChunkArena, SplitsAChunkAndMergesItWithBothNeighbours) {
  this->arena.reserve();
  auto const first = this->arena.allocate_in({4096, 256}, {16, 16});
  auto const second = this->take(32);
  auto const third = this->take(48);
  EXPECT_EQ(first, 4096u);
  EXPECT_EQ(second, 4112u);
  EXPECT_EQ(third, 4144u);
  EXPECT_TRUE(this->arena.deallocate(first));
  EXPECT_TRUE(this->arena.deallocate(third));
  EXPECT_TRUE(this->arena.deallocate(second));
  EXPECT_EQ(this->arena.in_use(), 0u);
  EXPECT_TRUE(this->arena.audit().empty());
  EXPECT_EQ(this->take(256), 4096u);
}

TYPED_TEST(ChunkArena, RefusesADoubleFreeAndAnInteriorAddressAndChangesNothing) {
  this->arena.reserve();
  auto const first = this->arena.allocate_in({4096, 256}, {64, 64});
  EXPECT_FALSE(this->arena.deallocate(first + 16));
  EXPECT_FALSE(this->arena.deallocate(0));
  EXPECT_TRUE(this->arena.deallocate(first));
  EXPECT_FALSE(this->arena.deallocate(first));
  EXPECT_EQ(this->arena.in_use(), 0u);
  EXPECT_TRUE(this->arena.audit().empty());
}

TYPED_TEST(ChunkArena, NeverMergesAcrossBlocksEvenIfTheyTouch) {
  this->arena.reserve();
  auto const first = this->arena.allocate_in({4096, 64}, {64, 64});
  this->arena.reserve();
  auto const second = this->arena.allocate_in({4160, 64}, {64, 64});
  this->arena.deallocate(first);
  this->arena.deallocate(second);
  EXPECT_FALSE(this->arena.allocate({128, 128}).has_value());
  if constexpr (!std::is_same_v<TypeParam, common_arena>) {
    EXPECT_EQ(this->arena.releasable_blocks(), 2u) << "the cached chunks are merged by now";
  }
  std::vector<std::uint64_t> released;
  this->arena.release([&](auto const& block) { released.push_back(block.base); });
  EXPECT_EQ(released, (std::vector<std::uint64_t>{4096, 4160}));
  EXPECT_EQ(this->arena.reserved(), 0u);
  EXPECT_TRUE(this->arena.audit().empty());
}

TYPED_TEST(ChunkArena, ReleasesNoBlockInUse) {
  this->arena.reserve();
  auto const kept = this->arena.allocate_in({4096, 64}, {16, 16});
  this->arena.reserve();
  this->arena.deallocate(this->arena.allocate_in({8192, 128}, {128, 128}));
  this->arena.release([](auto const& block) { EXPECT_EQ(block.base, 8192u); });
  EXPECT_EQ(this->arena.reserved(), 64u);
  EXPECT_EQ(this->arena.size_of(kept)->requested, 16u);
}

/// Compares the arena with a map of the allocations. Allocations do not overlap, each allocation
/// lies in one block, and the arena remembers all sizes.
TYPED_TEST(ChunkArena, AgreesWithAMapOfAllocations) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    TypeParam tested;
    std::map<std::uint64_t, bytes> in_use, blocks;
    std::uint64_t next_block = 1 << 20;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0 && !in_use.empty()) {
        auto const victim =
            std::next(in_use.begin(), static_cast<std::ptrdiff_t>(random() % in_use.size()));
        auto const size = tested.deallocate(victim->first);
        ASSERT_TRUE(size);
        ASSERT_EQ(size.granted, victim->second);
        in_use.erase(victim);
      } else if (random() % 50 == 0) {
        tested.release([&](auto const& freed) { blocks.erase(freed.base); });
      } else {
        bytes const size = (random() % (random() % 100 + 1) + 1) * 16;
        auto found = tested.allocate({size - random() % 16, size});
        if (!found) {
          bytes const block_size = size + random() % 1000 * 16;
          blocks[next_block] = block_size;
          tested.reserve();
          found = tested.allocate_in({next_block, block_size}, {size, size});
          next_block += block_size + (random() % 2) * 4096;
        }
        auto const next = in_use.lower_bound(*found);
        ASSERT_TRUE(next == in_use.end() ||
                    *found + tested.size_of(*found)->granted <= next->first);
        if (next != in_use.begin()) {
          ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *found);
        }
        auto const block = std::prev(blocks.upper_bound(*found));
        ASSERT_LE(*found + size, block->first + block->second);
        bytes const granted = tested.size_of(*found)->granted;
        ASSERT_GE(granted, size);
        ASSERT_LE(granted, size + size / 8 + 16) << "the chunk wastes too much";
        in_use[*found] = granted;
      }
      if (step % 16 == 0) {
        ASSERT_TRUE(tested.audit().empty()) << tested.audit().front();
      }
    }
    EXPECT_EQ(tested.allocated(), in_use.size());
    EXPECT_EQ(tested.blocks(), blocks.size());
  }
}

TEST(OldestBestFit, TakesTheSmallestChunkThatFitsAndTheOldestOfEqualSize) {
  chunk_arena<oldest_best_fit> arena;
  std::vector<std::uint64_t> chunks;
  for (std::uint64_t const base : {3000u, 1000u, 2000u}) {
    arena.reserve();
    chunks.push_back(arena.allocate_in({base * 16, base == 1000 ? 32u : 64u}, {16, 16}));
    auto const remainder = base == 1000 ? bytes{16} : bytes{48};
    (void)arena.allocate({remainder, remainder});
  }
  for (auto const each : {chunks[2], chunks[0]}) arena.deallocate(each);
  EXPECT_EQ(arena.allocate({16, 16}), chunks[2]) << "this chunk became free first";
}

TEST(LowestBestFit, TakesTheLowestChunkOfEqualSize) {
  chunk_arena<lowest_best_fit> arena;
  arena.reserve();
  auto const high = arena.allocate_in({1 << 20, 32}, {32, 32});
  arena.reserve();
  auto const low = arena.allocate_in({1 << 10, 32}, {32, 32});
  arena.deallocate(high);
  arena.deallocate(low);
  EXPECT_EQ(arena.allocate({32, 32}), low);
}

TEST(SegregatedFit, FindsAFreeChunkThatIsAThirtySecondLargerThanTheRequest) {
  std::mt19937_64 random{1};
  for (int round = 0; round < 2000; ++round) {
    chunk_arena<segregated_fit> arena;
    bytes const size = (random() >> (random() % 44 + 19)) / 16 * 16 + 16;
    bytes const larger = (size + size / 32 + 31) / 16 * 16;
    arena.reserve();
    arena.deallocate(arena.allocate_in({1 << 20, larger}, {16, 16}));
    EXPECT_TRUE(arena.allocate({size, size}).has_value()) << size;
  }
}

}  // namespace chunk_arena_test
}  // namespace quarry::test
