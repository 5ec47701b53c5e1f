// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/size_classes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>

namespace quarry {
namespace size_classes_test {

constexpr std::uint32_t largest = 32 * 1024 * 1024;

TEST(SizeClasses, StartWithStepsOf16AndContinueWithFourPerDoubling) {
  std::uint32_t const expected[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320};
  for (size_class id = 0; id < std::size(expected); ++id)
    EXPECT_EQ(size_of_class(id), expected[id]);
}

TEST(SizeClasses, ServeZeroBytesFromTheSmallestClass) { EXPECT_EQ(size_class_of(0), 0u); }

TEST(SizeClasses, EndWithHalfOfTheLargestSegment) {
  EXPECT_EQ(size_of_class(max_size_classes - 1), largest);
  EXPECT_EQ(size_class_of(largest), max_size_classes - 1);
  EXPECT_GE(size_class_of(largest + 1), max_size_classes) << "larger sizes have no class";
}

TEST(SizeClasses, GrowStrictly) {
  for (size_class id = 1; id < max_size_classes; ++id) {
    EXPECT_GT(size_of_class(id), size_of_class(id - 1));
    EXPECT_EQ(size_of_class(id) % min_alignment, 0u);
  }
}

/// Returns the smallest class that holds `size`, by linear search.
size_class naive_class_of(std::uint32_t size) {
  size_class id = 0;
  while (size_of_class(id) < size) ++id;
  return id;
}

TEST(SizeClasses, AreTheSmallestClassesThatHoldTheSize) {
  for (std::uint32_t size = 0; size <= 70000; ++size)
    ASSERT_EQ(size_class_of(size), naive_class_of(size)) << size;
  for (size_class id = 0; id < max_size_classes; ++id) {
    ASSERT_EQ(size_class_of(size_of_class(id)), id);
    ASSERT_EQ(size_class_of(size_of_class(id) + 1), id + 1);
    ASSERT_EQ(size_class_of(size_of_class(id) - 1), id);
  }
  constexpr std::uint64_t seed = 5;
  std::mt19937_64 random{seed};
  for (int i = 0; i < 200000; ++i) {
    auto const size = static_cast<std::uint32_t>(random() % (largest + 1));
    ASSERT_EQ(size_class_of(size), naive_class_of(size)) << size << " seed " << seed;
  }
}

TEST(SizeClasses, WasteTheMostJustAboveAClass) {
  EXPECT_EQ(size_of_class(size_class_of(17)), 32u);
  EXPECT_EQ(size_of_class(size_class_of(1025)), 1280u);
  EXPECT_EQ(size_of_class(size_class_of(4097)), 5120u);
  for (std::uint32_t size = 1; size <= 1u << 20; ++size) {
    auto const slice = size_of_class(size_class_of(size));
    if (size <= 64) {
      ASSERT_LE(slice - size, 15u) << size;
    } else {
      ASSERT_LE(4 * (slice - size), size) << size << ": more than a quarter";
    }
  }
}

TEST(SizeClasses, NeverShrinkAsTheSizeGrows) {
  for (std::uint32_t size = 1; size <= 1u << 20; ++size)
    ASSERT_GE(size_class_of(size), size_class_of(size - 1));
}

TEST(SizeClasses, WasteAtMostAQuarterAndAtMost15PercentInTheMean) {
  double sum = 0;
  std::uint32_t count = 0;
  for (std::uint32_t size = 65; size <= 1u << 20; ++size, ++count) {
    double const waste = 1.0 - static_cast<double>(size) / size_of_class(size_class_of(size));
    ASSERT_LE(waste, 0.25) << size;
    sum += waste;
  }
  std::cout << "  mean internal waste of 65 B to 1 MiB: " << 100 * sum / count << " %\n";
  EXPECT_LE(sum / count, 0.15);
}

TEST(SizeClasses, IncludeEveryPowerOfTwo) {
  for (std::uint32_t size = 16; size <= largest; size *= 2)
    EXPECT_EQ(size_of_class(size_class_of(size)), size);
}

/// Checks quotients next to multiples of the divisor and at the end of the range, where a division
/// by multiplication would go wrong first.
void expect_exact(std::uint32_t divisor, std::mt19937_64& random) {
  constexpr std::uint32_t end = 1u << 26;
  auto const reciprocal = divider::for_divisor(divisor);
  auto const check = [&](std::uint64_t n) {
    if (n < end) {
      ASSERT_EQ(reciprocal.quotient(static_cast<std::uint32_t>(n)), n / divisor)
          << n << " / " << divisor;
    }
  };
  std::uint64_t const multiples = end / divisor;
  for (std::uint64_t k = 0; k <= std::min<std::uint64_t>(multiples, 2000); ++k) {
    for (std::uint64_t const multiple : {k * divisor, (multiples - k) * divisor}) {
      check(multiple);
      check(multiple + 1);
      if (multiple != 0) check(multiple - 1);
    }
  }
  check(end - 1);
  for (int i = 0; i < 2000; ++i) check(random() % end);
}

TEST(Divider, IsExactForTheSizesOfAllClasses) {
  constexpr std::uint64_t seed = 11;
  SCOPED_TRACE("seed 11");
  std::mt19937_64 random{seed};
  for (size_class id = 0; id < max_size_classes; ++id) expect_exact(size_of_class(id), random);
}

TEST(Divider, IsExactForEveryKindOfDivisor) {
  constexpr std::uint64_t seed = 12;
  SCOPED_TRACE("seed 12");
  std::mt19937_64 random{seed};
  for (std::uint32_t divisor = 2; divisor < 300; ++divisor) expect_exact(divisor, random);
  for (std::uint32_t power = 2; power <= 1u << 26; power *= 2) {
    expect_exact(power, random);
    if (power > 2) expect_exact(power - 1, random);
    if (power < 1u << 26) expect_exact(power + 1, random);
  }
}

}  // namespace size_classes_test
}  // namespace quarry
