// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace simulated_resource_test {

TEST(SimulatedResource, ReturnsAddressesThatDoNotTouch) {
  simulated_resource source;
  auto const first = reinterpret_cast<std::uintptr_t>(source.allocate(100, 256));
  auto const second = reinterpret_cast<std::uintptr_t>(source.allocate(0, 256));
  EXPECT_EQ(first % 256, 0u);
  EXPECT_EQ(second % 256, 0u);
  EXPECT_GT(second, first + 100);
  EXPECT_EQ(source.reserved(), 100u);
  source.deallocate(reinterpret_cast<void*>(first), 100, 256);
  EXPECT_EQ(source.reserved(), 0u);
  EXPECT_EQ(source.allocations(), 2u);
  EXPECT_EQ(source.deallocations(), 1u);
}

TEST(SimulatedResource, AllocatesNoMoreThanItsLimit) {
  simulated_resource source{100};
  (void)source.allocate(60, 16);
  EXPECT_THROW((void)source.allocate(41, 16), out_of_memory);
  EXPECT_NO_THROW((void)source.allocate(40, 16));
  source.limit(50);
  EXPECT_THROW((void)source.allocate(1, 16), out_of_memory);
}

}  // namespace simulated_resource_test
}  // namespace quarry::test
