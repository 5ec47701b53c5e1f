// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/statistics_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/noted_source.hpp"
#include "quarry/host/resources/host_resource.hpp"

namespace quarry::test {
namespace statistics_resource_test {

statistics_resource<host_resource> make() {
  return statistics_resource<host_resource>{host_resource{}};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(StatisticsResource, ResourceConformance, all);

TEST(StatisticsResource, CountsWhatPassesThrough) {
  auto from = make();
  void* const one = from.allocate(100, 16);
  void* const other = from.allocate(50, 16);
  from.deallocate(one, 100, 16);
  EXPECT_EQ(from.counts().allocated, 50);
  EXPECT_EQ(from.counts().peak_allocated, 150);
  EXPECT_EQ(from.counts().total_allocated, 150u);
  EXPECT_EQ(from.counts().allocations, 1);
  EXPECT_EQ(from.counts().peak_allocations, 2);
  from.deallocate(other, 50, 16);
}

TEST(StatisticsResource, CountsAPartOfTheProgramByItself) {
  auto from = make();
  void* const before = from.allocate(100, 16);
  from.push();
  void* const inside = from.allocate(30, 16);
  from.deallocate(before, 100, 16);
  auto const part = from.pop();
  EXPECT_EQ(part.allocated, -70);
  EXPECT_EQ(part.peak_allocated, 30);
  EXPECT_EQ(from.counts().allocated, 30);
  EXPECT_EQ(from.counts().peak_allocated, 130);
  EXPECT_EQ(from.counts().total_allocations, 2u);
  from.deallocate(inside, 30, 16);
  EXPECT_THROW(from.pop(), bad_argument);
}

TEST(StatisticsResource, CountsFailuresAndNothingElseOfThem) {
  statistics_resource<null_resource> from{null_resource{}};
  EXPECT_THROW((void)from.allocate(1, 16), out_of_memory);
  EXPECT_EQ(from.counts().failures, 1u);
  EXPECT_EQ(from.counts().allocated, 0);
  EXPECT_EQ(from.counts().total_allocations, 0u);
}

TEST(StatisticsResource, PassesStreamsOn) {
  statistics_resource<noted_source> from{noted_source{}};
  expect_calls_pass(from, *from.upstream().calls);
  EXPECT_EQ(from.counts().total_allocations, 3u);
  EXPECT_EQ(from.counts().total_allocated, 600u);
  EXPECT_EQ(from.counts().allocated, 0);
}

}  // namespace statistics_resource_test
}  // namespace quarry::test
