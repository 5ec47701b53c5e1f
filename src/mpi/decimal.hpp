// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>
#include <cstring>

namespace quarry::inline QUARRY_ABI::mpi {

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
    for (; exponent > 0; exponent -= shift_up) multiply(exponent < shift_up ? exponent : shift_up);
    for (; exponent < 0; exponent += shift_down)
      divide(-exponent < shift_down ? -exponent : shift_down);
    trim();
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
