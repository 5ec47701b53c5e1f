// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/pool.hpp"

#include "quarry/host/resources/simulated_resource.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace quarry::test {
namespace pool_test {

using namespace quarry::literals;

template <class Strategy>
struct Pool : testing::Test {};
TYPED_TEST_SUITE(Pool, all_placements<>, placement_case_names);

pool_options const small{.first_block = 4096, .next_block = 1024, .growth_percent = 0};

TYPED_TEST(Pool, TakesABlockWhenNoChunkFitsAndKeepsItWhenItIsFree) {
  pool<simulated_resource, TypeParam> source{simulated_resource{}, small};
  void* const first = source.allocate(100);
  EXPECT_EQ(source.counts().reserved, 4096u);
  EXPECT_EQ(source.counts().allocated, 100u);
  EXPECT_EQ(source.counts().granted, 112u);
  void* const second = source.allocate(5105);
  EXPECT_EQ(source.counts().reserved, 4096u + 5120u);
  EXPECT_TRUE(source.deallocate(first));
  EXPECT_TRUE(source.deallocate(second));
  EXPECT_EQ(source.counts().reserved, 4096u + 5120u);
  EXPECT_EQ(source.counts().peak_allocated, 5205u);
  source.release();
  EXPECT_EQ(source.counts().reserved, 0u);
  EXPECT_EQ(source.resource().reserved(), 0u);
}

TYPED_TEST(Pool, GivesEachAllocationOfZeroBytesItsOwnAddress) {
  pool<simulated_resource, TypeParam> source{simulated_resource{}, small};
  void* const first = source.allocate(0);
  void* const second = source.allocate(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(source.size_of(first), 0u);
  EXPECT_TRUE(source.deallocate(first));
  EXPECT_TRUE(source.deallocate(second));
  EXPECT_TRUE(source.deallocate(nullptr));
  EXPECT_EQ(source.counts().invalid_frees, 0u);
}

TYPED_TEST(Pool, RefusesAndCountsInvalidFrees) {
  pool<simulated_resource, TypeParam> source{simulated_resource{}, small};
  auto* const memory = static_cast<char*>(source.allocate(64));
  EXPECT_FALSE(source.deallocate(memory + 16));
  EXPECT_TRUE(source.deallocate(memory));
  EXPECT_FALSE(source.deallocate(memory));
  EXPECT_EQ(source.counts().invalid_frees, 2u);
  EXPECT_EQ(source.counts().allocated, 0u);
  EXPECT_TRUE(source.audit().empty());
}

TYPED_TEST(Pool, AFailedAllocationLeavesEveryCountAsItWas) {
  pool<simulated_resource, TypeParam> source{simulated_resource{10'000}, small};
  void* const memory = source.allocate(3000);
  auto const counts_before = source.counts();
  EXPECT_THROW((void)source.allocate(9000), out_of_memory);
  EXPECT_THROW((void)source.allocate(~bytes{0}), out_of_memory);
  auto const counts_after = source.counts();
  EXPECT_EQ(counts_after.allocated, counts_before.allocated);
  EXPECT_EQ(counts_after.allocations, counts_before.allocations);
  EXPECT_EQ(counts_after.peak_allocated, counts_before.peak_allocated);
  EXPECT_EQ(counts_after.reserved, counts_before.reserved);
  EXPECT_EQ(counts_after.blocks_allocated, counts_before.blocks_allocated);
  EXPECT_TRUE(source.audit().empty());
  EXPECT_TRUE(source.deallocate(memory));
}

TYPED_TEST(Pool, ReturnsFreeBlocksBeforeItThrowsOutOfMemory) {
  pool<simulated_resource, TypeParam> source{simulated_resource{10'000}, small};
  source.deallocate(source.allocate(4000));
  void* const large = source.allocate(9210);
  EXPECT_EQ(source.counts().reserved, 9216u);
  EXPECT_TRUE(source.deallocate(large));
}

TYPED_TEST(Pool, AFreeWhoseCoalescingGetsNoBlockKeepsThePoolConsistent) {
  pool_options options = small;
  options.first_block = 1024;
  options.coalesce = heuristic::blocks_releasable(2).to_high_water();
  pool<simulated_resource, TypeParam> source{simulated_resource{3000}, options};
  void* const first = source.allocate(1000);
  void* const second = source.allocate(1000);
  source.resource().limit(0);
  EXPECT_TRUE(source.deallocate(first));
  EXPECT_TRUE(source.deallocate(second));
  EXPECT_EQ(source.counts().allocated, 0u);
  EXPECT_EQ(source.counts().coalesces, 0u);
  EXPECT_TRUE(source.audit().empty());
}

TYPED_TEST(Pool, CoalescesWhenItsHeuristicFires) {
  pool_options options = small;
  options.first_block = 1024;
  options.coalesce = heuristic::blocks_releasable(3);
  pool<simulated_resource, TypeParam> source{simulated_resource{}, options};
  std::vector<void*> reserved;
  for (int i = 0; i < 4; ++i) reserved.push_back(source.allocate(1000));
  EXPECT_EQ(source.counts().blocks_allocated, 4u);
  source.deallocate(reserved[0]);
  source.deallocate(reserved[2]);
  EXPECT_EQ(source.counts().coalesces, 0u);
  source.deallocate(reserved[1]);
  EXPECT_EQ(source.counts().coalesces, 1u);
  EXPECT_EQ(source.counts().releasable_blocks, 1u);
  EXPECT_EQ(source.counts().reserved, 4096u);
  (void)source.allocate(3000);
  EXPECT_EQ(source.counts().blocks_allocated, 5u) << "the request fits into the coalesced block";
}

TYPED_TEST(Pool, SearchesAgainAfterCoalescingBeforeItGrows) {
  pool_options options = small;
  options.first_block = 1024;
  options.coalesce = heuristic::blocks_releasable(2).before_growth();
  pool<simulated_resource, TypeParam> source{simulated_resource{}, options};
  std::vector<void*> reserved;
  for (int i = 0; i < 3; ++i) reserved.push_back(source.allocate(1000));
  source.deallocate(reserved[0]);
  source.deallocate(reserved[1]);
  (void)source.allocate(2000);
  EXPECT_EQ(source.counts().reserved, 3072u);
  EXPECT_EQ(source.counts().coalesces, 1u);
}

TYPED_TEST(Pool, EnforcesItsLimit) {
  pool_options options = small;
  options.max_bytes = 6000;
  pool<simulated_resource, TypeParam> source{simulated_resource{}, options};
  (void)source.allocate(4000);
  (void)source.allocate(1500);
  (void)source.allocate(300);
  EXPECT_EQ(source.counts().reserved, 6000u) << "the last block is as large as the limit allows";
  EXPECT_THROW((void)source.allocate(2000), out_of_memory);
}

TYPED_TEST(Pool, RefusesBlocksThatNoResourceCanServe) {
  pool_options options = small;
  options.first_block = ~bytes{0};
  EXPECT_THROW((pool<simulated_resource, TypeParam>{simulated_resource{}, options}), bad_argument);
  options = small;
  options.growth_percent = 5000;
  EXPECT_THROW((pool<simulated_resource, TypeParam>{simulated_resource{}, options}), bad_argument);
}

TYPED_TEST(Pool, RefusesAnInvalidAlignment) {
  for (bytes const alignment : {0u, 8u, 24u, 1u << 15}) {
    pool_options options = small;
    options.alignment = alignment;
    EXPECT_THROW((pool<simulated_resource, TypeParam>{simulated_resource{}, options}), bad_argument)
        << alignment;
  }
}

TYPED_TEST(Pool, ServesMoreAlignmentThanItsOwn) {
  pool<simulated_resource, TypeParam> source{simulated_resource{}, small};
  std::mt19937 random{11};
  std::map<std::uintptr_t, bytes> allocated;
  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0 && !allocated.empty()) {
      auto const chosen =
          std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
      ASSERT_EQ(source.size_of(reinterpret_cast<void*>(chosen->first)), chosen->second);
      ASSERT_TRUE(source.deallocate(reinterpret_cast<void*>(chosen->first)));
      allocated.erase(chosen);
      continue;
    }
    bytes const size = random() % 700, alignment = bytes{1} << random() % 14;
    auto const at = reinterpret_cast<std::uintptr_t>(source.allocate(size, alignment));
    ASSERT_EQ(at % alignment, 0u);
    auto const next = allocated.lower_bound(at);
    ASSERT_TRUE(next == allocated.end() || at + size <= next->first);
    ASSERT_TRUE(next == allocated.begin() ||
                std::prev(next)->first + std::prev(next)->second <= at);
    allocated[at] = size;
    if (step % 50 == 0) {
      ASSERT_EQ(source.audit(), std::vector<std::string>{});
    }
  }
  bytes sum = 0;
  for (auto const& [at, size] : allocated) sum += size;
  EXPECT_EQ(source.counts().allocated, sum);
  for (auto const& [at, size] : allocated) source.deallocate(reinterpret_cast<void*>(at));
  EXPECT_EQ(source.audit(), std::vector<std::string>{});
  source.release();
  EXPECT_EQ(source.counts().reserved, 0u);
}

TYPED_TEST(Pool, FreesTheRemainderOfAnAlignedAllocation) {
  pool<simulated_resource, TypeParam> source{simulated_resource{}, small};
  (void)source.allocate(16);
  void* const memory = source.allocate(100, 1024);
  EXPECT_EQ(source.counts().granted, 16u + 112u);
  EXPECT_TRUE(source.deallocate(memory));
  EXPECT_EQ(source.allocate(100, 1024), memory);
  EXPECT_EQ(source.counts().reserved, 4096u);
}

TYPED_TEST(Pool, RefusesAnAlignmentThatNoResourceCanServe) {
  pool<simulated_resource, TypeParam> source{simulated_resource{}, small};
  for (bytes const alignment : {0u, 3u, 24u, 4097u})
    EXPECT_THROW((void)source.allocate(8, alignment), bad_argument) << alignment;
  EXPECT_THROW((void)source.allocate(8, bytes{1} << 60), out_of_memory);
  EXPECT_THROW((void)source.allocate(bytes{1} << 46, 4096), out_of_memory);
  EXPECT_EQ(source.counts().allocated, 0u);
  EXPECT_EQ(source.counts().allocations, 0u);
}

/// The n-th request to the resource fails. The pool loses no memory, stays consistent, and finally
/// returns all memory.
TYPED_TEST(Pool, SurvivesAFailureOfAnyRequestToItsResource) {
  for (std::uint64_t failing = 1; failing <= 30; ++failing) {
    struct failing_resource : simulated_resource {
      std::uint64_t* requested;
      std::uint64_t nth;
      void* allocate(bytes size, bytes alignment) {
        if (++*requested == nth && nth % 2 == 0)
          throw resource_failed{"failing_resource", "on purpose"};
        if (*requested == nth) throw out_of_memory{"failing_resource", size, "on purpose"};
        return simulated_resource::allocate(size, alignment);
      }
    };
    std::uint64_t requested = 0;
    pool_options options = small;
    options.coalesce = heuristic::blocks_releasable(2).to_high_water();
    pool<failing_resource, TypeParam> source{
        failing_resource{simulated_resource{}, &requested, failing}, options};
    std::mt19937 random{static_cast<std::uint32_t>(failing)};
    std::vector<std::pair<void*, bytes>> reserved;
    bytes allocated = 0;
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0 && !reserved.empty()) {
        std::swap(reserved[random() % reserved.size()], reserved.back());
        ASSERT_EQ(source.size_of(reserved.back().first), reserved.back().second);
        ASSERT_TRUE(source.deallocate(reserved.back().first));
        allocated -= reserved.back().second;
        reserved.pop_back();
        continue;
      }
      bytes const size = random() % 3000;
      try {
        reserved.emplace_back(source.allocate(size), size);
        allocated += size;
      } catch (error const&) {
      }
      ASSERT_EQ(source.counts().allocated, allocated);
      ASSERT_EQ(source.counts().reserved, source.resource().reserved());
      ASSERT_TRUE(source.audit().empty()) << source.audit().front();
    }
    for (auto const& [pointer, size] : reserved) ASSERT_TRUE(source.deallocate(pointer));
    ASSERT_TRUE(source.audit().empty()) << source.audit().front();
    source.release();
    EXPECT_EQ(source.counts().reserved, 0u);
  }
}

TEST(Pool, ReturnsBlocksThatWereUnusedForShrinkAfterFrees) {
  pool<simulated_resource> source{
      simulated_resource{},
      {.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .shrink_after = 100}};
  std::vector<void*> pointers;
  for (int i = 0; i < 10; ++i) pointers.push_back(source.allocate(1_MiB));
  for (void* const each : pointers) source.deallocate(each);
  EXPECT_EQ(source.counts().reserved, 10_MiB);
  for (int i = 0; i < 90; ++i) source.deallocate(source.allocate(500_KiB));
  EXPECT_EQ(source.counts().reserved, 10_MiB) << "all blocks were in use once in this period";
  for (int i = 0; i < 100; ++i) source.deallocate(source.allocate(500_KiB));
  EXPECT_EQ(source.counts().reserved, 1_MiB);
  EXPECT_EQ(source.counts().blocks_returned, 9u);
  EXPECT_TRUE(source.audit().empty());
}

/// The cost of coalescing and the cost of idle memory stay within a constant factor of each other
/// for any sequence of calls.
TEST(Pool, CoalescesWhenTheHoldingCostReachesThePrice) {
  constexpr std::uint32_t price = 64;
  pool<simulated_resource> source{simulated_resource{},
                                  {.first_block = 1_MiB,
                                   .next_block = 1_MiB,
                                   .growth_percent = 0,
                                   .coalesce = heuristic::by_cost(price)}};
  std::vector<void*> pointers;
  for (int i = 0; i < 4; ++i) pointers.push_back(source.allocate(1_MiB));
  for (void* const each : pointers) source.deallocate(each);
  EXPECT_EQ(source.counts().coalesces, 0u) << "the pool held 1, 2, 3 and 4 MiB, each for one free";
  double reserved = 10;
  while (source.counts().coalesces == 0) {
    source.deallocate(source.allocate(16));
    reserved += 4;
    ASSERT_LE(reserved, price + 4);
  }
  EXPECT_GE(reserved, price);
  EXPECT_EQ(source.counts().reserved, 4_MiB);
  void* const coalesced = source.allocate(4_MiB);
  EXPECT_EQ(source.counts().reserved, 4_MiB) << "the memory is one block";
  source.deallocate(coalesced);
}

TEST(Pool, CoalescesByCostBeforeGrowth) {
  pool<simulated_resource> source{simulated_resource{},
                                  {.first_block = 1_MiB,
                                   .next_block = 1_MiB,
                                   .growth_percent = 0,
                                   .coalesce = heuristic::by_cost(8).before_growth()}};
  std::vector<void*> pointers;
  for (int i = 0; i < 8; ++i) pointers.push_back(source.allocate(1_MiB));
  for (void* const each : pointers) source.deallocate(each);
  EXPECT_EQ(source.counts().coalesces, 0u);
  (void)source.allocate(2_MiB);
  EXPECT_EQ(source.counts().coalesces, 1u);
  EXPECT_EQ(source.counts().reserved, 8_MiB);
}

/// The array is a block of its own. The freed array serves the next request of its size, and other
/// cached chunks stay cached.
TEST(Pool, ServesALargeOddSizeAgainWithoutMerging) {
  pool<simulated_resource> source{simulated_resource{},
                                  {.first_block = 1_MiB, .next_block = 1_MiB}};
  void* const little = source.allocate(100);
  void* const kept = source.allocate(100);
  void* large = source.allocate(100'000'000);
  source.deallocate(little);
  for (int i = 0; i < 3; ++i) {
    source.deallocate(large);
    void* const reused = source.allocate(100'000'000);
    EXPECT_EQ(reused, large);
    large = reused;
  }
  EXPECT_EQ(source.counts().blocks_allocated, 2u);
  EXPECT_EQ(source.allocate(100), little) << "the small chunk was merged";
  source.deallocate(kept);
  EXPECT_TRUE(source.audit().empty());
}

}  // namespace pool_test
}  // namespace quarry::test
