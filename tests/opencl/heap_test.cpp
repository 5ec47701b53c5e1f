// SPDX-License-Identifier: Apache-2.0
// The OpenCL heap's sources as C++: fibers explore interleavings, and threads run under
// ThreadSanitizer.
#include "opencl/heap_on_host.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {
namespace opencl_heap_test {

namespace cl = opencl_c;
using opencl_c::heap_on_host;

TEST(OpenclHeap, SizeClassesHoldTheirSizesAndWasteAFifthAtMost) {
  for (std::uint32_t const shift : {10u, 12u}) {
    std::uint32_t last = 0;
    for (std::uint32_t units = 1; units <= 1u << (shift - 2); ++units) {
      std::uint32_t const id = cl::quarry_class_of(units, shift);
      std::uint32_t const size = cl::quarry_units_of_class(id, shift);
      ASSERT_LT(id, cl::quarry_class_count(shift));
      ASSERT_GE(size, units);
      ASSERT_TRUE(id == last || id == last + 1) << units;
      last = id;
      double const used = double(units) * cl::quarry_slots_of_class(id, shift) / (1u << shift);
      EXPECT_TRUE(units <= 8 || used >= 0.78) << units << " units in slots of " << size;
    }
    EXPECT_EQ(last + 1, cl::quarry_class_count(shift));
  }
}

TEST(OpenclHeap, AllocatesEverySizeTwiceAndFreesIt) {
  heap_on_host heap{64_MiB};
  for (bytes const size : {bytes{0}, bytes{1}, bytes{15}, bytes{16}, bytes{17}, bytes{2040},
                           bytes{2041}, bytes{4080}, bytes{4081}, 64_KiB, 1_MiB, 20_MiB}) {
    auto const first = cl::quarry_malloc(heap.heap(), size),
               second = cl::quarry_malloc(heap.heap(), size);
    ASSERT_NE(first, 0u) << size;
    ASSERT_NE(second, 0u) << size;
    EXPECT_GE(cl::quarry_usable_size(heap.heap(), first), size);
    EXPECT_NE(first, second);
    EXPECT_EQ(heap.audit({first, second}), "") << size;
    EXPECT_TRUE(cl::quarry_free(heap.heap(), first));
    EXPECT_TRUE(cl::quarry_free(heap.heap(), second));
  }
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclHeap, RefusesARequestLargerThanTheHeapAndRecordsAFault) {
  heap_on_host heap{1_MiB};
  for (bytes const size : {1_MiB, 5_MiB, 4_GiB, 64_GiB, ~bytes{0}})
    EXPECT_EQ(cl::quarry_malloc(heap.heap(), size), 0u);
  EXPECT_EQ(heap.heap()->fault_kind, QUARRY_FAULT_OUT_OF_MEMORY);
  EXPECT_EQ(heap.heap()->fault_bytes, 1_MiB);
  EXPECT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), 5u);
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclHeap, TheCountOfFaultsDoesNotWrap) {
  heap_on_host on_host{1_MiB};
  auto& count = on_host.heap()->fault_counts[QUARRY_FAULT_OUT_OF_MEMORY];
  for (uint const before : {0x7fff'ffffu, 0x8000'0000u, 0xffff'ffffu}) {
    count = before;
    EXPECT_EQ(quarry_malloc(on_host.heap(), 1_GiB), 0u);
    EXPECT_EQ(count, std::max(before, 0x8000'0000u));
  }
}

TEST(OpenclHeap, ReportsWrongFreesAndChangesNothing) {
  heap_on_host heap{1_MiB};
  auto* const h = heap.heap();
  auto const small = cl::quarry_malloc(h, 100), large = cl::quarry_malloc(h, 20_KiB);
  std::multiset<cl::quarry_ref> const live{small, large};
  EXPECT_FALSE(cl::quarry_free(h, small + 1));
  EXPECT_FALSE(cl::quarry_free(h, large + 64));
  EXPECT_FALSE(cl::quarry_free(h, large + 1));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_INTERIOR_REFERENCE), 3u);
  EXPECT_FALSE(cl::quarry_free(h, 1));
  EXPECT_FALSE(cl::quarry_free(h, h->units));
  EXPECT_FALSE(cl::quarry_free(h, ~0u));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_FOREIGN_REFERENCE), 3u);
  EXPECT_EQ(heap.audit(live), "");
  EXPECT_TRUE(cl::quarry_free(h, small));
  EXPECT_TRUE(cl::quarry_free(h, large));
  EXPECT_FALSE(cl::quarry_free(h, small));
  EXPECT_FALSE(cl::quarry_free(h, large));
  EXPECT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 2u);
  EXPECT_TRUE(cl::quarry_free(h, 0));
  EXPECT_EQ(heap.audit({}), "");
}

