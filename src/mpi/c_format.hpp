// SPDX-License-Identifier: Apache-2.0
// The conversions of printf (C11 7.21.6.1), exact for doubles.
#pragma once

#include "c_variadic.hpp"
#include "decimal.hpp"
#include "format.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// One conversion: %[flags][width][.precision][length]letter.
struct conversion {
  bool left = false, plus = false, space = false, alternate = false, zero = false;
  int width = 0;
  int precision = -1;
  int length = 0;  // -2 hh, -1 h, 0, 1 l, 2 ll j z t, 3 L
  char letter = 0;
};

/// Writes the converted text between its sign or prefix and its padding.
template <class Sink>
class formatter {
 public:
  QUARRY_HD explicit formatter(Sink& sink) : sink_{sink} {}

  QUARRY_HD void format(char const* text, arguments& values) {
    while (*text != 0) {
      if (*text != '%') {
        sink_.add_char(*text++);
        continue;
      }
      ++text;
      conversion const what = parse(text, values);
      convert(what, values);
    }
  }

 private:
  QUARRY_HD static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  QUARRY_HD static conversion parse(char const*& text, arguments& values) {
    conversion what;
    for (;; ++text) {
      if (*text == '-')
        what.left = true;
      else if (*text == '+')
        what.plus = true;
      else if (*text == ' ')
        what.space = true;
      else if (*text == '#')
        what.alternate = true;
      else if (*text == '0')
        what.zero = true;
      else if (*text != '\'')
        break;
    }
    if (*text == '*') {
      what.width = values.take<int>();
      if (what.width < 0) {
        what.left = true;
        what.width = -what.width;
      }
      ++text;
    }
    for (; is_digit(*text); ++text) what.width = what.width * 10 + (*text - '0');
    if (*text == '.') {
      what.precision = 0;
      if (*++text == '*') {
        what.precision = values.take<int>();
        ++text;
      }
      for (; is_digit(*text); ++text) what.precision = what.precision * 10 + (*text - '0');
    }
    for (;; ++text) {
      if (*text == 'h')
        --what.length;
      else if (*text == 'l')
        ++what.length;
      else if (*text == 'j' || *text == 'z' || *text == 't' || *text == 'q')
        what.length = 2;
      else if (*text == 'L')
        what.length = 3;
      else
        break;
    }
    what.letter = *text;
    if (*text != 0) ++text;
    return what;
  }

  QUARRY_HD void convert(conversion const& what, arguments& values) {
    switch (what.letter) {
      case 'd':
      case 'i':
        return signed_number(what, take_signed(what, values));
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return number(what, take_unsigned(what, values), 0);
      case 'c': {
        if (what.length >= 1) return wide_char(what, values.take<unsigned>());
        char const c = static_cast<char>(values.take<int>());
        return padded(what, "", &c, 1);
      }
      case 's':
        if (what.length >= 1) return wide_string(what, values.take<wchar_t const*>());
        return string(what, values.take<char const*>());
      case 'C':
        return wide_char(what, values.take<unsigned>());
      case 'S':
        return wide_string(what, values.take<wchar_t const*>());
      case 'p':
        return pointer(what, reinterpret_cast<std::uint64_t>(values.take<void*>()));
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        return real(what, take_real(what, values));
      case 'n':
        return store_count(what, values);
      case '%':
        return sink_.add_char('%');
      default:
        sink_.add_char('%');
        if (what.letter != 0) sink_.add_char(what.letter);
    }
  }

  QUARRY_HD static std::int64_t take_signed(conversion const& what, arguments& values) {
    if (what.length >= 1) return values.take<long long>();
    int const value = values.take<int>();
    return what.length == -1   ? static_cast<short>(value)
           : what.length <= -2 ? static_cast<signed char>(value)
                               : value;
  }
  QUARRY_HD static std::uint64_t take_unsigned(conversion const& what, arguments& values) {
    if (what.length >= 1) return values.take<unsigned long long>();
    unsigned const value = values.take<unsigned>();
    return what.length == -1   ? static_cast<unsigned short>(value)
           : what.length <= -2 ? static_cast<unsigned char>(value)
                               : value;
  }
  QUARRY_HD static double take_real(conversion const& what, arguments& values) {
#ifdef __CUDACC__
    (void)what;  // long double is double on the GPU
    return values.take<double>();
#else
    return what.length == 3 ? static_cast<double>(values.take<long double>())
                            : values.take<double>();
#endif
  }

