// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/heap_usage.hpp"

#include "opencl/heap_on_host.hpp"
#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace opencl_heap_usage_test {

namespace cl = opencl_c;

opencl::heap_usage usage_of(cl::heap_on_host& heap) {
  return opencl::usage_of(cl::quarry_words(heap.heap()));
}

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
  EXPECT_EQ(opencl::audit_of(words), "");
  words[heap.heap()->page_bits] |= 32;
  EXPECT_EQ(opencl::audit_of(words), "page 5 is lost");
}

}  // namespace opencl_heap_usage_test
}  // namespace quarry::test