TEST(OpenclHeap, IsAllocatedFullyAndFreedCompletely) {
  for (bytes const heap_size : {2_MiB, 64_MiB}) {
    for (bytes const size :
         {bytes{16}, bytes{64}, bytes{100}, bytes{128}, bytes{200}, bytes{1000}, bytes{1024},
          bytes{1025}, bytes{4096}, bytes{5000}, bytes{30000}, bytes{65536}}) {
      if (heap_size / size > 200000) continue;
      heap_on_host heap{heap_size};
      std::multiset<cl::quarry_ref> live;
      while (auto const ref = cl::quarry_malloc(heap.heap(), size)) live.insert(ref);
      double const used = double(live.size() * size) / double(heap_size);
      EXPECT_GE(used, std::has_single_bit(size) && size <= 16384 ? 0.85 : 0.78)
          << size << " of " << heap_size;
      ASSERT_EQ(heap.audit(live), "");
      std::size_t const all = live.size();
      std::multiset<cl::quarry_ref> kept;
      std::size_t i = 0;
      for (auto const ref : live) {
        if (i++ % 4 == 0) {
          kept.insert(ref);
        } else {
          ASSERT_TRUE(cl::quarry_free(heap.heap(), ref));
        }
      }
      ASSERT_EQ(heap.audit(kept), "");
      while (auto const ref = cl::quarry_malloc(heap.heap(), size)) kept.insert(ref);
      EXPECT_EQ(kept.size(), all) << size;
      for (auto const ref : kept) ASSERT_TRUE(cl::quarry_free(heap.heap(), ref));
      auto const half = cl::quarry_malloc(heap.heap(), heap_size / 2);
      EXPECT_NE(half, 0u) << "small slots did not merge: " << size;
      ASSERT_EQ(heap.audit(half == 0 ? std::multiset<cl::quarry_ref>{}
                                     : std::multiset<cl::quarry_ref>{half}),
                "");
    }
  }
}

// One work-item clears the bit above an empty word. A second one has inserted a member there and
// found the bit still set. A third one has cleared the bit one level higher. The first work-item
// then sees the member.
TEST(OpenclTree, ARepairReachesTheTop) {
  heap_on_host heap{63_MiB};
  auto* const tree = &heap.heap()->span_tree;
  ASSERT_GT(tree->words[1], 2u);
  auto* const base = cl::quarry_class_tree(heap.heap(), 0);
  constexpr std::uint32_t member = 3000;
  cl::quarry_tree_insert(base, tree, member);
  *cl::quarry_tree_word(base, tree, 1, member >> 10) = 0;
  *cl::quarry_tree_word(base, tree, 2, 0) = 0;
  ASSERT_EQ(cl::quarry_tree_next(base, tree, 0), QUARRY_NONE);
  cl::quarry_tree_repair(base, tree, 1, member >> 5);
  EXPECT_EQ(cl::quarry_tree_next(base, tree, 0), member);
}
TEST(OpenclTree, MembersThatStayAreFoundDuringConcurrentSearches) {
  heap_on_host heap{63_MiB};
  auto* const tree = &heap.heap()->span_tree;
  auto* const base = cl::quarry_class_tree(heap.heap(), 0);
  for (std::uint64_t const seed : cl::fiber_seeds()) {
    std::memset(base, 0, std::size_t{4} * heap.heap()->class_tree_words);
    simt::launch_fibers({1, 8}, {.seed = seed}, [&] {
      std::uint32_t const item = simt::this_place().thread, member = 3000 + item * 32;
      for (int i = 0; i < 4; ++i) {
        if (item >= 4) {
          (void)cl::quarry_tree_next(base, tree, 0);
        } else {
          cl::quarry_tree_insert(base, tree, member);
          if (i < 3) cl::quarry_tree_remove(base, tree, member);
        }
      }
    });
    for (std::uint32_t item = 0; item < 4; ++item)
      ASSERT_EQ(cl::quarry_tree_next(base, tree, item == 0 ? 0 : 2969 + item * 32),
                3000 + item * 32)
          << "seed " << seed;
  }
}

