// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/make_room.hpp"

#include <gtest/gtest.h>

#include <new>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace make_room_test {

TEST(MakeRoom, CopiesAVectorThatGrowsByOneOnlyAFewTimes) {
  std::vector<int> numbers;
  int copies = 0;
  for (int i = 0; i < 100'000; ++i) {
    int const* const old_data = numbers.data();
    make_room(numbers, numbers.size() + 1);
    copies += numbers.data() != old_data;
    ASSERT_GT(numbers.capacity(), numbers.size());
    numbers.push_back(i);
  }
  EXPECT_LE(copies, 18);
  EXPECT_LE(numbers.capacity(), 200'000u);
}

TEST(MakeRoom, ReservesTheRequestedRoomAndNeverShrinks) {
  std::vector<int> numbers;
  make_room(numbers, 1000);
  EXPECT_GE(numbers.capacity(), 1000u);
  int const* const old_data = numbers.data();
  make_room(numbers, 10);
  EXPECT_EQ(numbers.data(), old_data);
  EXPECT_GE(numbers.capacity(), 1000u);
  EXPECT_THROW(make_room(numbers, numbers.max_size() + 1), std::length_error);
  EXPECT_EQ(numbers.data(), old_data);
}

}  // namespace make_room_test
}  // namespace quarry::test
