// SPDX-License-Identifier: Apache-2.0
// Debug heaps: trailers, the overruns that frees report, and the list of allocations in use.
#include "opencl/heap_on_host.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace quarry::test {
namespace opencl_debug_heap_test {

using namespace opencl_c;
using opencl::allocation_state;

constexpr bytes sizes[] = {0, 1, 15, 16, 17, 100, 240, 241, 4064, 4065, 20_KiB, 300'000};

struct debug_heap : heap_on_host {
  explicit debug_heap(bytes size = 2_MiB) : heap_on_host{size, 2, false, true} {}
  unsigned char* at(quarry_ref reference) {
    return static_cast<unsigned char*>(quarry_at(heap(), reference));
  }
  allocation_state state_of(quarry_ref reference) {
    for (auto const& allocation : live_allocations())
      if (allocation.reference == reference) return allocation.state;
    return allocation_state::unknown;
  }
};

TEST(OpenclDebugHeap, AllocationsThatStayInTheirSizeAreFreedWithoutAFault) {
  debug_heap heap;
  for (bytes const size : sizes) {
    auto const ref = quarry_malloc(heap.heap(), size);
    ASSERT_NE(ref, 0u) << size;
    EXPECT_EQ(quarry_usable_size(heap.heap(), ref), size);
    std::memset(heap.at(ref), 0, size);
    EXPECT_EQ(heap.state_of(ref), allocation_state::intact) << size;
    EXPECT_TRUE(quarry_free(heap.heap(), ref));
  }
  EXPECT_EQ(heap.heap()->fault_kind, 0u);
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclDebugHeap, AnOverrunByOneByteIsListedBeforeTheFreeWhichReportsItAndFrees) {
  for (bytes const size : sizes) {
    debug_heap heap;
    auto const before = quarry_malloc(heap.heap(), size), ref = quarry_malloc(heap.heap(), size);
    heap.at(ref)[size] = 0;
    EXPECT_EQ(heap.state_of(ref), allocation_state::overrun) << size;
    EXPECT_EQ(heap.state_of(before), allocation_state::intact) << size;
    EXPECT_EQ(heap.heap()->fault_kind, 0u);
    EXPECT_TRUE(quarry_free(heap.heap(), ref));
    EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 1u) << size;
    EXPECT_EQ(heap.heap()->fault_reference, ref);
    EXPECT_EQ(heap.heap()->fault_bytes, size);
    EXPECT_EQ(heap.audit({before}), "");
    EXPECT_FALSE(quarry_free(heap.heap(), ref));
    EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 1u) << size;
    EXPECT_TRUE(quarry_free(heap.heap(), before));
    EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 1u) << size;
  }
}

TEST(OpenclDebugHeap, AWriteToAnyByteOfTheGapOrTheTrailerIsReported) {
  for (bytes const size : {bytes{0}, bytes{17}, bytes{31}, bytes{1100}, bytes{5000}}) {
    debug_heap heap;
    std::uint32_t reported = 0;
    for (bytes offset = size;; ++offset) {
      auto const ref = quarry_malloc(heap.heap(), size);
      if (offset == quarry_slot_bytes(heap.heap(), ref)) break;
      heap.at(ref)[offset] ^= 0x80;
      ASSERT_EQ(heap.state_of(ref), allocation_state::overrun) << size << ", byte " << offset;
      ASSERT_TRUE(quarry_free(heap.heap(), ref));
      ASSERT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), ++reported) << size << ", byte " << offset;
    }
  }
}