/// Work-items allocate, write, check and free at random; each byte has its owner's tag.
struct churn {
  cl::quarry_heap heap;
  std::uint64_t seed;
  std::uint32_t steps;
  bytes max_size;
  std::vector<std::multiset<cl::quarry_ref>>* left;
  std::uint32_t* wrong;

  void operator()() const {
    std::uint64_t const rank = simt::this_place().rank();
    std::mt19937_64 random{seed * 1000 + rank};
    struct owned {
      cl::quarry_ref ref;
      bytes size;
    };
    std::vector<owned> mine;
    auto const tag = static_cast<unsigned char>(rank + 1);
    auto const free_one = [&](std::size_t i) {
      auto const* const bytes_of = static_cast<unsigned char*>(cl::quarry_at(heap, mine[i].ref));
      for (bytes b = 0; b < mine[i].size; ++b)
        if (bytes_of[b] != tag) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
      if (!cl::quarry_free(heap, mine[i].ref))
        simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
      mine[i] = mine.back();
      mine.pop_back();
    };
    for (std::uint32_t step = 0; step < steps; ++step) {
      if (!mine.empty() && random() % 2 == 0) {
        free_one(random() % mine.size());
        continue;
      }
      bytes const size = random() % 8 == 0 ? random() % max_size : random() % 64;
      auto const ref = cl::quarry_malloc(heap, size);
      if (ref == 0) continue;
      std::memset(cl::quarry_at(heap, ref), tag, size);
      mine.push_back({ref, size});
    }
    if (rank % 2 == 0)
      while (!mine.empty()) free_one(0);
    for (auto const& one : mine) (*left)[rank].insert(one.ref);
  }
};

std::multiset<cl::quarry_ref> all_of(std::vector<std::multiset<cl::quarry_ref>> const& left) {
  std::multiset<cl::quarry_ref> all;
  for (auto const& one : left) all.insert(one.begin(), one.end());
  return all;
}

TEST(OpenclHeap, FibersNeverShareMemory) {
  for (std::uint64_t const seed : cl::fiber_seeds()) {
    heap_on_host heap{256_KiB, seed % 2 == 0 ? 1u : 2u};
    std::vector<std::multiset<cl::quarry_ref>> left(64);
    std::uint32_t wrong = 0;
    simt::launch_fibers({2, 32}, {.seed = seed},
                        churn{heap.heap(), seed, 40, 20_KiB, &left, &wrong});
    ASSERT_EQ(wrong, 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit(all_of(left)), "") << "seed " << seed;
    ASSERT_EQ(heap.heap()->fault_counts[QUARRY_FAULT_DOUBLE_FREE], 0u);
  }
}

