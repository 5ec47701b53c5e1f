// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/cuda_resources.hpp"

#include "conformance/resources.hpp"

namespace quarry::test {
namespace cuda_resources_test {

device_resource make_device() { return device_resource{0}; }
stream_ordered_resource make_stream_ordered() { return stream_ordered_resource{nullptr, 0}; }
pinned_resource make_pinned() { return {}; }
managed_resource make_managed() { return {}; }

/// Skips its tests where there is no GPU.
using all =
    testing::Types<alone<&make_device, false>, alone<&make_stream_ordered, false>,
                   alone<&make_pinned, true>, alone<&make_managed, true>,
                   pooled<&make_device, false, fast_fit>,
                   pooled<&make_stream_ordered, false, fast_fit>,
                   pooled<&make_pinned, true, fast_fit>, pooled<&make_managed, true, fast_fit>>;
bool const is_registered = conforms("CudaResources", all{});

TEST(CudaResources, RefuseAMissingDeviceWithAReason) {
  try {
    device_resource const missing_device{1000};
    FAIL() << "made a resource for a device that does not exist";
  } catch (error const& failure) {
    EXPECT_FALSE(failure.message().empty());
  }
}

TEST(CudaResources, RefuseMoreThan256BytesOfAlignment) {
  try {
    device_resource source{0};
    EXPECT_THROW((void)source.allocate(8, 512), out_of_memory);
    EXPECT_THROW((void)source.allocate(8, 1 << 20), out_of_memory);
    EXPECT_THROW((void)source.allocate(8, 768), bad_argument);
  } catch (resource_failed const&) {
    GTEST_SKIP() << "no GPU";
  }
}

}  // namespace cuda_resources_test
}  // namespace quarry::test
