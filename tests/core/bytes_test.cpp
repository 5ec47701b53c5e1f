// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/bytes.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace quarry {
namespace bytes_test {

TEST(Bytes, AreWrittenInPowersOf1024) {
  EXPECT_EQ(1_KiB, bytes{1024});
  EXPECT_EQ(3_MiB, bytes{3} * 1024 * 1024);
  EXPECT_EQ(1_GiB, 1024_MiB);
}

TEST(Bytes, HoldMoreThan32Bits) { EXPECT_EQ(64_GiB, bytes{1} << 36); }

TEST(Bytes, AreConstants) { static_assert(16_KiB == 16384); }

TEST(Bytes, NoLimitIsTheLargestNumberOfBytes) {
  EXPECT_EQ(no_limit, std::numeric_limits<bytes>::max());
}

}  // namespace bytes_test
}  // namespace quarry