/// All slots of full spans are freed at the same time. When the free of a word's first slot
/// returns, the span may be closed, or opened again.
TEST(OpenclHeap, FreesOfAFullHeapByManyWorkItemsAllSucceed) {
  constexpr bytes sizes[] = {16, 512, 1_KiB, 4_KiB};
  for (std::uint64_t const seed : cl::fiber_seeds()) {
    heap_on_host heap{128_KiB, 1};
    auto* const h = heap.heap();
    auto const size = sizes[seed % std::size(sizes)];
    std::vector<cl::quarry_ref> full;
    while (auto const ref = cl::quarry_malloc(h, size)) full.push_back(ref);
    ASSERT_GE(full.size() * size, 64_KiB);
    std::uint32_t refused = 0;
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      for (auto i = simt::this_place().rank(); i < full.size(); i += 64)
        if (!cl::quarry_free(h, full[i]))
          simt::atomic_ref<std::uint32_t>{refused}.fetch_add(1, simt::relaxed);
    });
    ASSERT_EQ(refused, 0u) << "seed " << seed;
    ASSERT_EQ(heap.faults(QUARRY_FAULT_DOUBLE_FREE), 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit({}), "") << "seed " << seed;
  }
}

/// So many work-items that they use up the heap if each opens a span while another one opens one.
TEST(OpenclHeap, MallocsByManyWorkItemsOfOneAreaFindTheFreeHalf) {
  auto const seeds = cl::fiber_seeds();
  for (std::size_t round = 0; round < std::min<std::size_t>(seeds.size(), 10); ++round) {
    heap_on_host heap{1_MiB, 32, true};
    auto* const h = heap.heap();
    ASSERT_EQ(h->area_mask, 0u);
    constexpr std::uint32_t items = 1024, each = 24;  // 384 KiB
    std::vector<cl::quarry_ref> refs(items * each);
    simt::launch_fibers({32, 32}, {.seed = seeds[round]}, [&] {
      for (std::uint32_t i = 0; i < each; ++i)
        refs[simt::this_place().rank() * each + i] = cl::quarry_malloc(h, 16);
    });
    ASSERT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), 0u) << "seed " << seeds[round];
    ASSERT_EQ(heap.audit({refs.begin(), refs.end()}), "") << "seed " << seeds[round];
  }
}

/// All spans are open, and half of their slots are free. Searches unlist full words and spans all
/// the time, and must not take that for an empty class.
TEST(OpenclHeap, MallocsByManyWorkItemsFindTheFreeSlotsOfAFullyOpenedHeap) {
  auto const seeds = cl::fiber_seeds();
  for (std::size_t round = 0; round < std::min<std::size_t>(seeds.size(), 20); ++round) {
    heap_on_host heap{512_KiB, 32, true};
    auto* const h = heap.heap();
    std::vector<cl::quarry_ref> refs;
    while (auto const ref = cl::quarry_malloc(h, 16)) refs.push_back(ref);
    std::size_t const faults = heap.faults(QUARRY_FAULT_OUT_OF_MEMORY);
    std::mt19937_64 random{seeds[round]};
    std::shuffle(refs.begin(), refs.end(), random);
    constexpr std::uint32_t items = 512;
    std::uint32_t const each = static_cast<std::uint32_t>(refs.size() / 2 / items);
    for (std::uint32_t i = 0; i < items * each + items; ++i) {
      ASSERT_TRUE(cl::quarry_free(h, refs.back()));
      refs.pop_back();
    }
    std::vector<cl::quarry_ref> again(items * each);
    simt::launch_fibers({16, 32}, {.seed = seeds[round]}, [&] {
      for (std::uint32_t i = 0; i < each; ++i)
        again[simt::this_place().rank() * each + i] = cl::quarry_malloc(h, 16);
    });
    ASSERT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), faults) << "seed " << seeds[round];
    refs.insert(refs.end(), again.begin(), again.end());
    ASSERT_EQ(heap.audit({refs.begin(), refs.end()}), "") << "seed " << seeds[round];
  }
}

/// The words of a work-item's lease are full, and the words elsewhere are not.
TEST(OpenclHeap, AUsedHeapServesFreeSlotsBeforeItOpensSpans) {
  for (bool const is_gpu : {false, true}) {
    for (bytes const size : {16, 64, 1024}) {
      heap_on_host heap{4_MiB, 0, is_gpu};
      auto* const h = heap.heap();
      std::vector<cl::quarry_ref> refs;
      while (h->used_pages < h->usable_pages / 10 * 6) refs.push_back(cl::quarry_malloc(h, size));
      auto const pages = h->used_pages;
      std::mt19937_64 random{1};
      std::shuffle(refs.begin(), refs.end(), random);
      for (std::size_t i = 0; i < refs.size() / 4; ++i) ASSERT_TRUE(cl::quarry_free(h, refs[i]));
      for (std::size_t i = 0; i < refs.size() / 4; ++i) refs[i] = cl::quarry_malloc(h, size);
      EXPECT_LE(h->used_pages, pages + QUARRY_PAGES_PER_SPAN) << size << " bytes";
      ASSERT_EQ(heap.audit({refs.begin(), refs.end()}), "");
    }
  }
}

