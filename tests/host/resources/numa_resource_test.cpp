// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/numa_resource.hpp"

#include "conformance/resources.hpp"

namespace quarry::test {
namespace numa_resource_test {

/// Skips its tests where the system does not let a process choose a node.
numa_resource make_node() {
  try {
    return numa_resource{0};
  } catch (bad_argument const& failure) {
    throw resource_failed{"no nodes", failure.what()};
  }
}
using all = testing::Types<alone<&make_node, true>, pooled<&make_node, true, fast_fit>>;
bool const is_registered = conforms("NumaResource", all{});

TEST(NumaResource, RefusesAMissingNode) {
  EXPECT_THROW(numa_resource{1023}, bad_argument);
  EXPECT_THROW(numa_resource{100'000}, bad_argument);
}

TEST(NumaResource, RefusesMoreThanAPagesAlignment) {
  try {
    auto source = make_node();
    EXPECT_THROW((void)source.allocate(10, 1 << 20), bad_argument);
    EXPECT_EQ(source.node(), 0u);
  } catch (resource_failed const& failure) {
    GTEST_SKIP() << failure.message();
  }
}

}  // namespace numa_resource_test
}  // namespace quarry::test
