// SPDX-License-Identifier: Apache-2.0
// Operations of the containers for OpenCL kernels that fail change nothing and say so; and those
// that run for long need no more memory.
#include "opencl/container_fixture.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace opencl_container_failures_test {

using namespace opencl_fixture;

template <class F>
std::uint64_t allocations(F& f) {
  return opencl::usage_of(f.on_host.copy()).allocations_in_use;
}
template <class F>
std::uint32_t refusals(F& f) {
  return f.on_host.faults(QUARRY_FAULT_OUT_OF_MEMORY);
}

// --- vector

TEST(OpenclVectorWithoutMemory, APushThatFailsChangesNothingAndTheNextOneWorks) {
  fixture<quarry_vector> f;
  quarry_vector_init(f.container, 64);
  ASSERT_EQ(quarry_vector_push(f.heap, f.container, 10), 0u);
  auto const before = allocations(f);
  for (uint const count : {1'000'000u, 1u << 16, 0x7fff'ffd6u, 0x7fff'ffe0u, 0x8000'0000u,
                           0xffff'fff6u, 0xffff'ffffu}) {
    auto const lost = f.container->lost;
    EXPECT_EQ(quarry_vector_push(f.heap, f.container, count), QUARRY_NONE) << count;
    EXPECT_EQ(f.container->size, 10u) << count;
    EXPECT_EQ(f.container->claimed, 10u) << count;
    EXPECT_EQ(f.container->lost, lost + 1) << count;
    EXPECT_EQ(refusals(f), lost + 1) << count;
    EXPECT_EQ(allocations(f), before) << count;
  }
  EXPECT_EQ(quarry_vector_at(f.heap, f.container, 10), nullptr);
  EXPECT_EQ(quarry_vector_push(f.heap, f.container, 1), 10u);
  EXPECT_NE(quarry_vector_at(f.heap, f.container, 10), nullptr);
  EXPECT_EQ(quarry_vector_push(f.heap, f.container, 0), QUARRY_NONE) << "no elements";
  EXPECT_EQ(quarry_vector_clear(f.heap, f.container), 11u);
  EXPECT_EQ(f.audit(), "");
}
TEST(OpenclVectorWithoutMemory, AllMemoryThatAPushNeedsIsAllocatedOrNone) {
  fixture<quarry_vector> f{256_KiB};
  quarry_vector_init(f.container, 64);
  uint count = 32;  // the first segments have room for all elements but those of the last segment
  for (; quarry_vector_push(f.heap, f.container, count) != QUARRY_NONE; count *= 2)
    EXPECT_EQ(quarry_vector_clear(f.heap, f.container), count);
  EXPECT_EQ(f.audit(), "") << "the push that failed kept memory";
  EXPECT_GE(count, 1024u);
}

/// The ranges that work-items got: [first, second).
using ranges = std::vector<std::vector<std::pair<uint, uint>>>;

