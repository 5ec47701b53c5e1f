// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/host_resource.hpp"

#include "conformance/resources.hpp"

namespace quarry::test {
namespace host_resource_test {

host_resource make() { return {}; }

using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>,
                           pooled<&make, true, chunk_arena<segregated_fit>>,
                           pooled<&make, true, chunk_arena<oldest_best_fit>>,
                           pooled<&make, true, chunk_arena<lowest_best_fit>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(HostResource, ResourceConformance, all);

TEST(NullResource, HasNoMemory) {
  EXPECT_THROW((void)null_resource{}.allocate(1, 16), out_of_memory);
}

}  // namespace host_resource_test
}  // namespace quarry::test