TEST(OpenclDebugHeap, AnOverrunOfTheWholeTrailerHasNoKnownSize) {
  debug_heap heap;
  auto const ref = quarry_malloc(heap.heap(), 20);
  std::memset(heap.at(ref), 0xff, 48);
  auto const allocation = heap.live_allocations().at(0);
  EXPECT_EQ(allocation.state, allocation_state::overrun);
  EXPECT_EQ(allocation.requested_size, 0u);
  EXPECT_EQ(quarry_usable_size(heap.heap(), ref), 32u);
  EXPECT_TRUE(quarry_free(heap.heap(), ref));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 1u);
  EXPECT_EQ(heap.heap()->fault_bytes, QUARRY_NONE);
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclDebugHeap, WrongFreesAreReportedAsInOtherHeapsAndChangeNothing) {
  debug_heap heap;
  auto* const h = heap.heap();
  auto const small = quarry_malloc(h, 100), large = quarry_malloc(h, 20_KiB);
  EXPECT_FALSE(quarry_free(h, small + 1));
  EXPECT_FALSE(quarry_free(h, large + 64));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_INTERIOR_REFERENCE), 2u);
  EXPECT_FALSE(quarry_free(h, 1));
  EXPECT_FALSE(quarry_free(h, ~0u));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_FOREIGN_REFERENCE), 2u);
  EXPECT_EQ(heap.state_of(small), allocation_state::intact);
  EXPECT_EQ(heap.state_of(large), allocation_state::intact);
  EXPECT_TRUE(quarry_free(h, small));
  EXPECT_TRUE(quarry_free(h, large));
  EXPECT_FALSE(quarry_free(h, small));
  EXPECT_FALSE(quarry_free(h, large));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 2u);
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 0u);
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclDebugHeap, RefusesSizesWhoseTrailerDoesNotFit) {
  debug_heap heap;
  for (bytes const size : {2_MiB - 16, 2_MiB, 64_GiB, ~bytes{0} - 16, ~bytes{0} - 15, ~bytes{0}})
    EXPECT_EQ(quarry_malloc(heap.heap(), size), 0u) << size;
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), 6u);
  EXPECT_EQ(heap.heap()->fault_bytes, 2_MiB - 16) << "the requested bytes, without the trailer";
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclDebugHeap, AReserveHandsOutCheckedSlotsAndItsOtherSlotsAreListedAsReserved) {
  debug_heap heap;
  quarry_reserve reserve = quarry_reserve_empty();
  for (bytes const size : {bytes{1}, bytes{16}, bytes{48}}) {
    for (int i = 0; i < 3; ++i) {
      auto const ref = quarry_reserve_malloc(heap.heap(), &reserve, size);
      heap.at(ref)[size] = 0;
      ASSERT_EQ(heap.state_of(ref), allocation_state::overrun);
      ASSERT_TRUE(quarry_free(heap.heap(), ref));
    }
    EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 3u) << size;
    ASSERT_NE(reserve.bits, 0u);
    for (auto const& allocation : heap.live_allocations())
      ASSERT_EQ(allocation.state, allocation_state::reserved);
    auto const unused = heap.live_allocations().at(0).reference;
    EXPECT_FALSE(quarry_free(heap.heap(), unused)) << "a slot that was not handed out";
    EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 1u);
    quarry_reserve_return(heap.heap(), &reserve);
    ASSERT_EQ(heap.audit({}), "") << size;
    heap.heap()->fault_counts[QUARRY_FAULT_OVERRUN] = 0;
    heap.heap()->fault_counts[QUARRY_FAULT_DOUBLE_FREE] = 0;
  }
  auto const large = quarry_reserve_malloc(heap.heap(), &reserve, 241);
  EXPECT_EQ(reserve.bits, 0u) << "the trailer makes the request too large for a reserve";
  EXPECT_EQ(heap.state_of(large), allocation_state::intact);
}

TEST(OpenclDebugHeap, AGroupsAllocationsAreChecked) {
  QUARRY_TEST_USES_FIBERS();
  debug_heap heap;
  std::vector<uint> scratch(QUARRY_GROUP_WORDS(32));
  std::vector<quarry_ref> refs(32);
  auto const size_of = [](std::uint32_t item) { return bytes{item} * item * 5; };  // up to 4,805
  simt::launch_fibers({1, 32}, {.seed = 1}, [&] {
    auto const item = simt::this_place().thread;
    bytes const size = item == 7 ? QUARRY_NOTHING : size_of(item);
    refs[item] = quarry_malloc_group(heap.heap(), size, scratch.data());
  });
  EXPECT_EQ(refs[7], 0u);
  for (std::uint32_t item = 0; item < 32; ++item) {
    if (item == 7) continue;
    ASSERT_NE(refs[item], 0u);
    EXPECT_EQ(quarry_usable_size(heap.heap(), refs[item]), size_of(item));
    EXPECT_EQ(heap.state_of(refs[item]), allocation_state::intact) << item;
    std::memset(heap.at(refs[item]), 0, size_of(item) + 1);
    ASSERT_TRUE(quarry_free(heap.heap(), refs[item]));
  }
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 31u);
  EXPECT_EQ(heap.audit({}), "");
}