/// One span of each class is empty. Large allocations at once need the pages of all of them.
TEST(OpenclHeap, LargeAllocationsAtOnceFindTheMemoryThatOneOfThemReclaims) {
  for (std::uint64_t const seed : cl::fiber_seeds()) {
    heap_on_host heap{768_KiB, 1};
    auto* const h = heap.heap();
    for (cl::uint id = 0; id < h->classes; ++id)
      ASSERT_TRUE(cl::quarry_free(
          h, cl::quarry_malloc(
                 h, bytes{16} * cl::quarry_units_of_class(id, cl::quarry_span_shift(h)))));
    cl::quarry_ref refs[2];
    simt::launch_fibers({1, 2}, {.seed = seed},
                        [&] { refs[simt::this_place().thread] = cl::quarry_malloc(h, 64'000); });
    ASSERT_EQ(heap.faults(QUARRY_FAULT_OUT_OF_MEMORY), 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit({refs[0], refs[1]}), "") << "seed " << seed;
  }
}

TEST(OpenclHeapOnThreads, ThreadsNeverShareMemory) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    heap_on_host heap{512_KiB, 1};
    std::vector<std::multiset<cl::quarry_ref>> left(4);
    std::uint32_t wrong = 0;
    simt::launch_threads({4, 1}, 4, churn{heap.heap(), seed, 2000, 20_KiB, &left, &wrong});
    ASSERT_EQ(wrong, 0u) << "seed " << seed;
    ASSERT_EQ(heap.audit(all_of(left)), "") << "seed " << seed;
  }
}

/// Pages change their owner twice, with no other synchronisation: from a large allocation to the
/// span that a second work-item opens, and to the slot that a third work-item claims. (F) (P) (O)
/// (C)
/// The slot lies in the second word of slot bits. There the opener's store alone passes the owner's
/// access on. The first word is also released when the opener puts its slot back.
TEST(OpenclHeapOnThreads, ASlotFollowsTheLastAccessOfThePagesOwner) {
  for (int round = 0; round < 100; ++round) {
    heap_on_host heap{24_KiB, 1};
    ASSERT_EQ(heap.heap()->spans, 1u);
    auto* const h = heap.heap();
    auto const large = cl::quarry_malloc(h, 16_KiB);
    ASSERT_NE(large, 0u);
    std::uint32_t started = 0;
    simt::launch_threads({3, 1}, 3, [&] {
      simt::atomic_ref<std::uint32_t> const arrivals{started};
      arrivals.fetch_add(1, simt::relaxed);  // the start of a thread would also order the accesses
      while (arrivals.load(simt::relaxed) != 3) std::this_thread::yield();
      switch (simt::this_place().block) {
        case 0:
          *static_cast<std::uint32_t*>(cl::quarry_at(h, large + 33)) = 1;
          ASSERT_TRUE(cl::quarry_free(h, large));
          break;
        case 1:
          while (cl::quarry_claim_span(h, 0) == QUARRY_NONE) std::this_thread::yield();
          cl::quarry_open_span(h, 0, 0);
          break;
        default:
          for (cl::uint used = 0; cl::quarry_claim_bits(h, 0, 0, 1, &used, 1, 1) == 0; used = 0)
            std::this_thread::yield();
          *static_cast<std::uint32_t*>(cl::quarry_at(h, cl::quarry_base_of_span(h, 0) + 33)) = 2;
      }
    });
  }
}

}  // namespace opencl_heap_test
}  // namespace quarry::test
