// SPDX-License-Identifier: Apache-2.0
// The conversions of scanf (C11 7.21.6.2), as glibc has them where the standard leaves a choice.
#pragma once

#include "c_convert.hpp"
#include "c_variadic.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef __CUDACC__
using long_real = double;  // long double is double on the GPU
#else
using long_real = long double;
#endif

/// The characters of a string.
class string_source {
 public:
  QUARRY_HD explicit string_source(char const* text) : text_{text} {}
  QUARRY_HD int get() { return *text_ == 0 ? -1 : static_cast<unsigned char>(*text_++); }
  QUARRY_HD void unget(int) { --text_; }

 private:
  char const* text_;
};

/// Reads input as a format says. `Source` has get(), which returns -1 at the end, and unget() for
/// one character.
template <class Source>
class scanner {
 public:
  QUARRY_HD scanner(Source& source, arguments& values) : source_{source}, values_{values} {}

  /// Returns the number of values that were stored, or -1 if the input ended before the first.
  QUARRY_HD int scan(char const* format) {
    for (format_ = format; *format_ != 0 && outcome_ == outcome::good;) {
      if (is_space(*format_)) {
        skip_spaces();
        ++format_;
      } else if (*format_ != '%') {
        literal(*format_++);
      } else {
        ++format_;
        convert();
      }
    }
    return outcome_ == outcome::ended && stored_ == 0 ? -1 : stored_;
  }

 private:
  enum class outcome { good, mismatch, ended };
  static constexpr int most_real_characters = 400;

  QUARRY_HD int get() {
    int const c = source_.get();
    if (c >= 0) ++consumed_;
    return c;
  }
  QUARRY_HD void unget(int c) {
    if (c < 0) return;
    source_.unget(c);
    --consumed_;
  }
  /// The next character of the field; -1 at its end.
  QUARRY_HD int next() {
    if (width_ == 0) return -1;
    int const c = get();
    if (c >= 0) --width_;
    return c;
  }
  QUARRY_HD void put_back(int c) {
    if (c < 0) return;
    unget(c);
    ++width_;
  }

  QUARRY_HD void fail_at(int c) { outcome_ = c < 0 ? outcome::ended : outcome::mismatch; }

  /// Returns false at the end of the input.
  QUARRY_HD bool skip_spaces() {
    int c = get();
    while (is_space(c)) c = get();
    unget(c);
    return c >= 0;
  }

  QUARRY_HD void literal(char wanted) {
    int const c = get();
    if (c == static_cast<unsigned char>(wanted)) return;
    unget(c);
    fail_at(c);
  }

  QUARRY_HD void convert() {
    is_stored_ = true;
    if (*format_ == '*') {
      is_stored_ = false;
      ++format_;
    }
    width_ = 0;
    for (; is_decimal(*format_); ++format_) width_ = width_ * 10 + (*format_ - '0');
    bool const has_width = width_ != 0;
    if (!has_width) width_ = 0x7fffffff;
    length_ = 0;
    for (;; ++format_) {
      if (*format_ == 'h')
        --length_;
      else if (*format_ == 'l')
        ++length_;
      else if (*format_ == 'j' || *format_ == 'z' || *format_ == 't' || *format_ == 'q')
        length_ = 2;
      else if (*format_ == 'L')
        length_ = 3;
      else
        break;
    }
    char const letter = *format_;
    if (letter != 0) ++format_;
    if (letter == 'n') {
      if (is_stored_) store_integer(static_cast<std::uint64_t>(consumed_));
      return;
    }
    if (letter == 'c') return characters(has_width ? width_ : 1);
    if (letter == '[') return set();
    if (!skip_spaces()) {
      outcome_ = outcome::ended;
      return;
    }
    switch (letter) {
      case '%':
        return literal('%');
      case 's':
        return word();
      case 'd':
      case 'u':
        return integer(10, letter == 'd');
      case 'i':
        return integer(0, true);
      case 'o':
        return integer(8, false);
      case 'x':
      case 'X':
        return integer(16, false);
      case 'p':
        length_ = 2;
        return integer(16, false);
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real();
      default:
        outcome_ = outcome::mismatch;
    }
  }

  QUARRY_HD void store_integer(std::uint64_t value) {
    void* const place = values_.template take<void*>();
    if (length_ >= 1)
      *static_cast<std::uint64_t*>(place) = value;
    else if (length_ == 0)
      *static_cast<std::uint32_t*>(place) = static_cast<std::uint32_t>(value);
    else if (length_ == -1)
      *static_cast<std::uint16_t*>(place) = static_cast<std::uint16_t>(value);
    else
      *static_cast<std::uint8_t*>(place) = static_cast<std::uint8_t>(value);
  }

  QUARRY_HD void characters(int count) {
    char* to = is_stored_ ? values_.template take<char*>() : nullptr;
    for (int i = 0; i < count; ++i) {
      int const c = get();
      if (c < 0) {
        if (i == 0) outcome_ = outcome::ended;
        break;
      }
      if (is_stored_) to[i] = static_cast<char>(c);
    }
    if (is_stored_ && outcome_ == outcome::good) ++stored_;
  }

  QUARRY_HD void word() {
    char* to = is_stored_ ? values_.template take<char*>() : nullptr;
    int c = next();
    for (; c >= 0 && !is_space(c); c = next())
      if (is_stored_) *to++ = static_cast<char>(c);
    put_back(c);
    if (!is_stored_) return;
    *to = 0;
    ++stored_;
  }

