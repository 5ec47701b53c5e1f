// SPDX-License-Identifier: Apache-2.0
// Numbers in text (C11 7.22.1), for strtol, strtod and scanf.
#pragma once

#include "decimal.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

[[nodiscard]] QUARRY_HD inline bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
[[nodiscard]] QUARRY_HD inline bool is_decimal(int c) { return c >= '0' && c <= '9'; }
[[nodiscard]] QUARRY_HD inline int to_lower(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

/// The value of a digit in bases up to 36; 36 if `c` is none.
[[nodiscard]] QUARRY_HD inline int digit_value(int c) {
  if (is_decimal(c)) return c - '0';
  int const letter = to_lower(c);
  return letter >= 'a' && letter <= 'z' ? letter - 'a' + 10 : 36;
}

struct parsed_integer {
  std::uint64_t magnitude = 0;
  bool is_negative = false;
  bool overflows = false;     // the magnitude has more than 64 bits
  char const* end = nullptr;  // null: no number

  /// Reads a number with an optional sign and prefix. `base` is 0 or 2 to 36. `reads_binary`: the
  /// prefix 0b counts, as in C23.
  [[nodiscard]] QUARRY_HD static parsed_integer read(char const* text, int base,
                                                     bool reads_binary) {
    parsed_integer result;
    while (is_space(*text)) ++text;
    if (*text == '-' || *text == '+') result.is_negative = *text++ == '-';
    if (text[0] == '0') {
      int const letter = to_lower(text[1]);
      if ((base == 0 || base == 16) && letter == 'x' && digit_value(text[2]) < 16) {
        base = 16;
        text += 2;
      } else if (reads_binary && (base == 0 || base == 2) && letter == 'b' &&
                 digit_value(text[2]) < 2) {
        base = 2;
        text += 2;
      } else if (base == 0) {
        base = 8;
      }
    }
    if (base == 0) base = 10;
    for (; digit_value(*text) < base; ++text) {
      auto const digit = static_cast<std::uint64_t>(digit_value(*text));
      auto const step = static_cast<std::uint64_t>(base);
      if (result.magnitude > (~std::uint64_t{0} - digit) / step) result.overflows = true;
      result.magnitude = result.magnitude * step + digit;
      result.end = text + 1;
    }
    return result;
  }

  /// The value as a signed number of 64 bits. Sets `is_out` and returns the limit if it has more.
  [[nodiscard]] QUARRY_HD std::int64_t as_signed(bool& is_out) const {
    std::uint64_t const limit = (~std::uint64_t{0} >> 1) + (is_negative ? 1 : 0);
    is_out = overflows || magnitude > limit;
    std::uint64_t const value = is_out ? limit : magnitude;
    return static_cast<std::int64_t>(is_negative ? 0 - value : value);
  }
  [[nodiscard]] QUARRY_HD std::uint64_t as_unsigned(bool& is_out) const {
    is_out = overflows;
    return overflows ? ~std::uint64_t{0} : is_negative ? 0 - magnitude : magnitude;
  }
};

struct parsed_real {
  double value = 0;
  bool is_out_of_range = false;
  char const* end = nullptr;  // null: no number
};

/// Reads a number as strtod does, rounded to the nearest number of the format.
[[nodiscard]] QUARRY_SLOW parsed_real parse_real(char const* text, binary_format format);

}  // namespace quarry::inline QUARRY_ABI::mpi