template <class F>
void push_until_full(F& f, uint item, uint steps, ranges& got) {
  uint random = item * 7919 + 1;
  for (uint step = 0; step < steps; ++step) {
    random = random * 1664525u + 1013904223u;
    uint const kind = (random >> 8) % 8;
    uint const count = kind == 0   ? 1u << 20
                       : kind == 1 ? 0xffff'ffffu - (random >> 12) % 100
                       : kind < 4  ? 200 + (random >> 12) % 200
                                   : 1 + (random >> 12) % 3;
    uint const first = quarry_vector_push(f.heap, f.container, count);
    if (first == QUARRY_NONE) continue;
    got[item].emplace_back(first, first + count);
    ASSERT_NE(quarry_vector_at(f.heap, f.container, first), nullptr);
    ASSERT_NE(quarry_vector_at(f.heap, f.container, first + count - 1), nullptr);
  }
}
void expect_each_index_once(fixture<quarry_vector>& f, ranges const& got) {
  std::vector<std::pair<uint, uint>> all;
  for (auto const& one : got) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  uint next = 0;
  for (auto const& [first, end] : all) {
    ASSERT_EQ(first, next) << "an index was given twice, or to nobody";
    next = end;
  }
  ASSERT_EQ(f.container->size, next);
  ASSERT_EQ(f.container->claimed, next);
  ASSERT_GE(next, 900u);
  ASSERT_GT(f.container->lost, 0u);
  ASSERT_EQ(refusals(f), f.container->lost) << "a fault that is no push that failed";
  quarry_vector_clear(f.heap, f.container);
  ASSERT_EQ(f.audit(), "");
}
TEST(OpenclVectorWithoutMemory, EachIndexIsGivenOnceWhilePushesOfAllSizesFail) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fixture<quarry_vector> f{256_KiB};
    f.container->element_bytes = 64;
    ranges got(items);
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      push_until_full(f, static_cast<uint>(simt::this_place().rank()), 10, got);
    });
    expect_each_index_once(f, got);
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclVectorWithoutMemoryOnThreads, EachIndexIsGivenOnceWhilePushesOfAllSizesFail) {
  for (int round = 0; round < 20; ++round) {
    fixture<quarry_vector> f{256_KiB};
    f.container->element_bytes = 64;
    ranges got(4);
    simt::launch_threads({4, 1}, 4, [&] {
      push_until_full(f, static_cast<uint>(simt::this_place().rank()), 300, got);
    });
    expect_each_index_once(f, got);
    if (HasFatalFailure()) return;
  }
}

// --- groups

TEST(OpenclGroupWithoutMemory, CountsWhoseSumWrapsAreRefused) {
  fixture<quarry_vector> f;
  quarry_array_list list{4, 0, 0};
  std::vector<uint> first(32, 0);
  std::vector<void*> elements(32, nullptr);
  simt::launch_fibers({1, 32}, {.seed = 1}, [&] {
    auto const item = simt::this_place().thread;
    uint const count = item < 2 ? 0x8000'0000u : item == 2 ? 5 : 0;
    uint index = 0;
    first[item] = quarry_vector_push_group(f.heap, f.container, count, f.local());
    elements[item] = quarry_array_list_grow_local(f.heap, &list, count, &index, f.local());
  });
  EXPECT_EQ(first, std::vector<uint>(32, QUARRY_NONE));
  EXPECT_EQ(elements, std::vector<void*>(32, nullptr));
  EXPECT_EQ(f.container->size, 0u);
  EXPECT_EQ(list.size, 0u);
  EXPECT_EQ(refusals(f), 2u);
  EXPECT_EQ(f.audit(), "");
}

// --- array list and list

