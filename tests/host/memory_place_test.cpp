// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/memory_place.hpp"

#include "quarry/host/host_resource.hpp"
#include "quarry/host/limited_resource.hpp"
#include "quarry/host/simulated_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace {

struct of_a_device : host_resource {
  [[nodiscard]] memory_place place() const { return {memory_kind::device, 3}; }
};

TEST(MemoryPlace, IsTheHostsUnlessAResourceSaysOtherwise) {
  host_resource plain;
  EXPECT_EQ(place_of(plain), (memory_place{memory_kind::host, 0}));
  of_a_device device;
  EXPECT_EQ(place_of(device), (memory_place{memory_kind::device, 3}));
}

TEST(MemoryPlace, OfAnAdaptorIsThatOfWhatItAdapts) {
  limited_resource<of_a_device> limited{of_a_device{}, 100};
  EXPECT_EQ(place_of(limited), (memory_place{memory_kind::device, 3}));
}

TEST(MemoryPlace, TellsWhatTheHostMustNotTouch) {
  EXPECT_FALSE((memory_place{memory_kind::device, 0}).is_touchable());
  EXPECT_TRUE((memory_place{memory_kind::managed, 0}).is_touchable());
  static_assert(simulated<simulated_resource> && !simulated<host_resource>);
}

}  // namespace
}  // namespace quarry::test
