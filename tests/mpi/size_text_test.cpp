// SPDX-License-Identifier: Apache-2.0
#include "mpi/size_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace quarry::test {
namespace size_text_test {

TEST(SizeText, NumbersHaveBinaryUnits) {
  EXPECT_EQ(mpi::parse_size("0"), 0u);
  EXPECT_EQ(mpi::parse_size("4096"), 4096u);
  EXPECT_EQ(mpi::parse_size("64K"), 64_KiB);
  EXPECT_EQ(mpi::parse_size("64k"), 64_KiB);
  EXPECT_EQ(mpi::parse_size("16M"), 16_MiB);
  EXPECT_EQ(mpi::parse_size("1.5G"), 1536_MiB);
  EXPECT_EQ(mpi::parse_size("1.5 GiB"), 1536_MiB);
  EXPECT_EQ(mpi::parse_size("2T"), 2048_GiB);
  EXPECT_EQ(mpi::parse_size("0.3K"), 307u);
  EXPECT_EQ(mpi::parse_size("18446744073709551615"), ~bytes{0});
  EXPECT_EQ(mpi::parse_size("16777215T"), 16777215ull << 40);
}

TEST(SizeText, OtherTextsAreNoSizes) {
  for (char const* const text : {"",
                                 " ",
                                 "K",
                                 "G",
                                 ".5G",
                                 "1.G",
                                 "1.5",
                                 "1..5G",
                                 "1.5.5G",
                                 "-1",
                                 "-1G",
                                 "+1",
                                 "1e9",
                                 "0x10",
                                 "4GB",
                                 "4KB",
                                 "4B",
                                 "4X",
                                 "4 ",
                                 " 4",
                                 "4  G",
                                 "4Gi",
                                 "4GIB",
                                 "4iB",
                                 "4G ",
                                 "4GG",
                                 "16777216T",
                                 "16777216.0T",
                                 "18446744073709551616",
                                 "99999999999999999999999",
                                 "nan",
                                 "infG"})
    EXPECT_EQ(mpi::parse_size(text), std::nullopt) << text;
}

TEST(SizeText, SizesAreShownWithThreeDigitsAndMore) {
  EXPECT_EQ(mpi::text_of_size(0), "0 bytes");
  EXPECT_EQ(mpi::text_of_size(1023), "1023 bytes");
  EXPECT_EQ(mpi::text_of_size(1024), "1 KiB");
  EXPECT_EQ(mpi::text_of_size(1536_MiB), "1.5 GiB");
  EXPECT_EQ(mpi::text_of_size(100_KiB), "100 KiB");
  EXPECT_EQ(mpi::text_of_size(1_MiB - 1), "1 MiB");  // not 1024 KiB
  EXPECT_EQ(mpi::text_of_size(10000016), "9.54 MiB");
  EXPECT_EQ(mpi::text_of_size(~bytes{0}), "16777216 TiB");
}

TEST(SizeText, WhatIsShownCanBeTyped) {
  std::mt19937_64 numbers{1};
  for (int i = 0; i < 10'000; ++i) {
    bytes const size = (numbers() >> numbers() % 54) | 1024;
    auto const read = mpi::parse_size(mpi::text_of_size(size));
    if (size >= ~bytes{0} - (1ull << 48)) continue;  // may be shown as 2^64
    ASSERT_TRUE(read.has_value()) << size;
    EXPECT_LE(std::abs(static_cast<double>(*read) - static_cast<double>(size)),
              0.0051 * static_cast<double>(size));
  }
}

}  // namespace size_text_test
}  // namespace quarry::test
