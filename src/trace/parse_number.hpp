// SPDX-License-Identifier: Apache-2.0
// Reads the numbers in logs: whole fields, without spaces or signs.
#pragma once

#include "quarry/core/abi.hpp"

#include <cstdint>
#include <limits>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// A number, or what is wrong with its text: a phrase that follows the field's name, for example
/// `is negative`. `fault` is null if `value` holds.
struct parsed_number {
  std::uint64_t value = 0;
  char const* fault = nullptr;
};

/// Reads a number that fills `text`, in base 10 or 16. Base 16 expects no prefix.
template <unsigned Base>
[[nodiscard]] inline parsed_number parse_digits(std::string_view text) {
  static_assert(Base == 10 || Base == 16);
  constexpr std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  if (text.empty()) return {0, "is missing"};
  std::uint64_t value = 0;
  bool is_too_large = false;
  for (char const character : text) {
    unsigned digit = static_cast<unsigned>(character) - '0';
    if constexpr (Base == 16) {
      unsigned const letter = (static_cast<unsigned>(character) | 0x20u) - 'a';
      if (letter < 6) digit = letter + 10;
    }
    if (digit >= Base) {
      bool const is_negative = text.front() == '-' && text.size() > 1 &&
                               parse_digits<Base>(text.substr(1)).fault == nullptr;
      return {0, is_negative ? "is negative" : "is not a whole number"};
    }
    is_too_large |= value > (max - digit) / Base;
    value = value * Base + digit;
  }
  if (is_too_large) return {0, "exceeds 64 bits"};
  return {value, nullptr};
}

[[nodiscard]] inline parsed_number parse_decimal(std::string_view text) {
  return parse_digits<10>(text);
}

/// Reads a pointer or a handle as C and C++ print it: `0x` and hexadecimal digits, or `(nil)`, or a
/// decimal number.
[[nodiscard]] inline parsed_number parse_pointer(std::string_view text) {
  if (text == "(nil)") return {};
  bool const is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  return is_hexadecimal ? parse_digits<16>(text.substr(2)) : parse_digits<10>(text);
}

}  // namespace quarry::inline QUARRY_ABI::trace
