// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/vector.hpp"

namespace quarry::inline QUARRY_ABI {

/// Text on a heap that one lane uses at a time, as a vector: appended to, compared,
/// zero-terminated.
///
/// Invariant: what is behind the last character is a zero, if there is an array at all. Never
/// blocks. What cannot be appended is refused with false as a whole. Bytes are compared as unsigned
/// numbers; zeros may be among them.
///
/// Costs: 16 bytes and the heap_ref; appending is O(length of what is appended), amortised.
template <class Heap = heap_ref>
class string {
 public:
  QUARRY_HD explicit string(Heap heap) : characters_{heap} {}

  /// Appends `length` bytes, which may be this string's own. False, with nothing changed, if there
  /// is no memory.
  [[nodiscard]] QUARRY_HD bool append(char const* text, std::uint32_t length) {
    std::uint32_t const before = size();
    if (length > 0xFFFF'FFFEu - before) return false;
    bool const is_own = text >= characters_.begin() && text < characters_.end();
    auto const offset = is_own ? static_cast<std::uint32_t>(text - characters_.begin()) : 0;
    if (!characters_.reserve(before + length + 1)) return false;
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

  /// Negative, 0 or positive: before, equal to, or behind `other`. A prefix is before what it
  /// begins.
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

  /// Zero-terminated; valid until the string changes.
  [[nodiscard]] QUARRY_HD char const* data() const {
    return characters_.empty() ? "" : characters_.data();
  }

 private:
  [[nodiscard]] QUARRY_HD static std::uint32_t length_of(char const* text) {
    std::uint32_t length = 0;
    while (text[length] != '\0') ++length;
    return length;
  }

  [[nodiscard]] QUARRY_HD bool append_digits(std::uint64_t number, bool negative) {
    char digits[20];  // as many as 2^64 - 1 has; a sign only goes with 19
    std::uint32_t begin = sizeof digits;
    do {
      digits[--begin] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    if (negative) digits[--begin] = '-';
    return append(digits + begin, static_cast<std::uint32_t>(sizeof digits) - begin);
  }

  vector<char, Heap> characters_;
};

}  // namespace quarry::inline QUARRY_ABI
