// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/advised_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/file_resource.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/simulated_resource.hpp"

namespace quarry::test {
namespace {

advised_resource<file_resource> make_file() {
  return {file_resource{testing::TempDir()},
          {{memory_advice::is_sequential}, {memory_advice::will_be_used}},
          memory_place{}};
}
advised_resource<host_resource> make_host() {
  return {host_resource{}, {{memory_advice::is_random}}};
}
using all = testing::Types<alone<&make_file, true>, alone<&make_host, true>,
                           pooled<&make_file, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdvisedResource, ResourceConformance, all);

TEST(AdvisedResource, KeepsNothingIfTheAdviceIsNoneForSuchMemory) {
  advised_resource<simulated_resource> from{simulated_resource{}, {{memory_advice::read_mostly}}};
  EXPECT_THROW((void)from.allocate(100, 16), bad_argument);
  EXPECT_EQ(from.upstream().held(), 0u);
}

}  // namespace
}  // namespace quarry::test
