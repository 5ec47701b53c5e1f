// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/limited_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/noted_source.hpp"
#include "quarry/host/resources/host_resource.hpp"

namespace quarry::test {
namespace limited_resource_test {

limited_resource<host_resource> make() { return {host_resource{}, 1_GiB}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(LimitedResource, ResourceConformance, all);

TEST(LimitedResource, GivesItsLastByteAndNoMore) {
  limited_resource<host_resource> from{host_resource{}, 100};
  void* const one = from.allocate(60, 16);
  EXPECT_THROW((void)from.allocate(41, 16), out_of_memory);
  EXPECT_EQ(from.allocated(), 60u);
  void* const other = from.allocate(40, 16);
  EXPECT_EQ(from.allocated(), 100u);
  from.deallocate(one, 60, 16);
  from.deallocate(other, 40, 16);
  EXPECT_EQ(from.allocated(), 0u);
}

TEST(LimitedResource, CountsNothingThatItsUpstreamRefused) {
  limited_resource<null_resource> from{null_resource{}, 100};
  EXPECT_THROW((void)from.allocate(60, 16), out_of_memory);
  EXPECT_EQ(from.allocated(), 0u);
}

TEST(LimitedResource, PassesStreamsOn) {
  limited_resource<noted_source> from{noted_source{}, 1000};
  expect_calls_pass(from, *from.upstream().calls);
  EXPECT_EQ(from.allocated(), 0u);
  EXPECT_THROW((void)from.allocate(1001, 16, cuda_stream{}), out_of_memory);
  EXPECT_THROW((void)from.allocate_sync(1001, 16), out_of_memory);
}

}  // namespace limited_resource_test
}  // namespace quarry::test
