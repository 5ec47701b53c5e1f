// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/statistics_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/host_resource.hpp"

namespace quarry::test {
namespace statistics_resource_test {

statistics_resource<host_resource> make() {
  return statistics_resource<host_resource>{host_resource{}};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(StatisticsResource, ResourceConformance, all);

TEST(StatisticsResource, CountsTheCallsToItsUpstream) {
  auto source = make();
  void* const first = source.allocate(100, 16);
  void* const second = source.allocate(50, 16);
  source.deallocate(first, 100, 16);
  EXPECT_EQ(source.counts().allocated, 50);
  EXPECT_EQ(source.counts().peak_allocated, 150);
  EXPECT_EQ(source.counts().total_allocated, 150u);
  EXPECT_EQ(source.counts().allocations_in_use, 1);
  EXPECT_EQ(source.counts().peak_allocations, 2);
  source.deallocate(second, 50, 16);
}

TEST(StatisticsResource, CountsAPartOfTheProgramSeparately) {
  auto source = make();
  void* const outer = source.allocate(100, 16);
  source.push();
  void* const inner = source.allocate(30, 16);
  source.deallocate(outer, 100, 16);
  auto const part = source.pop();
  EXPECT_EQ(part.allocated, -70);
  EXPECT_EQ(part.peak_allocated, 30);
  EXPECT_EQ(source.counts().allocated, 30);
  EXPECT_EQ(source.counts().peak_allocated, 130);
  EXPECT_EQ(source.counts().total_allocations, 2u);
  source.deallocate(inner, 30, 16);
  EXPECT_THROW(source.pop(), bad_argument);
}

TEST(StatisticsResource, CountsAFailedCallOnlyAsAFailure) {
  statistics_resource<null_resource> source{null_resource{}};
  EXPECT_THROW((void)source.allocate(1, 16), out_of_memory);
  EXPECT_EQ(source.counts().failures, 1u);
  EXPECT_EQ(source.counts().allocated, 0);
  EXPECT_EQ(source.counts().total_allocations, 0u);
}

TEST(StatisticsResource, PassesStreamsOn) {
  statistics_resource<recording_source> source{recording_source{}};
  expect_calls_pass(source, *source.upstream().calls);
  EXPECT_EQ(source.counts().total_allocations, 3u);
  EXPECT_EQ(source.counts().total_allocated, 600u);
  EXPECT_EQ(source.counts().allocated, 0);
}

}  // namespace statistics_resource_test
}  // namespace quarry::test
