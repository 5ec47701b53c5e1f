// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/event.hpp"

#include "trace/utf8.hpp"

#include <cstdio>

namespace quarry::inline QUARRY_ABI::trace {

std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    auto const first = static_cast<unsigned char>(text.front());
    std::size_t const length = first < 0x80 ? 1 : utf8_length(text);
    if (length == 0) {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(first));
      result += escaped;
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::trace
