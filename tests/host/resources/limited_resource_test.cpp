// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/limited_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/monotonic_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"

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

TEST(LimitedResource, PassesReleaseToItsUpstream) {
  using cache = size_cache_resource<host_resource>;
  limited_resource<cache> source{cache{host_resource{}, 4}, 100};
  void* const kept = source.allocate(60, 16);
  source.deallocate(source.allocate(40, 16), 40, 16);
  EXPECT_EQ(reserved_by(source), 100u);
  any_resource owner{std::move(source)};
  owner.release();
  EXPECT_EQ(reserved_by(owner), 60u) << "the cached 40 bytes return, the allocated ones stay";
  owner.deallocate(kept, 60, 16);
}

TEST(LimitedResource, DoesNotReleaseAnUpstreamWhoseReleaseEndsTheUseOfAllocations) {
  using arena = monotonic_resource<host_resource>;
  limited_resource<arena> source{arena{host_resource{}, 1_KiB}, 100};
  void* const first = source.allocate(60, 16);
  release_unused(source);
  void* const second = source.allocate(40, 16);
  EXPECT_NE(first, second);
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