TEST(OpenclArrayListWithoutMemory, IndicesDoNotWrap) {
  fixture<quarry_array_list> f;
  f.container->size = 0xffff'fff0u;
  uint index = 7;
  EXPECT_EQ(quarry_array_list_grow(f.heap, f.container, 100, &index), nullptr);
  EXPECT_EQ(index, 7u);
  EXPECT_EQ(f.container->size, 0xffff'fff0u);
  EXPECT_EQ(refusals(f), 1u);
  EXPECT_EQ(f.audit(), "");
  EXPECT_NE(quarry_array_list_grow(f.heap, f.container, 14, &index), nullptr);
  EXPECT_EQ(index, 0xffff'fff0u);
}
TEST(OpenclListWithoutMemory, ANullNodeIsRefused) {
  fixture<quarry_queue> f;
  quarry_ref list = 0;
  ASSERT_TRUE(quarry_list_push(f.heap, &list, quarry_malloc(f.heap, 16)));
  auto const first = list;
  EXPECT_FALSE(quarry_list_push(f.heap, &list, 0));
  EXPECT_EQ(list, first);
  EXPECT_EQ(quarry_list_clear(f.heap, &list), 1u);
  EXPECT_EQ(f.audit(), "");
}

// --- queue

TEST(OpenclQueueForLong, PushesAndPopsNeedNoMoreMemory) {
  for (uint const most : {1u, 60u, 1000u}) {  // values at once
    fixture<quarry_queue> f{256_KiB};
    std::uint64_t peak = 0;
    for (uint i = 0, value = 0; i < 100'000; i += most) {
      for (uint j = 0; j < most; ++j) ASSERT_TRUE(quarry_queue_push(f.heap, f.container, i + j));
      for (uint j = 0; j < most; ++j) {
        ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
        ASSERT_EQ(value, i + j);
      }
      peak = std::max(peak, allocations(f));
    }
    EXPECT_LE(peak, 6u) << most;  // the queue, and rings of 64 up to 1024 cells
    EXPECT_EQ(quarry_queue_trim(f.heap, f.container), peak - 2);
    EXPECT_EQ(quarry_queue_clear(f.heap, f.container), 0u);
    EXPECT_EQ(f.audit(), "");
  }
}
TEST(OpenclQueueForLong, AQueueThatIsNeverEmptyNeedsNoMoreMemory) {
  constexpr uint values = 70'000;
  fixture<quarry_queue> f{3_MiB};
  uint value = 0;
  for (uint i = 0; i < values; ++i) ASSERT_TRUE(quarry_queue_push(f.heap, f.container, i));
  for (uint i = 0; i < 300'000; ++i) {
    ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
    ASSERT_EQ(value, i);
    ASSERT_TRUE(quarry_queue_push(f.heap, f.container, values + i)) << i;
  }
  EXPECT_EQ(allocations(f), 13u) << "the queue, and rings of 64 up to 131,072 cells";
  EXPECT_EQ(quarry_queue_clear(f.heap, f.container), values);
  EXPECT_EQ(f.audit(), "");
}
TEST(OpenclQueueForLong, AClearCountsTheValuesOfAllRings) {
  fixture<quarry_queue> f;
  uint value = 0;
  for (uint i = 0; i < 1000; ++i) ASSERT_TRUE(quarry_queue_push(f.heap, f.container, i));
  for (uint i = 0; i < 100; ++i) ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
  EXPECT_EQ(quarry_queue_clear(f.heap, f.container), 900u);
  EXPECT_FALSE(quarry_queue_pop(f.heap, f.container, &value));
  EXPECT_EQ(f.audit(), "");
}
TEST(OpenclQueueForLong, PositionsWrap) {
  fixture<quarry_queue> f;
  uint value = 0, pushed = 0, popped = 0;
  ASSERT_TRUE(quarry_queue_push(f.heap, f.container, 1));
  ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
  auto* const ring = quarry_queue_ring_at(f.heap, f.container->first);
  for (uint const start : {0xffff'ff80u, 0x7fff'ff80u}) {
    ring->head = ring->tail = start;
    ring->pushes = start << 1;
    for (uint i = 0; i < 64; ++i) quarry_queue_lap(ring, 0)[i] = 0;
    for (uint i = 0; i < 1000; ++i) {
      for (uint j = 0; j < i % 32; ++j)
        ASSERT_TRUE(quarry_queue_push(f.heap, f.container, pushed++));
      while (pushed - popped > 32 - i % 32) {
        ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
        ASSERT_EQ(value, popped++);
      }
    }
    while (quarry_queue_pop(f.heap, f.container, &value)) ASSERT_EQ(value, popped++);
    EXPECT_EQ(popped, pushed);
  }
  EXPECT_EQ(allocations(f), 2u) << "the ring was never full";
}
TEST(OpenclQueueWithoutMemory, APushThatFailsChangesNothingAndOneAfterAPopWorks) {
  fixture<quarry_queue> f{1_MiB};
  uint pushed = 0, popped = 0, value = 0;
  while (quarry_queue_push(f.heap, f.container, pushed)) ++pushed;
  EXPECT_EQ(refusals(f), 1u);
  auto const before = allocations(f);
  for (uint i = 0; i < 3; ++i) {
    EXPECT_FALSE(quarry_queue_push(f.heap, f.container, 1));
    EXPECT_EQ(refusals(f), i + 2);
    EXPECT_EQ(allocations(f), before);
  }
  EXPECT_GE(pushed, 100'000u) << "of 1 MiB, 8 bytes for each value";
  for (; popped < pushed; ++popped) {  // until the last ring has free cells
    ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
    ASSERT_EQ(value, popped);
  }
  for (uint i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(quarry_queue_push(f.heap, f.container, i)) << i;
    ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
    ASSERT_EQ(value, i);
  }
  EXPECT_EQ(quarry_queue_clear(f.heap, f.container), 0u);
  EXPECT_EQ(f.audit(), "");
}

TEST(OpenclQueueWithoutMemory, AQueueThatWasFullServesManyValuesAfterItIsEmpty) {
  fixture<quarry_queue> f{1_MiB};
  uint full = 0, pushed = 0, value = 0;
  while (quarry_queue_push(f.heap, f.container, full)) ++full;
  uint const lacking = f.heap->fault_bytes;
  EXPECT_GE(lacking, 8 * full / 16) << "the smallest ring that may follow";
  EXPECT_EQ(quarry_try_malloc(f.heap, lacking), 0u);
  for (uint round = 0; round < 3; ++round, pushed = 0) {
    while (quarry_queue_pop(f.heap, f.container, &value)) {
    }
    while (quarry_queue_push(f.heap, f.container, pushed)) ++pushed;
    EXPECT_GE(pushed, full / 16) << round;
  }
  (void)quarry_queue_clear(f.heap, f.container);
  EXPECT_EQ(f.audit(), "");
}

// --- map and graph

TEST(OpenclMapWithoutMemory, AMapWithoutATableHasNoEntriesAndGetsNone) {
  fixture<quarry_map> f;
  auto const before = allocations(f);
  for (uint const buckets : {0u, 0x8000'0001u, ~0u, 1u << 20}) {  // the last one needs 4 MiB
    *f.container = {77, 77, 77, 77};
    EXPECT_FALSE(quarry_map_init(f.heap, f.container, buckets)) << buckets;
    EXPECT_EQ(f.container->table, 0u);
    EXPECT_EQ(quarry_map_buckets(f.container), 0u);
    EXPECT_FALSE(quarry_map_empty(f.heap, f.container, 0, 1));
    bool is_new = true;
    EXPECT_EQ(quarry_map_ensure(f.heap, f.container, 1, 2, &is_new), 0u);
    EXPECT_FALSE(is_new);
    EXPECT_EQ(quarry_map_find(f.heap, f.container, 1), 0u);
    EXPECT_FALSE(quarry_map_erase(f.heap, f.container, 1));
    EXPECT_EQ(quarry_map_free_erased(f.heap, f.container), 0u);
    EXPECT_EQ(quarry_map_clear(f.heap, f.container, 0, 1), 0u);
    EXPECT_EQ(quarry_graph_clear(f.heap, f.container, 0, 1), 0u);
    quarry_graph_builder builder = quarry_graph_builder_empty();
    EXPECT_FALSE(quarry_graph_add_edge(f.heap, f.container, 1, 2, &builder));
    quarry_graph_finish(f.heap, &builder);
    EXPECT_EQ(allocations(f), before) << buckets;
    EXPECT_EQ(f.audit(), "");
  }
  EXPECT_EQ(refusals(f), 1u) << "of 4 MiB";
}
TEST(OpenclMapForLong, PlacesAreRoundedUpAndMoreEntriesThanPlacesFit) {
  fixture<quarry_map> f;
  make_table(f, 1000);
  EXPECT_EQ(quarry_map_buckets(f.container), 1024u);
  bool is_new = false;
  for (uint key = 0; key < 5000; ++key)
    ASSERT_NE(quarry_map_ensure(f.heap, f.container, key * 7, key, &is_new), 0u) << key;
  for (uint key = 0; key < 5000; ++key)
    ASSERT_EQ(*quarry_map_value(f.heap, quarry_map_find(f.heap, f.container, key * 7)), key);
  EXPECT_EQ(quarry_map_clear(f.heap, f.container, 0, 1), 5000u);
  EXPECT_TRUE(quarry_free(f.heap, f.container->table));
  EXPECT_EQ(f.audit(), "");
}
TEST(OpenclMapForLong, KeysThatComeAndGoUseUpNoPlaces) {
  fixture<quarry_map> f;
  make_table(f, 16);
  bool is_new = false;
  for (uint key = 0; key < 20'000; ++key) {
    ASSERT_NE(quarry_map_ensure(f.heap, f.container, key, key, &is_new), 0u) << key;
    ASSERT_TRUE(quarry_map_erase(f.heap, f.container, key));
    ASSERT_EQ(quarry_map_find(f.heap, f.container, key), 0u);
  }
  EXPECT_EQ(quarry_map_free_erased(f.heap, f.container), 20'000u);
  EXPECT_EQ(quarry_map_clear(f.heap, f.container, 0, 1), 0u);
  EXPECT_TRUE(quarry_free(f.heap, f.container->table));
  EXPECT_EQ(f.audit(), "");
}
TEST(OpenclMapWithoutMemory, AMoveThatCannotMoveAnEntryKeepsIt) {
  fixture<quarry_map> f;
  make_table(f, 4);
  bool is_new = false;
  for (uint key = 0; key < 9; ++key)
    ASSERT_NE(quarry_map_ensure(f.heap, f.container, key, key, &is_new), 0u);
  quarry_map target = {};
  EXPECT_FALSE(quarry_map_move(f.heap, f.container, &target, 0, 1)) << "there is no table";
  EXPECT_EQ(f.container->size, 9u);
  ASSERT_TRUE(quarry_map_init(f.heap, &target, 2));
  ASSERT_TRUE(quarry_map_empty(f.heap, &target, 0, 1));
  ASSERT_NE(quarry_map_ensure(f.heap, &target, 5, 55, &is_new), 0u);
  EXPECT_FALSE(quarry_map_move(f.heap, f.container, &target, 0, 1)) << "the target has key 5";
  EXPECT_EQ(f.container->size, 1u);
  EXPECT_EQ(*quarry_map_value(f.heap, quarry_map_find(f.heap, f.container, 5)), 5u);
  EXPECT_EQ(*quarry_map_value(f.heap, quarry_map_find(f.heap, &target, 5)), 55u);
  EXPECT_EQ(quarry_map_clear(f.heap, f.container, 0, 1), 1u);
  EXPECT_EQ(quarry_map_clear(f.heap, &target, 0, 1), 9u);
  EXPECT_TRUE(quarry_free(f.heap, target.table));
  EXPECT_TRUE(quarry_free(f.heap, f.container->table));
  EXPECT_EQ(f.audit(), "");
}
TEST(OpenclGraphWithoutMemory, AnEdgeThatFailsAddsNoNode) {
  fixture<quarry_map> f{64_KiB};
  make_table(f, 64);
  quarry_graph_builder builder = quarry_graph_builder_empty();
  uint edges = 0;
  while (quarry_graph_add_edge(f.heap, f.container, edges * 2, edges * 2 + 1, &builder)) ++edges;
  EXPECT_GE(edges, 500u);
  for (uint i = 0; i < 3; ++i) {
    EXPECT_FALSE(quarry_graph_add_edge(f.heap, f.container, 1'000'000 + i, 0, &builder));
    EXPECT_FALSE(quarry_graph_add_edge(f.heap, f.container, 0, 1'000'000 + i, &builder));
  }
  EXPECT_EQ(f.container->size, 2 * edges);
  quarry_graph_finish(f.heap, &builder);
  EXPECT_EQ(quarry_graph_clear(f.heap, f.container, 0, 1), 2 * edges);
  EXPECT_TRUE(quarry_free(f.heap, f.container->table));
  EXPECT_EQ(f.audit(), "");
}

}  // namespace opencl_container_failures_test
}  // namespace quarry::test
