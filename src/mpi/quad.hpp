// SPDX-License-Identifier: Apache-2.0
// long double as a number of 16 bytes of IEEE 754, which external32 has.
#pragma once

#include "quarry/core/config.hpp"

#include <cmath>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef __CUDACC__
using long_double = double;  // as the GPU's compiler has it
#else
using long_double = long double;
#endif

/// A number of 128 bits: sign, 15 bits of the exponent, 112 of the fraction.
struct quad {
  std::uint64_t high;
  std::uint64_t low;
};

inline constexpr std::uint64_t quad_sign = std::uint64_t{1} << 63;
inline constexpr std::uint64_t quad_exponent = std::uint64_t{0x7fff} << 48;
inline constexpr int quad_bias = 16383;

[[nodiscard]] QUARRY_HD inline quad to_quad(long_double value) {
  std::uint64_t const sign = std::signbit(value) ? quad_sign : 0;
  if (std::isnan(value)) return {sign | quad_exponent | quad_exponent >> 15, 0};
  if (std::isinf(value)) return {sign | quad_exponent, 0};
  if (value == 0) return {sign, 0};
  int exponent = 0;
  long_double const fraction = std::frexp(std::fabs(value), &exponent);  // 0.5 to 1
  // the first bit is 1; the number is mantissa * 2^(exponent - 64)
  auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 64));
  int const biased = exponent - 1 + quad_bias;
  if (biased > 0) {
    mantissa <<= 1;  // which a normal number leaves out
    return {sign | static_cast<std::uint64_t>(biased) << 48 | mantissa >> 16, mantissa << 48};
  }
  // The first bit is not left out. A long double has no numbers that lose bits here.
  int const lost = 16 - biased;
  if (lost >= 64) return {sign, mantissa >> (lost - 64)};
  return {sign | mantissa >> lost, mantissa << (64 - lost)};
}

/// The nearest number; infinite if the number is too large.
[[nodiscard]] QUARRY_HD inline long_double from_quad(quad value) {
  bool const is_negative = (value.high & quad_sign) != 0;
  auto const biased = static_cast<int>((value.high & quad_exponent) >> 48);
  std::uint64_t const fraction = value.high & ~(quad_sign | quad_exponent);
  long_double result;
  if (biased == 0x7fff) {
    result = fraction == 0 && value.low == 0 ? static_cast<long_double>(INFINITY)
                                             : static_cast<long_double>(NAN);
  } else {
    std::uint64_t const first = biased == 0 ? 0 : std::uint64_t{1} << 48;
    int const exponent = (biased == 0 ? 1 : biased) - quad_bias;
    result = std::ldexp(static_cast<long_double>(fraction | first), exponent - 48) +
             std::ldexp(static_cast<long_double>(value.low), exponent - 112);
  }
  return is_negative ? -result : result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