/// What a program without QUARRY_DEBUG does: slots without trailers, and frees without checks.
TEST(OpenclDebugHeap, AllocationsWithoutATrailerAreReportedAndChangeNoOthers) {
  debug_heap heap;
  auto* const h = heap.heap();
  auto const checked = quarry_malloc(h, 40), large = quarry_malloc(h, 20'000);
  auto const plain = quarry_malloc_units(h, 4), plain_large = quarry_malloc_units(h, 2048);
  ASSERT_EQ(heap.audit({checked, large, plain, plain_large}), "");
  std::memset(heap.at(plain), 0x11, 64);
  EXPECT_EQ(heap.state_of(plain), allocation_state::overrun);
  EXPECT_TRUE(quarry_free(h, plain));
  EXPECT_TRUE(quarry_free(h, plain_large));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 2u);
  EXPECT_EQ(heap.state_of(checked), allocation_state::intact);
  EXPECT_EQ(heap.state_of(large), allocation_state::intact);
  ASSERT_EQ(heap.audit({checked, large}), "");

  ASSERT_TRUE(quarry_free(h, checked));  // leaves a vacant trailer
  auto const again = quarry_malloc_units(h, 4);
  ASSERT_EQ(again, checked);
  EXPECT_FALSE(quarry_free(h, again));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 1u);
  ASSERT_EQ(heap.audit({again, large}), "");
}

TEST(OpenclDebugHeap, OfTwoFreesAtOnceOneIsReported) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : fiber_seeds()) {
    debug_heap heap{256_KiB};
    auto* const h = heap.heap();
    auto const small = quarry_malloc(h, 24), large = quarry_malloc(h, 20'000);
    std::uint32_t freed = 0;
    simt::launch_fibers({1, 3}, {.seed = seed}, [&] {
      for (auto const ref : {small, large})
        if (quarry_free(h, ref)) simt::atomic_ref<std::uint32_t>{freed}.fetch_add(1, simt::relaxed);
    });
    ASSERT_EQ(freed, 2u) << "seed " << seed;
    // While a free returns the pages of a large allocation, another free sees pages in use.
    ASSERT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE) + heap.faults(QUARRY_FAULT_INTERIOR_REFERENCE),
              4u)
        << "seed " << seed;
    ASSERT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit({}), "") << "seed " << seed;
  }
}

/// Each container writes all of its elements. None may write behind its allocations.
TEST(OpenclDebugHeap, ContainersStayInTheirAllocations) {
  debug_heap heap;
  auto* const h = heap.heap();
  auto const at = quarry_malloc(h, 8192);
  auto* const memory = heap.at(at);
  std::memset(memory, 0, 8192);
  auto const expect_intact = [&](char const* name) {
    for (auto const& allocation : heap.live_allocations(100'000)) {
      if (allocation.state == allocation_state::reserved) continue;
      ASSERT_EQ(allocation.state, allocation_state::intact)
          << name << ", " << allocation.requested_size << " bytes";
    }
  };
  bool is_new = false;
  uint value = 0;

  auto* const vector = reinterpret_cast<quarry_vector*>(memory);
  quarry_vector_init(vector, 20);
  for (uint i = 0; i < 1000; ++i)
    std::memset(quarry_vector_at(h, vector, quarry_vector_push(h, vector, 1)), 1, 20);
  expect_intact("vector");
  quarry_vector_clear(h, vector);

  auto* const list = reinterpret_cast<quarry_array_list*>(memory + 512);
  quarry_array_list_init(list, 12);
  for (uint count = 1; count < 50; ++count)
    std::memset(quarry_array_list_grow(h, list, count, &value), 1, std::size_t{count} * 12);
  expect_intact("array list");
  quarry_array_list_clear(h, list);

  auto* const queue = reinterpret_cast<quarry_queue*>(memory + 1024);
  for (uint i = 0; i < 500; ++i) ASSERT_TRUE(quarry_queue_push(h, queue, i));
  while (quarry_queue_pop(h, queue, &value)) continue;
  expect_intact("queue");
  quarry_queue_clear(h, queue);

  auto* const ordered = reinterpret_cast<quarry_ordered_map*>(memory + 1536);
  for (uint key = 0; key < 2000; ++key)
    ASSERT_NE(quarry_ordered_map_ensure(h, ordered, key, 1, &is_new), 0u);
  expect_intact("ordered map");
  quarry_ordered_map_clear(h, ordered);

  auto* const graph = reinterpret_cast<quarry_graph*>(memory + 2048);
  ASSERT_TRUE(quarry_map_init(h, graph, 1024));
  quarry_map_empty(h, graph, 0, 1);
  quarry_graph_builder builder = quarry_graph_builder_empty();
  for (uint i = 0; i < 2000; ++i)
    ASSERT_TRUE(quarry_graph_add_edge(h, graph, i % 500, i % 300, &builder));
  expect_intact("graph");
  quarry_graph_finish(h, &builder);
  quarry_graph_clear(h, graph, 0, 1);
  ASSERT_TRUE(quarry_free(h, graph->table));

  ASSERT_TRUE(quarry_free(h, at));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 0u);
  EXPECT_EQ(heap.audit({}), "");
}

