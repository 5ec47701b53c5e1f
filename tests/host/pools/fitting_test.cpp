// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/fitting.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace fitting_test {

template <class Strategy>
struct Fitting : testing::Test {
  Strategy strategy;

  std::uint64_t take(bytes size) {
    auto const found = strategy.allocate({size, size});
    return found ? *found : 0;
  }
};
using strategies = testing::Types<fitting<oldest_best_fit>, fitting<lowest_best_fit>,
                                  fitting<segregated_fit>, fast_fit>;
struct strategy_names {
  template <class Strategy>
  static std::string GetName(int i) {
    return i == 0   ? "oldest_best_fit"
           : i == 1 ? "lowest_best_fit"
           : i == 2 ? "segregated_fit"
                    : "fast_fit";
  }
};
TYPED_TEST_SUITE(Fitting, strategies, strategy_names);

TYPED_TEST(Fitting, HasNothingToGiveWithoutABlock) {
  EXPECT_FALSE(this->strategy.allocate({16, 16}).has_value());
  EXPECT_TRUE(this->strategy.audit().empty());
}

TYPED_TEST(Fitting, SplitsAChunkAndMergesItWithBothNeighbours) {
  this->strategy.reserve();
  auto const first = this->strategy.allocate_in({4096, 256}, {16, 16});
  auto const second = this->take(32);
  auto const third = this->take(48);
  EXPECT_EQ(first, 4096u);
  EXPECT_EQ(second, 4112u);
  EXPECT_EQ(third, 4144u);
  EXPECT_TRUE(this->strategy.deallocate(first));
  EXPECT_TRUE(this->strategy.deallocate(third));
  EXPECT_TRUE(this->strategy.deallocate(second));
  EXPECT_EQ(this->strategy.in_use(), 0u);
  EXPECT_TRUE(this->strategy.audit().empty());
  EXPECT_EQ(this->take(256), 4096u);
}

TYPED_TEST(Fitting, RefusesADoubleFreeAndAnInteriorAddressAndChangesNothing) {
  this->strategy.reserve();
  auto const first = this->strategy.allocate_in({4096, 256}, {64, 64});
  EXPECT_FALSE(this->strategy.deallocate(first + 16));
  EXPECT_FALSE(this->strategy.deallocate(0));
  EXPECT_TRUE(this->strategy.deallocate(first));
  EXPECT_FALSE(this->strategy.deallocate(first));
  EXPECT_EQ(this->strategy.in_use(), 0u);
  EXPECT_TRUE(this->strategy.audit().empty());
}

TYPED_TEST(Fitting, NeverMergesAcrossBlocksEvenIfTheyTouch) {
  this->strategy.reserve();
  auto const first = this->strategy.allocate_in({4096, 64}, {64, 64});
  this->strategy.reserve();
  auto const second = this->strategy.allocate_in({4160, 64}, {64, 64});
  this->strategy.deallocate(first);
  this->strategy.deallocate(second);
  EXPECT_FALSE(this->strategy.allocate({128, 128}).has_value());
  EXPECT_EQ(this->strategy.releasable_blocks(), 2u) << "what was set aside is free by now";
  std::vector<std::uint64_t> given;
  this->strategy.release([&](auto const& block) { given.push_back(block.base); });
  EXPECT_EQ(given, (std::vector<std::uint64_t>{4096, 4160}));
  EXPECT_EQ(this->strategy.reserved(), 0u);
  EXPECT_TRUE(this->strategy.audit().empty());
}

TYPED_TEST(Fitting, ReleasesNoBlockOfWhichAnythingIsInUse) {
  this->strategy.reserve();
  auto const kept = this->strategy.allocate_in({4096, 64}, {16, 16});
  this->strategy.reserve();
  this->strategy.deallocate(this->strategy.allocate_in({8192, 128}, {128, 128}));
  this->strategy.release([](auto const& block) { EXPECT_EQ(block.base, 8192u); });
  EXPECT_EQ(this->strategy.reserved(), 64u);
  EXPECT_EQ(this->strategy.size_of(kept)->requested, 16u);
}

