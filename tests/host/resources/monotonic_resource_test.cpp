// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/monotonic_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <cstring>

namespace quarry::test {
namespace monotonic_resource_test {

monotonic_resource<host_resource> make() { return {host_resource{}, 64_KiB}; }
using all = testing::Types<alone<&make, true>>;
bool const is_registered = conforms("MonotonicResource", all{});

TEST(MonotonicResource, AllocatesConsecutiveAddressesAndReusesThemAfterAReset) {
  monotonic_resource<simulated_resource> source{simulated_resource{}, 1000};
  auto* const first = static_cast<char*>(source.allocate(100, 16));
  EXPECT_EQ(source.allocate(8, 16), first + 112);
  source.deallocate(first, 100, 16);
  EXPECT_NE(source.allocate(100, 16), first) << "no memory is reused before the reset";
  void* const large = source.allocate(5000, 16);
  EXPECT_EQ(source.reserved(), 6000u);
  source.reset();
  EXPECT_EQ(source.allocate(100, 16), first);
  EXPECT_EQ(source.allocate(5000, 16), large) << "a reset keeps the blocks for reuse";
  EXPECT_EQ(source.reserved(), 6000u);
  source.release();
  EXPECT_EQ(source.reserved(), 0u);
}

TEST(MonotonicResource, RefusesEmptyBlocksAndInvalidAlignments) {
  EXPECT_THROW((monotonic_resource<host_resource>{host_resource{}, 0}), bad_argument);
  EXPECT_THROW((void)make().allocate(8, 24), bad_argument);
}

TEST(MonotonicResource, ServesMoreAlignmentThanItsBlocksHave) {
  auto source = make();
  for (bytes const alignment : {bytes{512}, bytes{4096}, bytes{1} << 20}) {
    void* const memory = source.allocate(100, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
    std::memset(memory, 0x5a, 100);
  }
}

TEST(MonotonicResource, IsUnchangedWhenItsUpstreamFails) {
  monotonic_resource<simulated_resource> source{simulated_resource{1500}, 1000};
  void* const memory = source.allocate(500, 16);
  EXPECT_THROW((void)source.allocate(900, 16), out_of_memory);
  EXPECT_EQ(source.reserved(), 1000u);
  EXPECT_EQ(source.allocate(400, 16), static_cast<char*>(memory) + 512)
      << "the remainder of the block is not lost";
  source.reset();
  EXPECT_EQ(source.allocate(500, 16), memory);
}

}  // namespace monotonic_resource_test
}  // namespace quarry::test
