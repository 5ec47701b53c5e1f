// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/sam_headroom_resource.hpp"

#include "conformance/resources.hpp"

namespace quarry::test {
namespace sam_headroom_resource_test {

/// Skips its tests where no GPU can access pageable memory.
sam_headroom_resource make() { return sam_headroom_resource{1_GiB}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("SamHeadroomResource", all{});

TEST(SamHeadroomResource, RefusesAMissingDevice) {
  EXPECT_THROW((sam_headroom_resource{1_GiB, 1000}), error) << "also on a machine without CUDA";
}

TEST(SamHeadroomResource, KeepsTheHeadroomFree) {
  using detail::part_beyond_headroom;
  EXPECT_EQ(part_beyond_headroom(1_MiB, 2_GiB, 1_GiB), 1_MiB) << "all of it fits";
  EXPECT_EQ(part_beyond_headroom(2_MiB, 1_GiB + 1_MiB, 1_GiB), 1_MiB) << "a part of it fits";
  EXPECT_EQ(part_beyond_headroom(1_MiB, 1_GiB, 1_GiB), 0u);
  EXPECT_EQ(part_beyond_headroom(1_MiB, 0, ~bytes{0}), 0u);
  EXPECT_EQ(part_beyond_headroom(1000, 2_GiB, 0), 768u) << "a multiple of 256";
  EXPECT_EQ(part_beyond_headroom(0, 2_GiB, 0), 0u);
}

TEST(SamHeadroomResource, RefusesABadAlignment) {
  try {
    sam_headroom_resource source = make();
    EXPECT_THROW((void)source.allocate(8, 24), bad_argument);
  } catch (resource_failed const&) {
    GTEST_SKIP() << "no GPU that can access pageable memory";
  }
}

}  // namespace sam_headroom_resource_test
}  // namespace quarry::test
