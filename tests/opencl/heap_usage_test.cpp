// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/heap_usage.hpp"

#include "opencl/heap_on_host.hpp"
#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace opencl_heap_usage_test {

namespace cl = opencl_c;

opencl::heap_usage usage_of(cl::heap_on_host& heap) { return opencl::usage_of(heap.copy()); }

TEST(OpenclHeapUsage, MetadataTakeFourPerCentAtMost) {
  for (bytes const size : {1_MiB, 2_MiB, 64_MiB, 256_MiB}) {
    cl::heap_on_host heap{size};
    auto const usage = usage_of(heap);
    EXPECT_GE(double(usage.usable), 0.96 * double(size)) << size;
    EXPECT_LE(usage.usable, size);
    EXPECT_EQ(usage.reserved, 0u);
    EXPECT_EQ(usage.allocations_in_use, 0u);
  }
}

TEST(OpenclHeapUsage, CountsSlotsByTheirSizeAndLargeAllocationsByTheirPages) {
  cl::heap_on_host heap{1_MiB};
  auto const small = cl::quarry_malloc(heap.heap(), 100),
             large = cl::quarry_malloc(heap.heap(), 5000);
  auto const usage = usage_of(heap);
  EXPECT_EQ(usage.allocations_in_use, 2u);
  EXPECT_EQ(usage.allocated, 112u + 5120u);
  EXPECT_EQ(usage.reserved, 16_KiB + 5120u);
  EXPECT_TRUE(cl::quarry_free(heap.heap(), small));
  EXPECT_TRUE(cl::quarry_free(heap.heap(), large));
  EXPECT_EQ(usage_of(heap).allocated, 0u);
}

TEST(OpenclHeapUsage, ImpossibleSizesAreRefused) {
  EXPECT_THROW((void)opencl::plan_heap(1000), bad_argument);
  EXPECT_THROW((void)opencl::plan_heap(65_GiB), bad_argument);
  EXPECT_THROW((void)opencl::plan_heap(64_GiB), bad_argument);
  EXPECT_THROW((void)opencl::plan_heap(1_MiB, 3), bad_argument);
  EXPECT_THROW((void)opencl::plan_heap(1_MiB, 1u << 29), bad_argument);
  EXPECT_THROW((void)opencl::plan_heap(64_KiB, 0, false, 32_GiB), bad_argument);
}

TEST(OpenclHeapUsage, AnAuditDescribesEachViolation) {
  cl::heap_on_host heap{1_MiB};
  auto* const words = cl::quarry_words(heap.heap());
  EXPECT_EQ(opencl::audit_of(heap.copy()), "");
  words[heap.heap()->page_bits] |= 32;
  EXPECT_EQ(opencl::audit_of(heap.copy()), "page 5 is lost");
}

TEST(OpenclHeapUsage, AStoreThroughANullReferenceDamagesNothingAndTheAuditReportsIt) {
  cl::heap_on_host heap{1_MiB};
  auto* const null = static_cast<unsigned char*>(cl::quarry_at(heap.heap(), 0));
  std::memset(null, 0xcd, 4_KiB);
  EXPECT_EQ(opencl::audit_of(heap.copy()).substr(0, 63),
            "a kernel wrote through a null reference: byte 0 behind it is no");
  auto const ref = cl::quarry_malloc(heap.heap(), 100);
  EXPECT_NE(ref, 0u);
  EXPECT_TRUE(cl::quarry_free(heap.heap(), ref));
  std::memset(null, 0, 4_KiB);
  EXPECT_EQ(opencl::audit_of(heap.copy()), "");
  null[4095] = 1;
  EXPECT_NE(opencl::audit_of(heap.copy()).find("byte 4092"), std::string::npos);
}

TEST(OpenclHeapUsage, AnAuditReportsEachOverwrittenWordOfTheHeapState) {
  cl::heap_on_host heap{1_MiB};
  auto* const first = &heap.heap()->magic;
  auto* const end = &heap.heap()->top_span;
  ASSERT_GT(end - first, 30);
  for (auto* word = first; word != end; ++word) {
    auto const kept = std::exchange(*word, *word ^ 0x4000'0001u);
    EXPECT_NE(opencl::audit_of(heap.copy()).find("heap state was overwritten"), std::string::npos)
        << word - first;
    EXPECT_EQ(usage_of(heap).allocations_in_use, 0u);
    *word = kept;
  }
  EXPECT_EQ(opencl::audit_of(heap.copy()), "");
}

TEST(OpenclHeapUsage, MetadataOfAnyValueAreReadWithinTheHeap) {
  std::mt19937 random{7};
  for (bool const is_debug : {false, true}) {
    cl::heap_on_host heap{1_MiB, 0, false, is_debug};
    auto* const words = cl::quarry_words(heap.heap());
    auto const first = static_cast<std::size_t>(&heap.heap()->top_span - words);
    for (std::size_t word = first; word < heap.copy().plan.words; ++word)
      words[word] = static_cast<std::uint32_t>(random()) >> random() % 32;
    EXPECT_NE(opencl::audit_of(heap.copy()), "");
    EXPECT_GT(usage_of(heap).allocations_in_use, 0u);
    auto const in_heap = [&](bytes offset, bytes size, void* target) {
      ASSERT_LE(offset + size, 1_MiB);
      std::memset(target, 0, size);
    };
    EXPECT_EQ(opencl::live_allocations_of(heap.copy(), 100'000, in_heap).size(),
              usage_of(heap).allocations_in_use);
  }
}

TEST(OpenclHeapUsage, OfAHeapThatCanGrowOnlyTheBuffersPagesAreRead) {
  auto plan = opencl::plan_heap(1_MiB, 0, false, 32_MiB);
  plan.has_trailers = 1;
  std::vector<std::uint32_t> words(plan.words);
  std::memcpy(words.data(), &plan, sizeof plan);
  opencl::heap_copy const heap{plan, words.data()};
  for (std::uint32_t const first : {0u, plan.usable_pages - 1, plan.usable_pages})
    words[plan.large_pages + first] = plan.usable_pages + 1;
  EXPECT_EQ(opencl::usage_of(heap).allocated, 0u);
  auto const refuse = [](bytes, bytes, void*) { FAIL(); };
  EXPECT_TRUE(opencl::live_allocations_of(heap, 1000, refuse).empty());
}

}  // namespace opencl_heap_usage_test
}  // namespace quarry::test
