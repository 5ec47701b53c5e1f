// SPDX-License-Identifier: Apache-2.0
#include "opencl/heap_on_host.hpp"
#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace opencl_group_cache_test {

using namespace opencl_c;

/// The heaps of CPUs, whose leases are longer than a list has parts, and those of GPUs.
constexpr bool both[] = {false, true};

TEST(OpenclGroupCache, AllocationsAreTheHeapsAndUnusedSlotsReturn) {
  for (bool const is_gpu : both) {
    heap_on_host heap{1_MiB, 2, is_gpu};
    quarry_cache cache;
    quarry_cache_init(&cache);
    std::multiset<quarry_ref> live;
    for (int i = 0; i < 1000; ++i) live.insert(quarry_cache_malloc(heap.heap(), &cache, 8));
    ASSERT_FALSE(live.contains(0));
    quarry_cache_return(heap.heap(), &cache);
    ASSERT_EQ(heap.audit(live), "");
    for (auto const ref : live) ASSERT_TRUE(quarry_free(heap.heap(), ref));
    ASSERT_EQ(heap.audit({}), "");
  }
}

TEST(OpenclGroupCache, AFreeGoesToTheHeapAndASecondOneIsReported) {
  heap_on_host heap{1_MiB, 2};
  quarry_cache cache;
  quarry_cache_init(&cache);
  auto const ref = quarry_cache_malloc(heap.heap(), &cache, 100);
  EXPECT_TRUE(quarry_free(heap.heap(), ref));
  EXPECT_FALSE(quarry_free(heap.heap(), ref));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 1u);
  quarry_cache_return(heap.heap(), &cache);
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclGroupCache, LargerSizesAndAThirdClassAreNotCached) {
  heap_on_host heap{1_MiB, 2};
  quarry_cache cache;
  quarry_cache_init(&cache);
  for (bytes const size : {16, 32}) quarry_cache_malloc(heap.heap(), &cache, size);
  auto const cached = opencl::usage_of(quarry_words(heap.heap())).allocations;
  EXPECT_GT(cached, 2u) << "slots that the group claimed ahead";
  for (bytes const size : {48, 257, 100'000})
    ASSERT_NE(quarry_cache_malloc(heap.heap(), &cache, size), 0u);
  EXPECT_EQ(opencl::usage_of(quarry_words(heap.heap())).allocations, cached + 3);
}

TEST(OpenclGroupCache, AFullHeapGivesNullAndAFault) {
  for (bool const is_gpu : both) {
    heap_on_host heap{32_KiB, 1, is_gpu};
    quarry_cache cache;
    quarry_cache_init(&cache);
    std::multiset<quarry_ref> live;
    for (;;) {
      auto const ref = quarry_cache_malloc(heap.heap(), &cache, 64);
      if (ref == 0) break;
      live.insert(ref);
    }
    EXPECT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), 1u);
    EXPECT_EQ(quarry_malloc(heap.heap(), 64), 0u) << "the cache kept a slot";
    quarry_cache_return(heap.heap(), &cache);
    ASSERT_EQ(heap.audit(live), "");
  }
}

/// Groups allocate, write and check their allocations, and free some of them. What is left must be
/// what the heap has, and no two allocations may share memory.
template <class Launch>
void expect_distinct(bool is_gpu, std::uint32_t groups, std::uint32_t items, int rounds,
                     Launch const& launch) {
  heap_on_host heap{2_MiB, 4, is_gpu};
  std::vector<quarry_cache> caches(groups);
  std::vector<std::vector<quarry_ref>> kept(groups * items);
  launch([&] {
    auto* const cache = &caches[simt::this_place().block];
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    quarry_cache_init(cache);
    for (int i = 0; i < rounds; ++i) {
      bytes const size = i % 3 == 0 ? 8 : i % 3 == 1 ? 40 : 300;
      auto const ref = quarry_cache_malloc(heap.heap(), cache, size);
      ASSERT_NE(ref, 0u);
      auto* const word = static_cast<std::uint32_t*>(quarry_at(heap.heap(), ref));
      *word = rank;
      kept[rank].push_back(ref);
      if (i % 4 == 3) {
        ASSERT_TRUE(quarry_free(heap.heap(), kept[rank].front()));
        kept[rank].erase(kept[rank].begin());
      }
    }
    for (auto const ref : kept[rank])
      ASSERT_EQ(*static_cast<std::uint32_t*>(quarry_at(heap.heap(), ref)), rank);
    quarry_cache_return(heap.heap(), cache);
  });
  std::multiset<quarry_ref> live;
  for (auto const& refs : kept) live.insert(refs.begin(), refs.end());
  ASSERT_EQ(heap.audit(live), "");
}

TEST(OpenclGroupCache, WorkItemsNeverShareMemory) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_distinct(seed % 2 == 0, 2, 32, 12,
                    [&](auto const& body) { simt::launch_fibers({2, 32}, {.seed = seed}, body); });
    if (HasFatalFailure()) return;
  }
}

TEST(OpenclGroupCacheOnThreads, WorkItemsNeverShareMemory) {
  for (bool const is_gpu : both)
    for (int round = 0; round < 10; ++round) {
      expect_distinct(is_gpu, 2, 2, 400,
                      [](auto const& body) { simt::launch_threads({2, 2}, 4, body); });
      if (HasFatalFailure()) return;
    }
}

}  // namespace opencl_group_cache_test
}  // namespace quarry::test
