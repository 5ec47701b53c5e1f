// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/memory_kind.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace memory_kind_test {

TEST(MemoryKind, HasAName) {
  EXPECT_STREQ(name_of(memory_kind::host), "host");
  EXPECT_STREQ(name_of(memory_kind::shared), "shared");
}

TEST(MemoryKind, TellsWhetherTheHostMayTouchTheMemory) {
  EXPECT_FALSE((memory_location{memory_kind::device, 0}).is_touchable());
  EXPECT_TRUE((memory_location{memory_kind::managed, 0}).is_touchable());
}

}  // namespace memory_kind_test
}  // namespace quarry::test
