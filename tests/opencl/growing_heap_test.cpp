// SPDX-License-Identifier: Apache-2.0
// Heaps that grow, as heap::grow makes them, in the host's memory.
#include "opencl/heap_plan.hpp"
#include "quarry/opencl/heap_usage.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace opencl_growing_heap_test {

using namespace opencl_c;

/// A heap that moves into a larger buffer, whose new bytes are not zeros.
class growing_heap {
 public:
  growing_heap(bytes size, bytes max_size, bool is_debug = false)
      : plan_{opencl::plan_heap(size, 2, false, max_size)}, memory_(size / 64) {
    plan_.has_trailers = is_debug ? 1 : 0;
    std::memcpy(memory_.data(), &plan_, sizeof plan_);
    quarry_initialise(heap(), 0, 1);
  }
  quarry_heap heap() { return reinterpret_cast<quarry_heap>(memory_.data()); }
  unsigned char* at(quarry_ref ref) { return static_cast<unsigned char*>(quarry_at(heap(), ref)); }

  void grow(bytes size) {
    line garbage;
    garbage.bytes.fill(std::byte{0xee});
    std::vector<line> larger(size / 64, garbage);
    std::memcpy(larger.data(), memory_.data(), memory_.size() * sizeof(line));
    memory_ = std::move(larger);
    auto const pages = heap()->usable_pages;
    ASSERT_TRUE(opencl::resize(*heap(), size));
    ASSERT_TRUE(opencl::resize(plan_, size));
    if (heap()->usable_pages == pages) return;
    for (uint item = 0; item < 7; ++item)
      quarry_add_pages(heap(), pages, heap()->usable_pages, item, 7);
  }
  opencl::heap_copy copy() { return {plan_, quarry_words(heap())}; }
  std::string audit() { return opencl::audit_of(copy()); }
  opencl::heap_usage usage() { return opencl::usage_of(copy()); }
  /// The first reference that lies behind the heap's pages of this moment.
  quarry_ref end() { return heap()->first_unit + (heap()->usable_pages << heap()->page_shift); }

 private:
  struct alignas(64) line {
    std::array<std::byte, 64> bytes;
  };
  quarry_heap_state plan_;
  std::vector<line> memory_;
};

TEST(OpenclGrowingHeap, AFullHeapKeepsItsAllocationsAndServesTheNewMemory) {
  for (bytes const size : {bytes{16}, bytes{100}, bytes{1024}, bytes{5000}, 20_KiB}) {
    growing_heap heap{256_KiB, 1_MiB};
    std::vector<quarry_ref> old;
    while (auto const ref = quarry_malloc(heap.heap(), size)) {
      std::memset(heap.at(ref), 1, size);
      old.push_back(ref);
    }
    auto const end = heap.end();
    heap.grow(1_MiB);
    ASSERT_EQ(heap.audit(), "") << size;
    EXPECT_EQ(heap.usage().allocations_in_use, old.size());
    std::vector<quarry_ref> fresh;
    while (auto const ref = quarry_malloc(heap.heap(), size)) {
      // A large allocation may begin in old pages that were too few before, and end in new ones.
      ASSERT_TRUE(size > 4_KiB || ref >= end) << size;
      std::memset(heap.at(ref), 2, size);
      fresh.push_back(ref);
    }
    EXPECT_GE(double(fresh.size()), 2.4 * double(old.size())) << size;
    for (auto const ref : old) {
      ASSERT_EQ(heap.at(ref)[0], 1);
      ASSERT_EQ(heap.at(ref)[size - 1], 1);
      ASSERT_TRUE(quarry_free(heap.heap(), ref));
    }
    for (auto const ref : fresh) ASSERT_TRUE(quarry_free(heap.heap(), ref));
    ASSERT_EQ(heap.audit(), "") << size;
    EXPECT_NE(quarry_malloc(heap.heap(), 700_KiB), 0u) << "old and new pages are one run";
  }
}

/// Also reserves that a work-item returns after the heap grew.
TEST(OpenclGrowingHeap, EveryStepBetweenAllocationsKeepsTheInvariants) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    bool const is_debug = seed % 2 == 0;
    growing_heap heap{128_KiB, 2_MiB, is_debug};
    std::mt19937_64 random{seed};
    std::map<quarry_ref, bytes> live;
    quarry_reserve reserve = quarry_reserve_empty();
    for (bytes size = 128_KiB; size <= 2_MiB; size += 64 * (1 + random() % 1500)) {
      heap.grow(size);
      ASSERT_EQ(heap.audit(), "") << "seed " << seed << ", " << size << " bytes";
      for (int i = 0; i < 20; ++i) {
        bytes const wanted = random() % (random() % 8 == 0 ? 6'000 : 200);
        auto const ref = random() % 2 == 0 ? quarry_malloc(heap.heap(), wanted)
                                           : quarry_reserve_malloc(heap.heap(), &reserve, wanted);
        if (ref == 0) continue;
        std::memset(heap.at(ref), int(ref & 0xff), wanted);
        ASSERT_TRUE(live.emplace(ref, wanted).second) << "seed " << seed;
      }
      while (live.size() > 200) {
        auto const [ref, held] = *live.begin();
        for (bytes i = 0; i < held; ++i) ASSERT_EQ(heap.at(ref)[i], ref & 0xff) << "seed " << seed;
        ASSERT_TRUE(quarry_free(heap.heap(), ref)) << "seed " << seed;
        live.erase(live.begin());
      }
    }
    quarry_reserve_return(heap.heap(), &reserve);
    ASSERT_EQ(heap.usage().allocations_in_use, live.size()) << "seed " << seed;
    for (auto const& [ref, held] : live) ASSERT_TRUE(quarry_free(heap.heap(), ref));
    ASSERT_EQ(heap.audit(), "") << "seed " << seed;
    for (std::uint32_t kind = QUARRY_FAULT_DOUBLE_FREE; kind < QUARRY_FAULT_KINDS; ++kind)
      ASSERT_EQ(heap.heap()->fault_counts[kind], 0u) << "seed " << seed << ", fault " << kind;
  }
}

TEST(OpenclGrowingHeap, OfTwoHeapsOneGrowsAndTheOtherStays) {
  growing_heap first{256_KiB, 1_MiB}, second{256_KiB, 1_MiB};
  std::vector<quarry_ref> of_first, of_second;
  while (auto const ref = quarry_malloc(first.heap(), 64)) of_first.push_back(ref);
  while (auto const ref = quarry_malloc(second.heap(), 64)) of_second.push_back(ref);
  first.grow(1_MiB);
  auto const fresh = quarry_malloc(first.heap(), 64);
  ASSERT_NE(fresh, 0u);
  EXPECT_EQ(quarry_malloc(second.heap(), 64), 0u);
  EXPECT_FALSE(quarry_free(second.heap(), fresh)) << "a reference behind the other heap's pages";
  EXPECT_EQ(second.heap()->fault_counts[QUARRY_FAULT_FOREIGN_REFERENCE], 1u);
  EXPECT_EQ(first.usage().allocations_in_use, of_first.size() + 1);
  EXPECT_EQ(second.usage().allocations_in_use, of_second.size());
  EXPECT_EQ(first.audit(), "");
  EXPECT_EQ(second.audit(), "");
}

}  // namespace opencl_growing_heap_test
}  // namespace quarry::test
