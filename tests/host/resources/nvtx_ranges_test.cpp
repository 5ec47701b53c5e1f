// SPDX-License-Identifier: Apache-2.0
// Needs NVTX's headers: without these there is nothing to see here.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include "quarry/host/resources/nvtx_ranges.hpp"

#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace nvtx_ranges_test {

/// What a tool sees is the tool's; that ranges are begun and ended in pairs is checked by
/// RangedResource.
TEST(NvtxRanges, LeaveTheResourceAsItIsWhileNoToolLooks) {
  ranged_resource source{host_resource{}, nvtx_ranges{}, "host"};
  void* const one = source.allocate(100, 64);
  void* const other = source.allocate(100, 64);
  EXPECT_NE(one, other);
  EXPECT_THROW((void)source.allocate(1, 3), bad_argument);
  source.deallocate(one, 100, 64);
  source.deallocate(other, 100, 64);
}

}  // namespace nvtx_ranges_test
}  // namespace quarry::test
#endif