/// Against a model that knows only what is in use: nothing overlaps, nothing leaves its block, all
/// sizes are remembered.
TYPED_TEST(Fitting, AgreesWithAListOfWhatIsInUse) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    TypeParam tried;
    std::map<std::uint64_t, bytes> in_use, blocks;
    std::uint64_t next_block = 1 << 20;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0 && !in_use.empty()) {
        auto const victim =
            std::next(in_use.begin(), static_cast<std::ptrdiff_t>(random() % in_use.size()));
        auto const size = tried.deallocate(victim->first);
        ASSERT_TRUE(size);
        ASSERT_EQ(size.granted, victim->second);
        in_use.erase(victim);
      } else if (random() % 50 == 0) {
        tried.release([&](auto const& freed) { blocks.erase(freed.base); });
      } else {
        bytes const size = (random() % (random() % 100 + 1) + 1) * 16;
        auto found = tried.allocate({size - random() % 16, size});
        if (!found) {
          bytes const block_size = size + random() % 1000 * 16;
          blocks[next_block] = block_size;
          tried.reserve();
          found = tried.allocate_in({next_block, block_size}, {size, size});
          next_block += block_size + (random() % 2) * 4096;
        }
        auto const after = in_use.lower_bound(*found);
        ASSERT_TRUE(after == in_use.end() ||
                    *found + tried.size_of(*found)->granted <= after->first);
        if (after != in_use.begin()) {
          ASSERT_LE(std::prev(after)->first + std::prev(after)->second, *found);
        }
        auto const block = std::prev(blocks.upper_bound(*found));
        ASSERT_LE(*found + size, block->first + block->second);
        bytes const holds = tried.size_of(*found)->granted;
        ASSERT_GE(holds, size);
        ASSERT_LE(holds, size + size / 8 + 16) << "waste";
        in_use[*found] = holds;
      }
      if (step % 16 == 0) {
        ASSERT_TRUE(tried.audit().empty()) << tried.audit().front();
      }
    }
    EXPECT_EQ(tried.allocated(), in_use.size());
    EXPECT_EQ(tried.blocks(), blocks.size());
  }
}

TEST(FastFit, GivesTheNextRequestOfASizeWhatWasGivenBackLast) {
  fast_fit strategy;
  strategy.reserve();
  auto const first = strategy.allocate_in({4096, 4096}, {30, 32});
  auto const second = strategy.allocate({32, 32}).value();
  (void)strategy.allocate({32, 32});
  strategy.deallocate(first);
  strategy.deallocate(second);
  EXPECT_FALSE(strategy.deallocate(second)) << "is set aside, not in use";
  EXPECT_FALSE(strategy.size_of(second).has_value());
  EXPECT_EQ(strategy.allocated(), 1u);
  EXPECT_EQ(strategy.allocate({17, 32}), second);
  EXPECT_EQ(strategy.size_of(second)->requested, 17u);
  EXPECT_TRUE(strategy.audit().empty());
}

/// Two chunks that nobody takes again, and a request that needs both: the next frees merge at once.
TEST(FastFit, SetsNothingAsideForAWhileWhereSizesDoNotComeBack) {
  fast_fit strategy;
  strategy.reserve();
  auto const first = strategy.allocate_in({4096, 4096}, {1024, 1024});
  auto const second = strategy.allocate({1024, 1024}).value();
  auto const third = strategy.allocate({2048, 2048}).value();
  strategy.deallocate(first);
  strategy.deallocate(second);
  EXPECT_EQ(strategy.free_chunks(), 0u) << "both are aside";
  EXPECT_EQ(strategy.allocate({2048, 2048}), first) << "they did not pay";
  for (int i = 0; i < 2 * 128; ++i) {
    ASSERT_EQ(strategy.free_chunks(), 0u) << i;
    strategy.deallocate(third);
    ASSERT_EQ(strategy.free_chunks(), 1u) << i;
    ASSERT_EQ(strategy.allocate({2048, 2048}), third);
  }
  strategy.deallocate(third);
  EXPECT_EQ(strategy.free_chunks(), 0u) << "is aside again";
  EXPECT_TRUE(strategy.audit().empty());
}

TEST(OldestBestFit, TakesTheSmallestThatFitsAndOfEqualsTheOldest) {
  fitting<oldest_best_fit> strategy;
  std::vector<std::uint64_t> chunks;
  for (std::uint64_t const base : {3000u, 1000u, 2000u}) {
    strategy.reserve();
    chunks.push_back(strategy.allocate_in({base * 16, base == 1000 ? 32u : 64u}, {16, 16}));
    auto const rest = base == 1000 ? bytes{16} : bytes{48};
    (void)strategy.allocate({rest, rest});
  }
  for (auto const one : {chunks[2], chunks[0]}) strategy.deallocate(one);
  EXPECT_EQ(strategy.allocate({16, 16}), chunks[2]) << "became free first";
}

TEST(LowestBestFit, TakesOfEqualsTheLowest) {
  fitting<lowest_best_fit> strategy;
  strategy.reserve();
  auto const high = strategy.allocate_in({1 << 20, 32}, {32, 32});
  strategy.reserve();
  auto const low = strategy.allocate_in({1 << 10, 32}, {32, 32});
  strategy.deallocate(high);
  strategy.deallocate(low);
  EXPECT_EQ(strategy.allocate({32, 32}), low);
}

TEST(SegregatedFit, FindsAChunkOfAnySizeIfOneIsAThirtySecondLarger) {
  std::mt19937_64 random{1};
  for (int round = 0; round < 2000; ++round) {
    fitting<segregated_fit> strategy;
    bytes const size = (random() >> (random() % 44 + 19)) / 16 * 16 + 16;
    bytes const larger = (size + size / 32 + 31) / 16 * 16;
    strategy.reserve();
    strategy.deallocate(strategy.allocate_in({1 << 20, larger}, {16, 16}));
    EXPECT_TRUE(strategy.allocate({size, size}).has_value()) << size;
  }
}

}  // namespace fitting_test
}  // namespace quarry::test