  QUARRY_HD void store_count(conversion const& what, arguments& values) {
    void* const place = values.take<void*>();
    if (what.length >= 1) {
      *static_cast<long long*>(place) = static_cast<long long>(sink_.wanted());
    } else if (what.length == -1) {
      *static_cast<short*>(place) = static_cast<short>(sink_.wanted());
    } else if (what.length < -1) {
      *static_cast<signed char*>(place) = static_cast<signed char>(sink_.wanted());
    } else {
      *static_cast<int*>(place) = static_cast<int>(sink_.wanted());
    }
  }

  QUARRY_HD void repeat(char c, std::int64_t count) {
    for (; count > 0; --count) sink_.add_char(c);
  }

  /// Prefix, `zeros` zeros, and text, in a field of the conversion's width.
  QUARRY_SLOW void padded(conversion const& what, char const* prefix, char const* text,
                          std::int64_t length, std::int64_t zeros = 0) {
    std::int64_t prefix_length = 0;
    while (prefix[prefix_length] != 0) ++prefix_length;
    std::int64_t const padding = what.width - prefix_length - length - zeros;
    if (!what.left) repeat(' ', padding);
    for (std::int64_t i = 0; i < prefix_length; ++i) sink_.add_char(prefix[i]);
    repeat('0', zeros);
    for (std::int64_t i = 0; i < length; ++i) sink_.add_char(text[i]);
    if (what.left) repeat(' ', padding);
  }

  QUARRY_HD static char const* sign_of(conversion const& what, bool is_negative) {
    return is_negative ? "-" : what.plus ? "+" : what.space ? " " : "";
  }

  QUARRY_HD void signed_number(conversion const& what, std::int64_t value) {
    std::uint64_t const magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    number(what, magnitude, sign_of(what, value < 0));
  }

  QUARRY_SLOW void number(conversion const& what, std::uint64_t value, char const* sign) {
    unsigned const base = what.letter == 'x' || what.letter == 'X' ? 16
                          : what.letter == 'o'                     ? 8
                                                                   : 10;
    char digits[24];
    int begin = sizeof(digits);
    for (std::uint64_t rest = value; rest != 0; rest /= base) {
      auto const digit = static_cast<char>(rest % base);
      digits[--begin] = static_cast<char>(
          digit < 10 ? '0' + digit : (what.letter == 'X' ? 'A' : 'a') + digit - 10);
    }
    std::int64_t const count = static_cast<std::int64_t>(sizeof(digits)) - begin;
    char const* prefix = sign == nullptr ? "" : sign;
    if (base == 16 && what.alternate && value != 0) prefix = what.letter == 'X' ? "0X" : "0x";
    std::int64_t zeros = what.precision < 0       ? (count == 0 ? 1 : 0)
                         : what.precision > count ? what.precision - count
                                                  : 0;
    if (base == 8 && what.alternate && zeros == 0) zeros = 1;
    if (what.zero && !what.left && what.precision < 0) {
      std::int64_t prefix_length = 0;
      while (prefix[prefix_length] != 0) ++prefix_length;
      std::int64_t const filled = what.width - prefix_length - count;
      if (filled > zeros) zeros = filled;
    }
    padded(what, prefix, digits + begin, count, zeros);
  }

  QUARRY_HD void string(conversion const& what, char const* text) {
    if (text == nullptr) text = what.precision < 0 || what.precision >= 6 ? "(null)" : "";
    std::int64_t length = 0;
    while ((what.precision < 0 || length < what.precision) && text[length] != 0) ++length;
    padded(what, "", text, length);
  }

  /// Writes the character as UTF-8 to `encoded`, which has room for 4. Returns the number of bytes.
  QUARRY_HD static int encode(std::uint32_t character, char* encoded) {
    if (character < 0x80) {
      encoded[0] = static_cast<char>(character);
      return 1;
    }
    int const count = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (int i = count - 1; i > 0; --i, character >>= 6)
      encoded[i] = static_cast<char>(0x80 | (character & 0x3f));
    encoded[0] = static_cast<char>((0xf00 >> count & 0xff) | character);
    return count;
  }

