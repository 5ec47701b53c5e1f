// SPDX-License-Identifier: Apache-2.0
// Exact conversion between doubles and decimal digits.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>
#include <cstring>

namespace quarry::inline QUARRY_ABI::mpi {

/// The format of a binary floating point number: the bits of its mantissa, and the exponent of its
/// smallest number above 0.
struct binary_format {
  int bits;
  int min_exponent;
};
inline constexpr binary_format double_format{53, -1074};
inline constexpr binary_format float_format{24, -149};

/// The number of the format that is nearest to `mantissa` * 2^`exponent`, as a double; halves go to
/// even. `has_lower`: the number is a little larger than that; then `mantissa` has at least one bit
/// more than the format.
[[nodiscard]] QUARRY_HD inline double nearest_binary(std::uint64_t mantissa, int exponent,
                                                     bool has_lower, binary_format format) {
  if (mantissa == 0) return 0;
  int length = 0;
  for (std::uint64_t rest = mantissa; rest != 0; rest >>= 1) ++length;
  int dropped = length - format.bits;
  if (exponent + dropped < format.min_exponent) dropped = format.min_exponent - exponent;
  if (dropped > 0) {
    if (dropped > 64) return 0;
    std::uint64_t const kept = dropped == 64 ? 0 : mantissa >> dropped;
    std::uint64_t const rest = dropped == 64 ? mantissa : mantissa - (kept << dropped);
    std::uint64_t const half = std::uint64_t{1} << (dropped - 1);
    bool const rounds_up = rest > half || (rest == half && (has_lower || kept % 2 != 0));
    mantissa = kept + (rounds_up ? 1 : 0);
    exponent += dropped;
    if (mantissa == 0) return 0;
  }
  int const max_exponent = format.bits == 53 ? 971 : 104;
  std::uint64_t bits;
  length = 0;
  for (std::uint64_t rest = mantissa; rest != 0; rest >>= 1) ++length;
  if (exponent + length - format.bits > max_exponent) {
    bits = std::uint64_t{0x7ff} << 52;  // infinity
  } else {
    int const shift = 53 - length;
    std::uint64_t const full = shift >= 0 ? mantissa << shift : mantissa >> -shift;
    int const biased = exponent - shift + 1075;
    bits =
        biased >= 1 ? (static_cast<std::uint64_t>(biased - 1) << 52) + full : full >> (1 - biased);
  }
  double result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// The exact decimal digits of a double.
///
/// limbs_[i] holds nine digits; limb `point_ - 1` has the digits of 10^8 to 10^0. A double has at
/// most 309 digits before the point and 1,074 behind it.
class decimal {
 public:
  QUARRY_HD explicit decimal(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    if (exponent == 0) {
      exponent = 1;
    } else {
      mantissa |= std::uint64_t{1} << 52;
    }
    exponent -= 1075;  // value = mantissa * 2^exponent
    begin_ = end_ = point_ = integer_limbs;
    while (mantissa != 0) {
      limbs_[--begin_] = static_cast<std::uint32_t>(mantissa % base);
      mantissa /= base;
    }
    while (exponent > 0) {
      int const step = exponent < shift_up ? exponent : shift_up;
      multiply(step);
      exponent -= step;
    }
    while (exponent < 0) {
      int const step = -exponent < shift_down ? -exponent : shift_down;
      divide(step);
      exponent += step;
    }
    trim();
  }

  /// The number 0, to which digits are added.
  QUARRY_HD decimal() : begin_{integer_limbs}, end_{integer_limbs}, point_{integer_limbs} {}

  /// The places of digits that the number can have.
  static constexpr int max_place = 36 * 9 - 1;
  static constexpr int min_place = -121 * 9;

  /// Adds `digit` * 10^`place`. Digits come from the highest place to the lowest. Drops a digit
  /// below `min_place`; the caller remembers whether it was 0.
  QUARRY_HD void add_digit(int place, int digit) {
    int const from_point = place >= 0 ? place / 9 : -((8 - place) / 9);
    int const index = point_ - 1 - from_point;
    if (digit == 0) return;
    if (begin_ == end_) begin_ = end_ = index;
    while (end_ <= index || end_ < point_) limbs_[end_++] = 0;
    std::uint32_t step = 1;
    for (int i = place - from_point * 9; i > 0; --i) step *= 10;
    limbs_[index] += step * static_cast<std::uint32_t>(digit);
  }

  /// The nearest number of the format. `has_lower`: digits that are not 0 were dropped. Changes the
  /// digits.
  [[nodiscard]] QUARRY_HD double to_binary(binary_format format, bool has_lower) {
    if (begin_ == end_) return 0;
    // Scales the number until its integer part has 54 to 63 bits; that part and the information
    // whether digits follow it decide the result.
    int exponent = 0;
    while (point_ - begin_ > 2) {
      int const step = point_ - begin_ > 3 ? shift_down : 6;
      if (end_ == integer_limbs + fraction_limbs) has_lower |= limbs_[--end_] != 0;
      divide(step);
      exponent += step;
    }
    std::uint64_t integer = 0;
    while ((integer = integer_part()) >> 53 == 0) {
      if (exponent < format.min_exponent - 128) return 0;
      int const step = integer >> 35 == 0 ? shift_up : 10;
      multiply(step);
      exponent -= step;
    }
    for (int i = point_; i < end_; ++i) has_lower |= limbs_[i] != 0;
    return nearest_binary(integer, exponent, has_lower, format);
  }

  QUARRY_HD static bool sign_bit(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits >> 63 != 0;
  }
  QUARRY_HD static bool is_infinite(double value) {
    return value - value != value - value && value == value;
  }

  /// The place of the first digit that is not 0; 0 for the number 0.
  [[nodiscard]] QUARRY_HD int exponent() const {
    if (begin_ == end_) return 0;
    int digits = 0;
    for (std::uint32_t rest = limbs_[begin_]; rest != 0; rest /= 10) ++digits;
    return (point_ - begin_ - 1) * 9 + digits - 1;
  }

  /// The digit of 10^place.
  [[nodiscard]] QUARRY_HD int digit_at(int place) const {
    int const from_point = place >= 0 ? place / 9 : -((8 - place) / 9);
    int const index = point_ - 1 - from_point;
    if (index < begin_ || index >= end_) return 0;
    std::uint32_t limb = limbs_[index];
    for (int i = place - from_point * 9; i > 0; --i) limb /= 10;
    return static_cast<int>(limb % 10);
  }

  /// Rounds to a multiple of 10^place, to the nearest, halves to even.
  QUARRY_HD void round_to_place(int place) {
    int const from_point = place >= 0 ? place / 9 : -((8 - place) / 9);
    int const index = point_ - 1 - from_point;
    if (index >= end_) return;
    std::uint32_t step = 1;
    for (int i = place - from_point * 9; i > 0; --i) step *= 10;
    if (index < begin_ - 1) {
      begin_ = end_ = point_;
      return;
    }
    if (index == begin_ - 1) limbs_[--begin_] = 0;
    std::uint32_t const rest = limbs_[index] % step;
    bool has_lower = false;
    for (int i = index + 1; i < end_; ++i) has_lower |= limbs_[i] != 0;
    // compares the dropped part with half a step
    int order = 0;
    if (step == 1) {
      std::uint32_t const next = index + 1 < end_ ? limbs_[index + 1] : 0;
      bool lower_than_next = false;
      for (int i = index + 2; i < end_; ++i) lower_than_next |= limbs_[i] != 0;
      order = next > base / 2 ? 1 : next < base / 2 ? -1 : lower_than_next ? 1 : 0;
    } else {
      order = rest > step / 2 ? 1 : rest < step / 2 ? -1 : has_lower ? 1 : 0;
    }
    bool const is_odd = limbs_[index] / step % 2 != 0;
    limbs_[index] -= rest;
    end_ = index + 1;
    if (order > 0 || (order == 0 && is_odd)) {
      limbs_[index] += step;
      for (int i = index; limbs_[i] >= base; --i) {
        limbs_[i] -= base;
        if (i == begin_) limbs_[--begin_] = 0;
        ++limbs_[i - 1];
      }
    }
    trim();
  }

  /// Rounds to `count` digits.
  QUARRY_HD void round_to_digits(int count) {
    if (begin_ != end_) round_to_place(exponent() - count + 1);
  }

 private:
  static constexpr std::uint32_t base = 1'000'000'000;
  static constexpr int shift_up = 29;
  static constexpr int shift_down = 9;  // 2^9 divides the base
  static constexpr int integer_limbs = 37;
  static constexpr int fraction_limbs = 121;

  /// The digits before the point, of at most two limbs and one digit.
  [[nodiscard]] QUARRY_HD std::uint64_t integer_part() const {
    std::uint64_t result = 0;
    for (int i = begin_; i < point_; ++i) result = result * base + limbs_[i];
    return result;
  }

  QUARRY_HD void multiply(int bits) {
    std::uint32_t carry = 0;
    for (int i = end_ - 1; i >= begin_; --i) {
      std::uint64_t const product = (std::uint64_t{limbs_[i]} << bits) + carry;
      limbs_[i] = static_cast<std::uint32_t>(product % base);
      carry = static_cast<std::uint32_t>(product / base);
    }
    if (carry != 0) limbs_[--begin_] = carry;
  }
  QUARRY_HD void divide(int bits) {
    std::uint32_t carry = 0;
    for (int i = begin_; i < end_; ++i) {
      std::uint32_t const rest = limbs_[i] & ((1u << bits) - 1);
      limbs_[i] = (limbs_[i] >> bits) + carry;
      carry = (base >> bits) * rest;
    }
    if (carry != 0) limbs_[end_++] = carry;
    if (begin_ < end_ && limbs_[begin_] == 0) ++begin_;
  }
  QUARRY_HD void trim() {
    while (begin_ < end_ && limbs_[begin_] == 0) ++begin_;
    while (end_ > begin_ && end_ > point_ && limbs_[end_ - 1] == 0) --end_;
  }

  std::uint32_t limbs_[integer_limbs + fraction_limbs];
  int begin_;
  int end_;
  int point_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
