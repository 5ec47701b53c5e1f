// SPDX-License-Identifier: Apache-2.0
#include "opencl/heap_on_host.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace quarry::test {
namespace opencl_reserve_test {

using namespace opencl_c;

TEST(OpenclReserve, AllocationsAreTheHeapsAndUnusedSlotsReturn) {
  heap_on_host heap{1_MiB, 2};
  quarry_reserve reserve = quarry_reserve_empty();
  std::multiset<quarry_ref> live;
  for (int i = 0; i < 1000; ++i) live.insert(quarry_reserve_malloc(heap.heap(), &reserve, 8));
  ASSERT_FALSE(live.contains(0));
  quarry_reserve_return(heap.heap(), &reserve);
  ASSERT_EQ(heap.audit(live), "");
  for (auto const ref : live) ASSERT_TRUE(quarry_free(heap.heap(), ref));
  ASSERT_EQ(heap.audit({}), "");
}

TEST(OpenclReserve, AReserveThatReturnsAllItsSlotsClosesTheirSpan) {
  heap_on_host heap{1_MiB, 2};
  for (bytes const size : {1, 16, 17, 100, 256}) {
    quarry_reserve reserve = quarry_reserve_empty();
    auto const ref = quarry_reserve_malloc(heap.heap(), &reserve, size);
    ASSERT_NE(ref, 0u);
    ASSERT_TRUE(quarry_free(heap.heap(), ref));
    quarry_reserve_return(heap.heap(), &reserve);
    quarry_reserve_return(heap.heap(), &reserve);  // has nothing to return
    ASSERT_EQ(heap.audit({}), "") << size;
  }
  EXPECT_NE(quarry_malloc(heap.heap(), 900'000), 0u) << "a span stayed open";
}

TEST(OpenclReserve, AFreeGoesToTheHeapAndASecondOneIsReported) {
  heap_on_host heap{1_MiB, 2};
  quarry_reserve reserve = quarry_reserve_empty();
  auto const ref = quarry_reserve_malloc(heap.heap(), &reserve, 100);
  EXPECT_TRUE(quarry_free(heap.heap(), ref));
  EXPECT_FALSE(quarry_free(heap.heap(), ref));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 1u);
  quarry_reserve_return(heap.heap(), &reserve);
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclReserve, LargerSizesAndAnotherClassComeFromTheHeap) {
  heap_on_host heap{1_MiB, 2};
  quarry_reserve reserve = quarry_reserve_empty();
  ASSERT_NE(quarry_reserve_malloc(heap.heap(), &reserve, 16), 0u);
  auto const count = [&] { return opencl::usage_of(heap.copy()).allocations_in_use; };
  auto const reserved = count();
  EXPECT_EQ(reserved, 32u) << "a whole word of slots";
  std::multiset<quarry_ref> live;
  for (bytes const size : {32, 257, 100'000}) {
    live.insert(quarry_reserve_malloc(heap.heap(), &reserve, size));
    EXPECT_EQ(count(), reserved + live.size());
  }
  EXPECT_FALSE(live.contains(0));
}

TEST(OpenclReserve, AFullHeapGivesNullAndAFault) {
  heap_on_host heap{32_KiB, 1};
  quarry_reserve reserve = quarry_reserve_empty();
  std::multiset<quarry_ref> live;
  while (auto const ref = quarry_reserve_malloc(heap.heap(), &reserve, 64)) live.insert(ref);
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), 1u);
  EXPECT_EQ(quarry_malloc(heap.heap(), 64), 0u) << "a slot was left";
  quarry_reserve_return(heap.heap(), &reserve);
  ASSERT_EQ(heap.audit(live), "");
}

/// One work-item acts for each team of 32, as a leader and its members do on NVIDIA. Leaders of one
/// area open spans at once, and get words of each other's. No empty span may be lost.
TEST(OpenclReserve, TeamsThatOpenSpansAtOnceLoseNone) {
  QUARRY_TEST_USES_FIBERS();
  auto const seeds = fiber_seeds();
  std::size_t const rounds =
      std::min(seeds.size(), 10 + seeds.size() / 20);  // of 16,384 lanes each
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const seed = seeds[round];
    heap_on_host heap{1_MiB, 32, true};
    auto* const h = heap.heap();
    simt::launch_fibers({512, 32}, {.seed = seed}, [&] {
      if (simt::this_place().thread != 0 || simt::this_place().block >= 32) return;
      quarry_search const search = quarry_search_of(h, 0);
      for (int step = 0; step < 2; ++step) {
        uint const first = quarry_lease_ahead(h, &search, 32);
        std::vector<quarry_reserve> reserves;
        uint const begin = quarry_word_of_hint(first);
        for (uint word = begin; first != 0 && word < std::min(begin + 32, search.words); ++word) {
          uint used = 0;
          uint const span = quarry_span_of_hint(first);
          uint const bits = quarry_claim_bits(h, 0, span, word, &used, 32, 0);
          reserves.push_back({bits, 0, quarry_base_of_span(h, span) + word * 32});
        }
        for (auto& reserve : reserves) quarry_reserve_return(h, &reserve);
      }
    });
    ASSERT_EQ(heap.audit({}), "") << "seed " << seed;
    ASSERT_NE(quarry_malloc(h, bytes{h->usable_pages} * 1024), 0u) << "seed " << seed;
  }
}

/// Work-items allocate, write and free. The allocations that are left must be the heap's, and no
/// two may share memory.
template <class Launch>
void expect_distinct(std::uint32_t items, int rounds, Launch const& launch) {
  heap_on_host heap{2_MiB, 4};
  std::vector<std::vector<quarry_ref>> kept(items);
  launch([&] {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    quarry_reserve reserve = quarry_reserve_empty();
    for (int i = 0; i < rounds; ++i) {
      bytes const size = i % 5 != 0 ? 8 : 300;
      auto const ref = quarry_reserve_malloc(heap.heap(), &reserve, size);
      ASSERT_NE(ref, 0u);
      *static_cast<std::uint32_t*>(quarry_at(heap.heap(), ref)) = rank;
      kept[rank].push_back(ref);
      if (i % 4 != 3) continue;
      ASSERT_TRUE(quarry_free(heap.heap(), kept[rank].front()));
      kept[rank].erase(kept[rank].begin());
    }
    for (auto const ref : kept[rank])
      ASSERT_EQ(*static_cast<std::uint32_t*>(quarry_at(heap.heap(), ref)), rank);
    quarry_reserve_return(heap.heap(), &reserve);
  });
  std::multiset<quarry_ref> live;
  for (auto const& refs : kept) live.insert(refs.begin(), refs.end());
  ASSERT_EQ(heap.audit(live), "");
}

TEST(OpenclReserve, WorkItemsNeverShareMemory) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_distinct(64, 12,
                    [&](auto const& body) { simt::launch_fibers({2, 32}, {.seed = seed}, body); });
    if (HasFatalFailure()) return;
  }
}

TEST(OpenclReserveOnThreads, WorkItemsNeverShareMemory) {
  for (int round = 0; round < 20; ++round) {
    expect_distinct(4, 400, [](auto const& body) { simt::launch_threads({4, 1}, 4, body); });
    if (HasFatalFailure()) return;
  }
}

}  // namespace opencl_reserve_test
}  // namespace quarry::test