  QUARRY_SLOW void wide_char(conversion const& what, std::uint32_t character) {
    char encoded[4];
    int const count = encode(character, encoded);
    padded(what, "", encoded, count);
  }

  /// The precision limits the bytes. A character that does not fit as a whole is left out.
  QUARRY_SLOW void wide_string(conversion const& what, wchar_t const* text) {
    if (text == nullptr) return string(what, nullptr);
    char encoded[4];
    std::int64_t length = 0;
    std::int64_t end = 0;
    for (; (what.precision < 0 || length < what.precision) && text[end] != 0; ++end) {
      int const count = encode(static_cast<std::uint32_t>(text[end]), encoded);
      if (what.precision >= 0 && length + count > what.precision) break;
      length += count;
    }
    if (!what.left) repeat(' ', what.width - length);
    for (std::int64_t i = 0; i < end; ++i) {
      int const count = encode(static_cast<std::uint32_t>(text[i]), encoded);
      for (int nth = 0; nth < count; ++nth) sink_.add_char(encoded[nth]);
    }
    if (what.left) repeat(' ', what.width - length);
  }

  QUARRY_HD void pointer(conversion what, std::uint64_t value) {
    if (value == 0) return padded(what, "", "(nil)", 5);
    what.letter = 'x';
    what.alternate = true;
    number(what, value, nullptr);
  }

  QUARRY_SLOW void real(conversion const& what, double value);
  QUARRY_SLOW void hexadecimal(conversion const& what, double value, char const* sign);
  QUARRY_SLOW void fixed_digits(conversion const& what, decimal const& digits, char const* sign,
                                int precision, bool drops_zeros);
  QUARRY_SLOW void exponent_digits(conversion const& what, decimal const& digits, char const* sign,
                                   int precision, bool drops_zeros);

  Sink& sink_;
};

template <class Sink>
QUARRY_SLOW void formatter<Sink>::real(conversion const& what, double value) {
  bool const is_upper = what.letter < 'a';
  bool const is_negative = decimal::sign_bit(value);
  char const* const sign = sign_of(what, is_negative);
  if (value != value) return padded(what, sign, is_upper ? "NAN" : "nan", 3);
  if (decimal::is_infinite(value)) return padded(what, sign, is_upper ? "INF" : "inf", 3);
  int precision = what.precision < 0 ? 6 : what.precision;
  char const kind = static_cast<char>(what.letter | 0x20);
  if (kind == 'a') return hexadecimal(what, value, sign);
  decimal digits{value};
  if (kind == 'f') {
    digits.round_to_place(-precision);
    return fixed_digits(what, digits, sign, precision, false);
  }
  if (kind == 'e') {
    digits.round_to_digits(precision + 1);
    return exponent_digits(what, digits, sign, precision, false);
  }
  if (precision == 0) precision = 1;
  digits.round_to_digits(precision);
  int const exponent = digits.exponent();
  if (exponent < -4 || exponent >= precision)
    return exponent_digits(what, digits, sign, precision - 1, !what.alternate);
  return fixed_digits(what, digits, sign, precision - 1 - exponent, !what.alternate);
}

