// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/memory_location.hpp"

#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace memory_location_test {

struct of_a_device : host_resource {
  [[nodiscard]] memory_location location() const { return {memory_kind::device, 3}; }
};

TEST(MemoryLocation, IsTheHostUnlessAResourceReportsAnother) {
  host_resource plain;
  EXPECT_EQ(location_of(plain), (memory_location{memory_kind::host, 0}));
  of_a_device device;
  EXPECT_EQ(location_of(device), (memory_location{memory_kind::device, 3}));
}

TEST(MemoryLocation, OfAnAdaptorIsThatOfItsUpstream) {
  limited_resource<of_a_device> limited{of_a_device{}, 100};
  EXPECT_EQ(location_of(limited), (memory_location{memory_kind::device, 3}));
}

TEST(ReservedBy, IsReportedByAResourceOrItsUpstream) {
  host_resource plain;
  EXPECT_EQ(reserved_by(plain), std::nullopt);
  limited_resource<host_resource> limited{host_resource{}, 100};
  EXPECT_EQ(reserved_by(limited), std::nullopt);
  size_cache_resource<host_resource> slots{host_resource{}, 2};
  limited_resource<size_cache_resource<host_resource>> limited_slots{
      size_cache_resource{host_resource{}, 2}, 1000};
  void* const a = slots.allocate(100, 16);
  void* const b = limited_slots.allocate(50, 16);
  slots.deallocate(a, 100, 16);
  limited_slots.deallocate(b, 50, 16);
  EXPECT_EQ(reserved_by(slots), 100u) << "a slot keeps the 100 bytes";
  EXPECT_EQ(reserved_by(limited_slots), 50u);
  size_cache_resource<host_resource> moved{std::move(slots)};
  EXPECT_EQ(moved.reserved(), 100u);
  moved.release();
  EXPECT_EQ(moved.reserved(), 0u);
}

TEST(MemoryLocation, IsSimulatedOnlyForASimulatedResource) {
  static_assert(simulated<simulated_resource> && !simulated<host_resource>);
}

}  // namespace memory_location_test
}  // namespace quarry::test