  /// Whether `c` is in the set whose text is [begin, end).
  QUARRY_HD static bool is_member(int c, char const* begin, char const* end) {
    for (char const* at = begin; at < end; ++at) {
      auto const first = static_cast<unsigned char>(*at);
      if (at + 2 < end && at[1] == '-') {
        if (c >= first && c <= static_cast<unsigned char>(at[2])) return true;
        at += 2;
      } else if (c == first) {
        return true;
      }
    }
    return false;
  }

  QUARRY_HD void set() {
    bool const is_inverted = *format_ == '^';
    if (is_inverted) ++format_;
    char const* const begin = format_;
    if (*format_ == ']') ++format_;
    while (*format_ != 0 && *format_ != ']') ++format_;
    char const* const end = format_;
    if (*format_ != 0) ++format_;
    char* to = is_stored_ ? values_.template take<char*>() : nullptr;
    int count = 0;
    int c = next();
    for (; c >= 0 && is_member(c, begin, end) != is_inverted; c = next(), ++count)
      if (is_stored_) *to++ = static_cast<char>(c);
    put_back(c);
    if (count == 0) return fail_at(c);
    if (!is_stored_) return;
    *to = 0;
    ++stored_;
  }

  QUARRY_HD void integer(int base, bool is_signed) {
    parsed_integer number;
    bool has_digits = false;
    int c = next();
    if (c == '-' || c == '+') {
      number.is_negative = c == '-';
      c = next();
    }
    if (c == '0' && (base == 0 || base == 16)) {
      has_digits = true;
      c = next();
      if (to_lower(c) == 'x') {
        base = 16;
        c = next();
      } else if (base == 0) {
        base = 8;
      }
    }
    if (base == 0) base = 10;
    for (; c >= 0 && digit_value(c) < base; c = next()) {
      auto const digit = static_cast<std::uint64_t>(digit_value(c));
      auto const step = static_cast<std::uint64_t>(base);
      if (number.magnitude > (~std::uint64_t{0} - digit) / step) number.overflows = true;
      number.magnitude = number.magnitude * step + digit;
      has_digits = true;
    }
    put_back(c);
    if (!has_digits) {
      outcome_ = outcome::mismatch;
      return;
    }
    if (!is_stored_) return;
    bool is_out = false;
    store_integer(is_signed ? static_cast<std::uint64_t>(number.as_signed(is_out))
                            : number.as_unsigned(is_out));
    ++stored_;
  }

  /// Adds the characters of `word` while they follow. Returns whether all do.
  QUARRY_HD bool follow(int& c, char const* word, char* text, int& length) {
    for (; *word != 0; ++word) {
      if (to_lower(c) != *word) return false;
      text[length++] = *word;
      c = next();
    }
    return true;
  }

  QUARRY_HD bool collect_real(char* text, int& length) {
    int c = next();
    if (c == '-' || c == '+') {
      text[length++] = static_cast<char>(c);
      c = next();
    }
    if (to_lower(c) == 'n' || to_lower(c) == 'i') {
      bool is_good = follow(c, to_lower(c) == 'n' ? "nan" : "inf", text, length);
      if (is_good && text[length - 1] == 'f' && to_lower(c) == 'i')
        is_good = follow(c, "inity", text, length);
      put_back(c);
      return is_good;
    }
    bool is_hexadecimal = false;
    bool has_digits = false;
    bool has_point = false;
    bool has_exponent = false;
    if (c == '0') {
      text[length++] = '0';
      has_digits = true;
      c = next();
      if (to_lower(c) == 'x') {
        text[length++] = 'x';
        is_hexadecimal = true;
        c = next();
        has_digits = digit_value(c) < 16 || c == '.';  // glibc reads "0x." as 0
      }
    }
    for (; c >= 0 && length < most_real_characters; c = next()) {
      char const exponent_letter = is_hexadecimal ? 'p' : 'e';
      bool const is_digit = is_hexadecimal && !has_exponent ? digit_value(c) < 16 : is_decimal(c);
      if (is_digit) {
        has_digits = true;
      } else if ((c == '-' || c == '+') && has_exponent && text[length - 1] == exponent_letter) {
      } else if (c == '.' && !has_point && !has_exponent) {
        has_point = true;
      } else if (to_lower(c) == exponent_letter && has_digits && !has_exponent) {
        has_exponent = true;
        c = exponent_letter;
      } else {
        break;
      }
      text[length++] = static_cast<char>(c);
    }
    put_back(c);
    return has_digits;
  }

  QUARRY_HD void real() {
    char text[most_real_characters + 1];
    int length = 0;
    if (!collect_real(text, length)) {
      outcome_ = outcome::mismatch;
      return;
    }
    if (!is_stored_) return;
    text[length] = 0;
    binary_format format = float_format;
    if (length_ >= 1) format = double_format;
    double const value = parse_real(text, format).value;
    void* const place = values_.template take<void*>();
    if (length_ < 1)
      *static_cast<float*>(place) = static_cast<float>(value);
    else if (length_ < 3)
      *static_cast<double*>(place) = value;
    else
      *static_cast<long_real*>(place) = value;
    ++stored_;
  }

  Source& source_;
  arguments& values_;
  char const* format_ = nullptr;
  outcome outcome_ = outcome::good;
  std::int64_t consumed_ = 0;
  int stored_ = 0;
  int width_ = 0;
  int length_ = 0;  // as conversion::length
  bool is_stored_ = false;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