/// The conversion a: [-]0xh.hhhhp[+-]d.
template <class Sink>
QUARRY_SLOW void formatter<Sink>::hexadecimal(conversion const& what, double value,
                                              char const* sign) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent != 0) mantissa |= std::uint64_t{1} << 52;
  exponent = exponent != 0 ? exponent - 1023 : mantissa != 0 ? -1022 : 0;
  int precision = what.precision;
  if (precision < 0) {
    precision = 13;
    for (std::uint64_t rest = mantissa; precision > 0 && rest % 16 == 0; rest /= 16) --precision;
  } else if (precision < 13) {
    int const dropped = 52 - 4 * precision;
    std::uint64_t const half = std::uint64_t{1} << (dropped - 1);
    std::uint64_t const rest = mantissa & (2 * half - 1);
    mantissa -= rest;
    if (rest > half || (rest == half && (mantissa >> dropped) % 2 != 0)) mantissa += 2 * half;
  }
  bool const is_upper = what.letter == 'A';
  char text[32];  // 0xh.<13 digits>
  int length = 0;
  text[length++] = '0';
  text[length++] = is_upper ? 'X' : 'x';
  text[length++] = static_cast<char>('0' + (mantissa >> 52));
  if (precision > 0 || what.alternate) text[length++] = '.';
  int const shown = precision < 13 ? precision : 13;
  for (int i = 1; i <= shown; ++i) {
    auto const digit = static_cast<int>(mantissa >> (52 - 4 * i) & 15);
    text[length++] =
        static_cast<char>(digit < 10 ? '0' + digit : (is_upper ? 'A' : 'a') + digit - 10);
  }
  int const digits_end = length;
  text[length++] = is_upper ? 'P' : 'p';
  text[length++] = exponent < 0 ? '-' : '+';
  int const magnitude = exponent < 0 ? -exponent : exponent;
  for (int step = 1000; step > 0; step /= 10)
    if (magnitude >= step || step == 1)
      text[length++] = static_cast<char>('0' + magnitude / step % 10);
  std::int64_t const sign_length = sign[0] != 0 ? 1 : 0;
  std::int64_t const padding = what.width - length - (precision - shown) - sign_length;
  bool const pads_zeros = what.zero && !what.left;
  if (!what.left && !pads_zeros) repeat(' ', padding);
  if (sign_length != 0) sink_.add_char(sign[0]);
  for (int i = 0; i < length; ++i) {
    if (i == 2 && pads_zeros) repeat('0', padding);
    if (i == digits_end) repeat('0', precision - shown);
    sink_.add_char(text[i]);
  }
  if (what.left) repeat(' ', padding);
}

template <class Sink>
QUARRY_SLOW void formatter<Sink>::fixed_digits(conversion const& what, decimal const& digits,
                                               char const* sign, int precision, bool drops_zeros) {
  int const highest = digits.exponent() > 0 ? digits.exponent() : 0;
  if (drops_zeros)
    while (precision > 0 && digits.digit_at(-precision) == 0) --precision;
  bool const has_point = precision > 0 || what.alternate;
  std::int64_t const length = highest + 1 + (has_point ? 1 : 0) + precision;
  std::int64_t const sign_length = sign[0] != 0 ? 1 : 0;
  std::int64_t const padding = what.width - length - sign_length;
  bool const pads_zeros = what.zero && !what.left;
  if (!what.left && !pads_zeros) repeat(' ', padding);
  if (sign_length != 0) sink_.add_char(sign[0]);
  if (pads_zeros) repeat('0', padding);
  for (int place = highest; place >= 0; --place)
    sink_.add_char(static_cast<char>('0' + digits.digit_at(place)));
  if (has_point) sink_.add_char('.');
  for (int place = -1; place >= -precision; --place)
    sink_.add_char(static_cast<char>('0' + digits.digit_at(place)));
  if (what.left) repeat(' ', padding);
}

template <class Sink>
QUARRY_SLOW void formatter<Sink>::exponent_digits(conversion const& what, decimal const& digits,
                                                  char const* sign, int precision,
                                                  bool drops_zeros) {
  int const exponent = digits.exponent();
  if (drops_zeros)
    while (precision > 0 && digits.digit_at(exponent - precision) == 0) --precision;
  int const magnitude = exponent < 0 ? -exponent : exponent;
  bool const has_point = precision > 0 || what.alternate;
  std::int64_t const length = 1 + (has_point ? 1 : 0) + precision + 2 + (magnitude >= 100 ? 3 : 2);
  std::int64_t const sign_length = sign[0] != 0 ? 1 : 0;
  std::int64_t const padding = what.width - length - sign_length;
  bool const pads_zeros = what.zero && !what.left;
  if (!what.left && !pads_zeros) repeat(' ', padding);
  if (sign_length != 0) sink_.add_char(sign[0]);
  if (pads_zeros) repeat('0', padding);
  sink_.add_char(static_cast<char>('0' + digits.digit_at(exponent)));
  if (has_point) sink_.add_char('.');
  for (int i = 1; i <= precision; ++i)
    sink_.add_char(static_cast<char>('0' + digits.digit_at(exponent - i)));
  sink_.add_char(what.letter < 'a' ? 'E' : 'e');
  sink_.add_char(exponent < 0 ? '-' : '+');
  if (magnitude >= 100) sink_.add_char(static_cast<char>('0' + magnitude / 100));
  sink_.add_char(static_cast<char>('0' + magnitude / 10 % 10));
  sink_.add_char(static_cast<char>('0' + magnitude % 10));
  if (what.left) repeat(' ', padding);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
