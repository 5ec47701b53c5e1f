// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: a source of numbers from bytes, and a check that reports problems.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace quarry::test {

/// Prints the message and ends the program, because a fuzzer detects only this.
inline void expect(bool holds, char const* message,
                   std::source_location where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: %s\n", where.file_name(), static_cast<unsigned>(where.line()),
               message);
  std::abort();
}

/// Reads a string of bytes as numbers. Behind its end all bytes are zero. So every string is valid
/// input, and a string means the same as its extension by zeros.
class byte_source {
 public:
  byte_source(std::uint8_t const* data, std::size_t size) : data_{data}, size_{size} {}

  /// True if all bytes were read. All later numbers are zero.
  [[nodiscard]] bool is_exhausted() const { return at_ == size_; }

  [[nodiscard]] std::uint8_t u8() { return at_ == size_ ? std::uint8_t{0} : data_[at_++]; }
  [[nodiscard]] std::uint16_t u16() { return number<std::uint16_t>(); }
  [[nodiscard]] std::uint32_t u32() { return number<std::uint32_t>(); }
  [[nodiscard]] std::uint64_t u64() { return number<std::uint64_t>(); }

  /// A number from `minimum` to `maximum`, both included. Reads as few bytes as possible, so that a
  /// mutation of one byte changes one number.
  [[nodiscard]] std::uint64_t range(std::uint64_t minimum, std::uint64_t maximum) {
    std::uint64_t const span = maximum - minimum;
    if (span == 0) return minimum;
    if (span < 1 << 8) return minimum + u8() % (span + 1);
    if (span < 1 << 16) return minimum + u16() % (span + 1);
    if (span < std::uint64_t{1} << 32) return minimum + u32() % (span + 1);
    return span == ~std::uint64_t{0} ? u64() : minimum + u64() % (span + 1);
  }
  /// An index below `count`, which must not be 0.
  [[nodiscard]] std::size_t index(std::size_t count) {
    return static_cast<std::size_t>(range(0, count - 1));
  }
  /// True with probability `of_256` / 256 for a random byte.
  [[nodiscard]] bool chance(unsigned of_256) { return u8() < of_256; }

  /// A size up to `maximum`. It is often small, and often near a power of two.
  [[nodiscard]] std::uint64_t size(std::uint64_t maximum) {
    switch (u8() % 8) {
      case 0:
        return range(0, std::min<std::uint64_t>(maximum, 32));
      case 1:
      case 2:
        return range(0, std::min<std::uint64_t>(maximum, 255));
      case 3:
        return range(0, std::min<std::uint64_t>(maximum, 4095));
      case 4:
      case 5:
        return std::min(maximum, near_power_of_two());
      default:
        return range(0, maximum);
    }
  }
  /// As `size`, but sometimes any 64-bit number.
  [[nodiscard]] std::uint64_t wild_size(std::uint64_t maximum) {
    std::uint8_t const kind = u8();
    return kind < 248 ? size(maximum) : kind < 252 ? near_power_of_two() : u64();
  }
  /// 2^n - 1, 2^n or 2^n + 1.
  [[nodiscard]] std::uint64_t near_power_of_two() {
    std::uint8_t const kind = u8();
    return (std::uint64_t{1} << kind % 64) + kind / 64 % 3 - 1;
  }

 private:
  template <std::unsigned_integral Number>
  [[nodiscard]] Number number() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) sum |= std::uint64_t{u8()} << i * 8;
    return static_cast<Number>(sum);
  }

  std::uint8_t const* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace quarry::test
