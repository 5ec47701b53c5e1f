// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes as people write them.
#pragma once

#include "quarry/core/bytes.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::mpi {

inline constexpr std::string_view size_prefixes = "KMGT";

/// How many bits a unit stands for; nothing if it is none. An empty one is bytes.
[[nodiscard]] inline std::optional<unsigned> shift_of_unit(std::string_view unit) {
  if (unit.empty()) return 0;
  char const letter = unit[0] >= 'a' ? static_cast<char>(unit[0] - 'a' + 'A') : unit[0];
  auto const prefix = size_prefixes.find(letter);
  bool const is_known =
      prefix != size_prefixes.npos && (unit.size() == 1 || unit.substr(1) == "iB");
  if (!is_known) return std::nullopt;
  return 10 * (static_cast<unsigned>(prefix) + 1);
}

/// The bytes of `4096`, `64K`, `1.5G` or `16 GiB`: a number and one of the binary units K, M, G and
/// T, also in lower case, with iB, and after a space. With a unit the number may have a decimal
/// point; the result is rounded to whole bytes. Nothing for other texts, and from 2^64 bytes on.
[[nodiscard]] inline std::optional<bytes> parse_size(std::string_view text) {
  auto const end = text.find_first_not_of("0123456789.");
  std::string_view const digits = text.substr(0, end);
  std::string_view unit = end == text.npos ? std::string_view{} : text.substr(end);
  if (unit.size() > 1 && unit[0] == ' ') unit.remove_prefix(1);
  auto const shift = shift_of_unit(unit);
  if (!shift || digits.empty() || digits.front() == '.' || digits.back() == '.')
    return std::nullopt;
  char const* const last = digits.data() + digits.size();
  if (digits.find('.') == digits.npos) {
    bytes count = 0;
    auto const [stop, error] = std::from_chars(digits.data(), last, count);
    bool const fits = error == std::errc{} && stop == last && count <= ~bytes{0} >> *shift;
    return fits ? std::optional{count << *shift} : std::nullopt;
  }
  double count = 0;
  auto const [stop, error] = std::from_chars(digits.data(), last, count, std::chars_format::fixed);
  double const size = std::round(std::ldexp(count, static_cast<int>(*shift)));
  bool const fits = *shift != 0 && error == std::errc{} && stop == last && size < 0x1p64;
  return fits ? std::optional{static_cast<bytes>(size)} : std::nullopt;
}

/// The size as a text: `1000 bytes`, `64 KiB`, `1.5 GiB`, with at most two digits behind the point.
/// Allocates nothing.
class size_text {
 public:
  explicit size_text(bytes size) {
    if (size < 1024) {
      std::snprintf(text_, sizeof(text_), "%u bytes", static_cast<unsigned>(size));
      return;
    }
    std::size_t prefix = 0;
    auto value = static_cast<double>(size) / 1024;
    for (; prefix + 1 < size_prefixes.size() && value >= 1023.995; ++prefix) value /= 1024;
    int length = std::snprintf(text_, sizeof(text_), "%.2f", value);
    while (text_[length - 1] == '0') --length;
    if (text_[length - 1] == '.') --length;
    std::snprintf(text_ + length, sizeof(text_) - static_cast<std::size_t>(length), " %ciB",
                  size_prefixes[prefix]);
  }
  [[nodiscard]] char const* c_str() const { return text_; }

 private:
  char text_[32];
};

/// The same as a string.
[[nodiscard]] inline std::string text_of_size(bytes size) { return size_text{size}.c_str(); }

}  // namespace quarry::inline QUARRY_ABI::mpi