/// Work-items allocate, fill, check and free at random, some of them from a reserve.
struct churn {
  quarry_heap heap;
  std::uint64_t seed;
  std::uint32_t steps;
  std::uint32_t* wrong;

  void operator()() const {
    auto const rank = simt::this_place().rank();
    std::mt19937_64 random{seed * 1000 + rank};
    quarry_reserve reserve = quarry_reserve_empty();
    std::vector<std::pair<quarry_ref, bytes>> owned;
    auto const tag = static_cast<unsigned char>(rank + 1);
    auto const free_one = [&](std::size_t i) {
      auto const [ref, size] = owned[i];
      auto const* const content = static_cast<unsigned char*>(quarry_at(heap, ref));
      bool const is_right = std::count(content, content + size, tag) == std::ptrdiff_t(size);
      if (!is_right || !quarry_free(heap, ref))
        simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
      owned.erase(owned.begin() + std::ptrdiff_t(i));
    };
    for (std::uint32_t step = 0; step < steps; ++step) {
      if (owned.size() >= 4 || (!owned.empty() && random() % 2 == 0)) {
        free_one(random() % owned.size());
        continue;
      }
      bytes const size = random() % 8 == 0 ? random() % 10'000 : random() % 50;
      auto const ref =
          rank % 2 == 0 ? quarry_malloc(heap, size) : quarry_reserve_malloc(heap, &reserve, size);
      if (ref == 0) continue;
      std::memset(quarry_at(heap, ref), tag, size);
      owned.emplace_back(ref, size);
    }
    while (!owned.empty()) free_one(0);
    quarry_reserve_return(heap, &reserve);
  }
};

TEST(OpenclDebugHeap, FibersThatStayInTheirSizesCauseNoFaults) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : fiber_seeds()) {
    debug_heap heap{512_KiB};
    std::uint32_t wrong = 0;
    simt::launch_fibers({2, 16}, {.seed = seed}, churn{heap.heap(), seed, 30, &wrong});
    ASSERT_EQ(wrong, 0u) << "seed " << seed;
    ASSERT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 0u) << "seed " << seed;
    ASSERT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit({}), "") << "seed " << seed;
  }
}

TEST(OpenclDebugHeapOnThreads, ThreadsThatStayInTheirSizesCauseNoFaults) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    debug_heap heap{512_KiB};
    std::uint32_t wrong = 0;
    simt::launch_threads({4, 1}, 4, churn{heap.heap(), seed, 1000, &wrong});
    ASSERT_EQ(wrong, 0u) << "seed " << seed;
    ASSERT_EQ(heap.faults(QUARRY_FAULT_OVERRUN), 0u) << "seed " << seed;
    ASSERT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit({}), "") << "seed " << seed;
  }
}

}  // namespace opencl_debug_heap_test
}  // namespace quarry::test
