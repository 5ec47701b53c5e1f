// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/vector.hpp"

namespace quarry::inline QUARRY_ABI {

/// Zero-terminated text on a heap. Only one lane may use it at a time, like a vector. It supports
/// appending and comparison.
///
/// Invariant: a zero follows the last character, if there is an array. No function blocks. An
/// append without enough memory returns false and appends nothing. Comparisons treat bytes as
/// unsigned numbers. The text may contain zeros.
///
/// Costs: 16 bytes and the heap_ref. Appending is O(appended length), amortised.
template <class Heap = heap_ref>
class string {
 public:
  QUARRY_HD explicit string(Heap heap) : characters_{heap} {}

  /// Appends `length` bytes, which may lie in this string. Returns false and changes nothing if
  /// there is no memory, or if the text would exceed 2^32 - 2 bytes.
  [[nodiscard]] QUARRY_HD bool append(char const* text, std::uint32_t length) {
    std::uint32_t const old_size = size();
    if (length > 0xFFFF'FFFEu - old_size) return false;
    bool const is_own = text >= characters_.begin() && text < characters_.end();
    auto const offset = is_own ? static_cast<std::uint32_t>(text - characters_.begin()) : 0;
    if (!characters_.reserve(old_size + length + 1)) return false;
    if (!characters_.empty()) characters_.pop_back();  // the zero
    if (is_own) text = characters_.data() + offset;
    for (std::uint32_t i = 0; i < length; ++i) (void)characters_.push_back(text[i]);
    return characters_.push_back('\0');
  }

  /// Appends zero-terminated text.
  [[nodiscard]] QUARRY_HD bool append(char const* text) { return append(text, length_of(text)); }
  [[nodiscard]] QUARRY_HD bool append(string const& other) {
    return append(other.data(), other.size());
  }

  /// Appends a number in decimal.
  [[nodiscard]] QUARRY_HD bool append_number(std::uint64_t number) {
    return append_digits(number, false);
  }
  [[nodiscard]] QUARRY_HD bool append_number(std::int64_t number) {
    auto const magnitude = static_cast<std::uint64_t>(number);
    return append_digits(number < 0 ? 0 - magnitude : magnitude, number < 0);
  }
  [[nodiscard]] QUARRY_HD bool append_number(std::uint32_t number) {
    return append_number(std::uint64_t{number});
  }
  [[nodiscard]] QUARRY_HD bool append_number(std::int32_t number) {
    return append_number(std::int64_t{number});
  }

  /// Returns a negative number, 0 or a positive number if this string sorts before, equals or sorts
  /// after `other`. A prefix sorts before the longer text.
  [[nodiscard]] QUARRY_HD int compare(char const* other, std::uint32_t length) const {
    for (std::uint32_t i = 0; i < size() && i < length; ++i) {
      auto const a = static_cast<unsigned char>(data()[i]);
      auto const b = static_cast<unsigned char>(other[i]);
      if (a != b) return a < b ? -1 : 1;
    }
    return size() == length ? 0 : size() < length ? -1 : 1;
  }
  [[nodiscard]] QUARRY_HD int compare(string const& other) const {
    return compare(other.data(), other.size());
  }
  [[nodiscard]] QUARRY_HD int compare(char const* other) const {
    return compare(other, length_of(other));
  }

  QUARRY_HD void clear() { characters_.clear(); }

  [[nodiscard]] QUARRY_HD std::uint32_t size() const {
    return characters_.empty() ? 0 : characters_.size() - 1;
  }
  [[nodiscard]] QUARRY_HD bool empty() const { return size() == 0; }

  /// The text, zero-terminated. The pointer is valid until the string changes.
  [[nodiscard]] QUARRY_HD char const* data() const {
    return characters_.empty() ? "" : characters_.data();
  }

 private:
  [[nodiscard]] QUARRY_HD static std::uint32_t length_of(char const* text) {
    std::uint32_t length = 0;
    while (text[length] != '\0') ++length;
    return length;
  }

  [[nodiscard]] QUARRY_HD bool append_digits(std::uint64_t number, bool is_negative) {
    char digits[20];  // 2^64 - 1 has 20 digits; a negative number has at most 19 and a sign
    std::uint32_t start = sizeof digits;
    do {
      digits[--start] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    if (is_negative) digits[--start] = '-';
    return append(digits + start, static_cast<std::uint32_t>(sizeof digits) - start);
  }

  vector<char, Heap> characters_;
};

}  // namespace quarry::inline QUARRY_ABI
