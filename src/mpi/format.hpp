// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// The length of a string.
[[nodiscard]] QUARRY_HD inline std::uint64_t length_of(char const* text) {
  std::uint64_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

/// Text that grows in a buffer of fixed size. What does not fit is counted and dropped.
class text_buffer {
 public:
  QUARRY_HD text_buffer(char* data, std::uint64_t capacity) : data_{data}, capacity_{capacity} {}

  QUARRY_HD void add_char(char c) {
    if (length_ < capacity_) data_[length_] = c;
    ++length_;
  }
  QUARRY_HD void add(char const* text) {
    for (; *text != 0; ++text) add_char(*text);
  }
  QUARRY_HD void add_number(std::int64_t value) {
    if (value < 0) add_char('-');
    auto rest =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    char digits[20];
    int count = 0;
    do digits[count++] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) != 0);
    while (count != 0) add_char(digits[--count]);
  }
  QUARRY_HD void terminate() {
    if (capacity_ != 0) data_[length_ < capacity_ ? length_ : capacity_ - 1] = 0;
  }
  [[nodiscard]] QUARRY_HD std::uint64_t length() const {
    return length_ < capacity_ ? length_ : capacity_;
  }
  [[nodiscard]] QUARRY_HD std::uint64_t wanted() const { return length_; }

 private:
  char* data_;
  std::uint64_t capacity_;
  std::uint64_t length_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
