// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace simulated_resource_test {

TEST(SimulatedResource, GivesAddressesThatDoNotTouch) {
  simulated_resource from;
  auto const one = reinterpret_cast<std::uintptr_t>(from.allocate(100, 256));
  auto const other = reinterpret_cast<std::uintptr_t>(from.allocate(0, 256));
  EXPECT_EQ(one % 256, 0u);
  EXPECT_EQ(other % 256, 0u);
  EXPECT_GT(other, one + 100);
  EXPECT_EQ(from.reserved(), 100u);
  from.deallocate(reinterpret_cast<void*>(one), 100, 256);
  EXPECT_EQ(from.reserved(), 0u);
  EXPECT_EQ(from.allocations(), 2u);
  EXPECT_EQ(from.deallocations(), 1u);
}

TEST(SimulatedResource, GivesNoMoreThanItsLimit) {
  simulated_resource from{100};
  (void)from.allocate(60, 16);
  EXPECT_THROW((void)from.allocate(41, 16), out_of_memory);
  EXPECT_NO_THROW((void)from.allocate(40, 16));
  from.limit(50);
  EXPECT_THROW((void)from.allocate(1, 16), out_of_memory);
}

}  // namespace simulated_resource_test
}  // namespace quarry::test
