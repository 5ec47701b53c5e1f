// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/lasting_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>

namespace quarry::test {
namespace lasting_memory_test {

TEST(LastingMemory, IsOfZerosAndStaysReadableOnceItIsGivenBack) {
  auto* const one = static_cast<unsigned char*>(lasting_allocate(lasting_use::slots, 10'000));
  for (bytes i = 0; i < lasting_size(10'000); ++i) ASSERT_EQ(one[i], 0);
  std::memset(one, 0xff, lasting_size(10'000));
  lasting_deallocate(lasting_use::slots, one, 10'000);
  for (bytes i = 0; i < lasting_size(10'000); ++i) ASSERT_EQ(one[i], 0);
}

TEST(LastingMemory, GoesToTheSameUseAgainOnly) {
  void* const one = lasting_allocate(lasting_use::slots, 50'000);
  lasting_deallocate(lasting_use::slots, one, 50'000);
  void* const other = lasting_allocate(lasting_use::pieces, 50'000);
  EXPECT_NE(other, one);
  void* const again = lasting_allocate(lasting_use::slots, 50'000);
  EXPECT_EQ(again, one);
  lasting_deallocate(lasting_use::slots, again, 50'000);
  lasting_deallocate(lasting_use::pieces, other, 50'000);
}

TEST(LastingMemory, CountsThePagesThatWereWrittenTo) {
  bytes const page = lasting_size(1);
  auto* const one = static_cast<unsigned char*>(lasting_allocate(lasting_use::starts, 9 * page));
  EXPECT_EQ(lasting_resident(one, 9 * page), 0u);
  one[page] = one[8 * page + 5] = 1;
  EXPECT_EQ(lasting_resident(one, 9 * page), 2 * page);
  lasting_deallocate(lasting_use::starts, one, 9 * page);
  EXPECT_EQ(lasting_resident(one, 9 * page), 0u);
}

TEST(LastingMemory, RefusesWhatNobodyHas) {
  EXPECT_THROW((void)lasting_allocate(lasting_use::slots, bytes{1} << 60), std::bad_alloc);
}

TEST(LastingMemory, RoundsUpByAnEighthAtMost) {
  for (bytes size = 1; size < bytes{1} << 40; size += size / 7 + 1) {
    bytes const rounded = lasting_size(size);
    ASSERT_GE(rounded, size);
    ASSERT_EQ(rounded % 4096, 0u);
    ASSERT_LE(rounded, size + size / 8 + 4096);
    ASSERT_EQ(lasting_size(rounded), rounded);
  }
}

}  // namespace lasting_memory_test
}  // namespace quarry::test
