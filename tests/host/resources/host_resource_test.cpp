// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/host_resource.hpp"

#include "conformance/resources.hpp"
#include "support/placements.hpp"

namespace quarry::test {
namespace host_resource_test {

host_resource make() { return {}; }

template <class Placement>
using in_pool = pooled<&make, true, Placement>;
using all = types_of_placements<in_pool, alone<&make, true>>;
bool const is_registered = conforms("HostResource", all{});

TEST(NullResource, HasNoMemory) {
  EXPECT_THROW((void)null_resource{}.allocate(1, 16), out_of_memory);
}

}  // namespace host_resource_test
}  // namespace quarry::test
