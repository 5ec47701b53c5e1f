// SPDX-License-Identifier: Apache-2.0
// The sizes of slices: 16, 32, 48, 64, and then four size classes per doubling.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"

namespace quarry::inline QUARRY_ABI {

using size_class = std::uint32_t;

/// The alignment of every allocation, and the size of the smallest slice.
inline constexpr std::uint32_t min_alignment = 16;

/// The number of classes. The largest class is 32 MiB, half of the largest segment.
inline constexpr std::uint32_t max_size_classes = 80;

/// The smallest class whose slices hold `size` bytes. Requires size <= 2^31. Constant time.
///
/// A slice is at most 15 bytes larger than a `size` of 1 to 64 B. It is at most a quarter larger
/// than a `size` above 64 B, since the steps within a doubling are a quarter of its lower end. So
/// the requested share of a slice is at least 0.53 for 17 to 64 B (the minimum, at 17 B). Above 64
/// B it is more than 0.80, which sizes like 1025 B nearly reach. If the sizes within a doubling are
/// equally frequent, 8 % of the memory is lost on average.
[[nodiscard]] QUARRY_HD constexpr size_class size_class_of(std::uint32_t size) {
  if (size <= 64) return size == 0 ? 0 : (size - 1) / 16;
  std::uint32_t const last = size - 1;
  std::uint32_t const doubling = highest_one(last);
  return 4 + (doubling - 6) * 4 + ((last >> (doubling - 2)) & 3);
}

/// Bytes of a slice of this class.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t size_of_class(size_class id) {
  if (id < 4) return (id + 1) * 16;
  return (5 + (id & 3)) << (4 + (id - 4) / 4);
}

/// Division of numbers below 2^26 by a constant known only at run time: one multiplication and one
/// shift.
///
/// With l = ceil(log2 d) and m = ceil(2^(26+l) / d), floor(n m / 2^(26+l)) = floor(n / d) for n <
/// 2^26, because the error n (m d - 2^(26+l)) < 2^26 2^l (Granlund and Montgomery, 1994). m has 27
/// bits and is kept shifted left by 5, so that the high half of a 32-bit product leaves only a
/// shift by l - 1.
struct divider {
  std::uint32_t multiplier;
  std::uint32_t shift;

  /// Requires 2 <= divisor <= 2^26.
  [[nodiscard]] static constexpr divider for_divisor(std::uint32_t divisor) {
    std::uint32_t const log = highest_one(divisor - 1) + 1;
    std::uint64_t const scaled = ((std::uint64_t{1} << (26 + log)) + divisor - 1) / divisor;
    return {static_cast<std::uint32_t>(scaled << 5), log - 1};
  }

  [[nodiscard]] QUARRY_HD constexpr std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>((std::uint64_t{n} * multiplier) >> 32) >> shift;
  }
};

}  // namespace quarry::inline QUARRY_ABI
