// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <cstddef>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// The length of the UTF-8 sequence of several bytes at the front of `text`, or 0 if it is invalid.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) {
  auto const byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  unsigned const first = byte(0);
  std::size_t const length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (byte(i) >> 6 != 2) return 0;
  bool const is_overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  bool const is_surrogate = first == 0xED && byte(1) >= 0xA0;
  bool const is_too_large = first == 0xF4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_too_large ? 0 : length;
}

}  // namespace quarry::inline QUARRY_ABI::trace
