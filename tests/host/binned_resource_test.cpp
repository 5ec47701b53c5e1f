// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/binned_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/simulated_resource.hpp"

namespace quarry::test {
namespace {

using bins = binned_resource<host_resource, host_resource>;
bins make() {
  return {[] { return host_resource{}; }, host_resource{}, 16, 1024};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(BinnedResource, ResourceConformance, all);

TEST(BinnedResource, TakesSmallSizesFromSlotsAndLargeOnesFromThePool) {
  binned_resource<simulated_resource, simulated_resource> from{[] { return simulated_resource{}; },
                                                               simulated_resource{}, 64, 256, 4};
  (void)from.allocate(256, 16);
  EXPECT_EQ(from.large().held(), 0u);
  void* const large = from.allocate(257, 16);
  EXPECT_EQ(from.large().held(), 257u);
  from.deallocate(large, 257, 16);
  EXPECT_EQ(from.large().held(), 0u);
}

TEST(BinnedResource, RefusesBinsThatAreNoPowersOfTwo) {
  for (auto const& [least, most] :
       {std::pair<bytes, bytes>{8, 64}, {24, 64}, {64, 100}, {64, 32}}) {
    EXPECT_THROW((bins{[] { return host_resource{}; }, host_resource{}, least, most}), bad_argument)
        << least << ' ' << most;
  }
}

}  // namespace
}  // namespace quarry::test
