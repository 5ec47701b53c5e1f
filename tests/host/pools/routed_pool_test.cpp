// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/routed_pool.hpp"

#include "quarry/core/bytes.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/statistics_resource.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace quarry {
namespace routed_pool_test {

using namespace quarry::literals;
using simulated_routes = routed_pool<simulated_resource>;

routing_table small_and_large() { return routing_table{{{1, 0, 1000, ""}}}; }

pool_options megabytes(bytes limit = no_limit) {
  return {.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .max_bytes = limit};
}

TEST(RoutedPool, EachPoolHasBlocksOfItsOwn) {
  simulated_routes memory{simulated_resource{}, small_and_large(), megabytes()};
  void* const small = memory.allocate(100);
  void* const large = memory.allocate(5000);
  EXPECT_EQ(memory.counts_of(0).allocated, 5000u);
  EXPECT_EQ(memory.counts_of(1).allocated, 100u);
  EXPECT_EQ(memory.counts().reserved, 2_MiB);
  EXPECT_TRUE(memory.deallocate(small));
  EXPECT_TRUE(memory.deallocate(large));
  EXPECT_EQ(memory.counts().allocated, 0u);
  EXPECT_EQ(memory.counts().peak_allocated, 5100u);
}

TEST(RoutedPool, UsesTheRoutesOfThePresentPhase) {
  simulated_routes memory{simulated_resource{}, routing_table{{{.pool = 1, .phase = "solve"}}},
                          megabytes()};
  (void)memory.allocate(10);
  memory.begin_phase("solve");
  (void)memory.allocate(200);
  memory.begin_phase("write");
  (void)memory.allocate(3000);
  EXPECT_EQ(memory.counts_of(0).allocated, 3010u);
  EXPECT_EQ(memory.counts_of(1).allocated, 200u);
}

TEST(RoutedPool, RefusesFreesOfOtherMemoryAndChangesNothing) {
  simulated_routes memory{simulated_resource{}, small_and_large(), megabytes()};
  auto* const used = static_cast<char*>(memory.allocate(100));
  EXPECT_FALSE(memory.deallocate(used + 16));
  EXPECT_FALSE(memory.deallocate(reinterpret_cast<void*>(16)));
  EXPECT_TRUE(memory.deallocate(nullptr));
  EXPECT_TRUE(memory.deallocate(used));
  EXPECT_FALSE(memory.deallocate(used)) << "a double free";
  EXPECT_EQ(memory.counts().invalid_frees, 3u);
  EXPECT_EQ(memory.counts().allocated, 0u);
  EXPECT_THROW((void)memory.allocate_from(2, 1), bad_argument);
}

TEST(RoutedPool, KnowsTheSizesOfAllPoolsAndAuditsThem) {
  simulated_routes memory{simulated_resource{}, small_and_large(), megabytes()};
  auto* const small = static_cast<char*>(memory.allocate(100));
  void* const large = memory.allocate(5000);
  EXPECT_EQ(memory.size_of(small), 100u);
  EXPECT_EQ(memory.size_of(large), 5000u);
  EXPECT_EQ(memory.size_of(small + 16), std::nullopt);
  EXPECT_TRUE(memory.deallocate(small));
  EXPECT_EQ(memory.size_of(small), std::nullopt);
  EXPECT_TRUE(memory.audit().empty());
}

TEST(RoutedPool, ThePoolsShareTheLimitAndReturnUnusedBlocksForEachOther) {
  simulated_routes memory{simulated_resource{}, small_and_large(), megabytes(2_MiB)};
  void* const large = memory.allocate(2_MiB - 4096);
  EXPECT_THROW((void)memory.allocate(100), out_of_memory);
  EXPECT_EQ(memory.counts().allocated, 2_MiB - 4096);
  EXPECT_TRUE(memory.deallocate(large));
  EXPECT_NE(memory.allocate(100), nullptr) << "pool 0 returns its block first";
  EXPECT_LE(memory.counts().peak_reserved, 2_MiB);
}

TEST(RoutedPool, AllocationsOfAllPoolsKeepTheirContents) {
  std::mt19937_64 random{testing::UnitTest::GetInstance()->random_seed() + 1u};
  routed_pool<statistics_resource<host_resource>> memory{
      statistics_resource<host_resource>{host_resource{}},
      routing_table{{{1, 0, 200, "a"}, {2, 0, 2000, ""}}}, megabytes()};
  std::map<unsigned char*, std::pair<bytes, unsigned char>> live;
  bytes allocated = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (live.empty() || random() % 100 < 55) {
      bytes const size = random() % (random() % 10 == 0 ? 20'000 : 400) + 1;
      auto* const pointer =
          static_cast<unsigned char*>(memory.allocate(size, random() % 2 == 0 ? "a" : "b"));
      auto const tag = static_cast<unsigned char>(random());
      std::memset(pointer, tag, size);
      ASSERT_TRUE(live.emplace(pointer, std::pair{size, tag}).second);
      allocated += size;
    } else {
      auto const chosen = std::next(live.begin(), static_cast<long>(random() % live.size()));
      auto const [size, tag] = chosen->second;
      for (bytes i = 0; i < size; ++i) ASSERT_EQ(chosen->first[i], tag);
      ASSERT_TRUE(memory.deallocate(chosen->first));
      allocated -= size;
      live.erase(chosen);
    }
    ASSERT_EQ(memory.counts().allocated, allocated);
    ASSERT_EQ(memory.counts().allocations_in_use, live.size());
  }
  for (auto const& [pointer, contents] : live) ASSERT_TRUE(memory.deallocate(pointer));
  memory.release();
  EXPECT_EQ(memory.counts().reserved, 0u);
}

}  // namespace routed_pool_test
}  // namespace quarry
