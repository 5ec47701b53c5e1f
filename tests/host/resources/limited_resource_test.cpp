// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/limited_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/host_resource.hpp"

namespace quarry::test {
namespace limited_resource_test {

limited_resource<host_resource> make() { return {host_resource{}, 1_GiB}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(LimitedResource, ResourceConformance, all);

TEST(LimitedResource, AllocatesUpToItsLimitAndNoMore) {
  limited_resource<host_resource> source{host_resource{}, 100};
  void* const first = source.allocate(60, 16);
  EXPECT_THROW((void)source.allocate(41, 16), out_of_memory);
  EXPECT_EQ(source.allocated(), 60u);
  void* const second = source.allocate(40, 16);
  EXPECT_EQ(source.allocated(), 100u);
  source.deallocate(first, 60, 16);
  source.deallocate(second, 40, 16);
  EXPECT_EQ(source.allocated(), 0u);
}

TEST(LimitedResource, CountsNoRequestThatItsUpstreamRefused) {
  limited_resource<null_resource> source{null_resource{}, 100};
  EXPECT_THROW((void)source.allocate(60, 16), out_of_memory);
  EXPECT_EQ(source.allocated(), 0u);
}

TEST(LimitedResource, PassesStreamsOn) {
  limited_resource<recording_source> source{recording_source{}, 1000};
  expect_calls_pass(source, *source.upstream().calls);
  EXPECT_EQ(source.allocated(), 0u);
  EXPECT_THROW((void)source.allocate(1001, 16, cuda_stream{}), out_of_memory);
  EXPECT_THROW((void)source.allocate_sync(1001, 16), out_of_memory);
}

}  // namespace limited_resource_test
}  // namespace quarry::test
