// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/retrying_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/simulated_resource.hpp"

namespace quarry::test {
namespace {

retrying_resource<host_resource> make() {
  return {host_resource{}, [](bytes) { return false; }};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(RetryingResource, ResourceConformance, all);

TEST(RetryingResource, AsksForRoomUntilThereIsSome) {
  std::vector<bytes> asked;
  retrying_resource<simulated_resource> from{simulated_resource{100}, nullptr};
  EXPECT_THROW((void)from.allocate(200, 16), out_of_memory);
  retrying_resource<simulated_resource>* self = nullptr;
  retrying_resource<simulated_resource> growing{simulated_resource{100}, [&](bytes size) {
                                                  asked.push_back(size);
                                                  self->upstream().limit(asked.size() * 100);
                                                  return true;
                                                }};
  self = &growing;
  EXPECT_NO_THROW((void)growing.allocate(250, 16));
  EXPECT_EQ(asked, (std::vector<bytes>{250, 250, 250}));
}

}  // namespace
}  // namespace quarry::test
