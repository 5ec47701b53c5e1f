// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/type_stable_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>

namespace quarry::test {

using namespace detail;
namespace type_stable_memory_test {

TEST(TypeStableMemory, StartsAsZerosAndStaysReadableAfterTheFree) {
  auto* const content =
      static_cast<unsigned char*>(type_stable_allocate(type_stable_use::slots, 10'000));
  for (bytes i = 0; i < type_stable_size(10'000); ++i) ASSERT_EQ(content[i], 0);
  std::memset(content, 0xff, type_stable_size(10'000));
  type_stable_deallocate(type_stable_use::slots, content, 10'000);
  for (bytes i = 0; i < type_stable_size(10'000); ++i) ASSERT_EQ(content[i], 0);
}

TEST(TypeStableMemory, IsReusedForTheSameUseOnly) {
  void* const first = type_stable_allocate(type_stable_use::slots, 50'000);
  type_stable_deallocate(type_stable_use::slots, first, 50'000);
  void* const second = type_stable_allocate(type_stable_use::chunks, 50'000);
  EXPECT_NE(second, first);
  void* const reused = type_stable_allocate(type_stable_use::slots, 50'000);
  EXPECT_EQ(reused, first);
  type_stable_deallocate(type_stable_use::slots, reused, 50'000);
  type_stable_deallocate(type_stable_use::chunks, second, 50'000);
}

TEST(TypeStableMemory, CountsThePagesThatWereWritten) {
  bytes const page = type_stable_size(1);
  auto* const content =
      static_cast<unsigned char*>(type_stable_allocate(type_stable_use::starts, 9 * page));
  EXPECT_EQ(type_stable_resident(content, 9 * page), 0u);
  content[page] = content[8 * page + 5] = 1;
  EXPECT_EQ(type_stable_resident(content, 9 * page), 2 * page);
  type_stable_deallocate(type_stable_use::starts, content, 9 * page);
  EXPECT_EQ(type_stable_resident(content, 9 * page), 0u);
}

TEST(TypeStableMemory, RefusesSizesThatNoSystemCanServe) {
  EXPECT_THROW((void)type_stable_allocate(type_stable_use::slots, bytes{1} << 60), std::bad_alloc);
}

TEST(TypeStableMemory, RoundsUpByAnEighthAtMost) {
  for (bytes size = 1; size < bytes{1} << 40; size += size / 7 + 1) {
    bytes const granted = type_stable_size(size);
    ASSERT_GE(granted, size);
    ASSERT_EQ(granted % 4096, 0u);
    ASSERT_LE(granted, size + size / 8 + 4096);
    ASSERT_EQ(type_stable_size(granted), granted);
  }
}

}  // namespace type_stable_memory_test
}  // namespace quarry::test
