// SPDX-License-Identifier: Apache-2.0
// Threads that use pools, where the other tests of these pools have one thread: they do not compile
// under ThreadSanitizer.
#include "host/pools/sliced_pool.hpp"
#include "quarry/host/pools/heuristic.hpp"
#include "quarry/host/pools/mixed_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace quarry::test {
namespace pools_of_threads_test {

TEST(SlicesOfAPool, AreFoundByOtherThreadsWhileBlocksComeAndGo) {
  sliced first;
  char* const kept = static_cast<char*>(first.slice(200));
  std::atomic<bool> is_over{false};
  std::thread reader{[&] {
    std::minstd_rand random{1};
    while (!is_over) {
      auto const found = registry::find(kept + random() % 200);
      ASSERT_TRUE(found);
      ASSERT_EQ(found->base, kept);
      ASSERT_EQ(found->size, 200u);
      // finds no other allocation, or an allocation that exists or existed
      char* const near = kept + random() % 1'000'000;
      if (auto const second = registry::find(near)) {
        ASSERT_LE(second->base, near);
        ASSERT_GT(static_cast<char*>(second->base) + second->size, near);
      }
    }
  }};
  std::vector<void*> addresses;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 1000; ++i)
      addresses.push_back(first.source.allocate(1 + (i * 7 + round) % 400));
    for (void* const each : addresses) ASSERT_TRUE(first.source.deallocate(each));
    addresses.clear();
    first.source.release();
  }
  is_over = true;
  reader.join();
  EXPECT_TRUE(first.source.deallocate(kept));
}

TEST(SlicesOfAPool, AreVisibleToOtherThreadsButTheirBlocksAreNot) {
  sliced tested;
  void* const kept = tested.slice(64);
  std::atomic<bool> is_over{false};
  std::thread reader{[&] {
    std::minstd_rand random{1};
    auto const base = reinterpret_cast<std::uint64_t>(kept) / 32_MiB * 32_MiB;
    for (int round = 0; !is_over; ++round) {
      auto const found = registry::find(reinterpret_cast<void*>(base + random() % 64_MiB));
      ASSERT_LE(found ? found->size : 0, 4096u);
      if (round % 1000 != 0) continue;
      for (auto const& each : registry::allocations(tested.source.id()))
        ASSERT_LE(each.size, 4096u);
    }
  }};
  std::vector<void*> addresses;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 1000; ++i)
      addresses.push_back(tested.source.allocate(i % 2 == 0 ? 4096 : 512));
    for (void* const each : addresses) ASSERT_TRUE(tested.source.deallocate(each));
    addresses.clear();
    tested.source.release();
  }
  is_over = true;
  reader.join();
  EXPECT_TRUE(tested.source.deallocate(kept));
}

TEST(MixedPool, ServesThreadsBehindALock) {
  mixed_options const small{.min_slot = 16,
                            .max_slot = 512,
                            .slab = 4096,
                            .large = {.first_block = 64_KiB, .next_block = 64_KiB}};
  synchronized_resource<mixed_pool<host_resource>> source{host_resource{}, small};
  std::vector<std::thread> all_threads;
  for (int thread = 0; thread < 4; ++thread) {
    all_threads.emplace_back([&] {
      std::vector<void*> pointers;
      for (bytes i = 0; i < 2000; ++i) {
        pointers.push_back(source.allocate(i % 700, 16));
        if (pointers.size() > 20) {
          source.deallocate(pointers[i % 20], 0, 16);
          pointers[i % 20] = pointers.back();
          pointers.pop_back();
        }
      }
      for (void* each : pointers) source.deallocate(each, 0, 16);
    });
  }
  for (auto& each : all_threads) each.join();
  EXPECT_EQ(source.upstream().counts().allocations_in_use, 0u);
  EXPECT_EQ(source.upstream().counts().invalid_frees, 0u);
  EXPECT_TRUE(source.upstream().audit().empty());
}

/// Each thread has a pool. While a pool of the first thread calls the rule, a pool of the second
/// thread may call the same rule.
TEST(RuledPools, OfSeveralThreadsEachCallTheRule) {
  std::atomic<int> rule_calls{0};
  auto const rule = [&](pool_state const& pool) {
    ++rule_calls;
    return pool.releasable_blocks > 3 ? pool.reserved : 0;
  };
  std::vector<std::thread> all;
  for (int thread = 0; thread < 2; ++thread) {
    all.emplace_back([&] {
      pool source{simulated_resource{},
                  {.first_block = 1000,
                   .next_block = 1000,
                   .growth_percent = 0,
                   .coalesce = heuristic::by_rule(rule)}};
      for (int i = 0; i < 1000; ++i) EXPECT_TRUE(source.deallocate(source.allocate(500)));
    });
  }
  for (auto& each : all) each.join();
  EXPECT_EQ(rule_calls, 2000);
}

}  // namespace pools_of_threads_test
}  // namespace quarry::test
