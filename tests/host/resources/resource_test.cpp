// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace resource_test {

struct complete_resource {
  void* allocate(bytes, bytes) { return nullptr; }
  void deallocate(void*, bytes, bytes) noexcept {}
};
struct throws_when_freeing : complete_resource {
  void deallocate(void*, bytes, bytes) {}
};
struct asks_for_no_alignment {
  void* allocate(bytes) { return nullptr; }
  void deallocate(void*, bytes, bytes) noexcept {}
};
struct stays_where_it_is : complete_resource {
  stays_where_it_is() = default;
  stays_where_it_is(stays_where_it_is&&) = delete;
};

TEST(MemoryResource, NeedsAllocateAndANonThrowingDeallocate) {
  EXPECT_TRUE(memory_resource<complete_resource>);
  EXPECT_FALSE(memory_resource<throws_when_freeing>);
  EXPECT_FALSE(memory_resource<asks_for_no_alignment>);
  EXPECT_FALSE(memory_resource<stays_where_it_is>);
  EXPECT_FALSE(memory_resource<int>);
}

}  // namespace resource_test
}  // namespace quarry::test
