// SPDX-License-Identifier: Apache-2.0
// These tests need NVTX's headers; without the headers, this file is empty.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include "quarry/host/resources/nvtx_ranges.hpp"

#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace nvtx_ranges_test {

/// Only a tool can check the ranges that the tool receives. The tests of RangedResource check that
/// each range ends.
TEST(NvtxRanges, DoNotAffectTheResourceWithoutATool) {
  ranged_resource source{host_resource{}, nvtx_ranges{}, "host"};
  void* const first = source.allocate(100, 64);
  void* const second = source.allocate(100, 64);
  EXPECT_NE(first, second);
  EXPECT_THROW((void)source.allocate(1, 3), bad_argument);
  source.deallocate(first, 100, 64);
  source.deallocate(second, 100, 64);
}

}  // namespace nvtx_ranges_test
}  // namespace quarry::test
#endif
