// SPDX-License-Identifier: Apache-2.0
// The C library's functions that read numbers.
#include "c_convert.hpp"

#include "c_layouts.hpp"
#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

[[nodiscard]] QUARRY_HD double real_of(std::uint64_t bits) {
  double result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// The number of characters of `text` that are `word`, if all are; else 0. `word` is in lower case.
[[nodiscard]] QUARRY_HD int matched(char const* text, char const* word) {
  int length = 0;
  for (; word[length] != 0; ++length)
    if (to_lower(text[length]) != word[length]) return 0;
  return length;
}

/// Reads `letter`[sign]digits. Moves `text` behind them, or leaves it if no digits follow.
[[nodiscard]] QUARRY_HD int read_exponent(char const*& text, char letter) {
  if (to_lower(*text) != letter) return 0;
  char const* next = text + 1;
  bool const is_negative = *next == '-';
  if (*next == '-' || *next == '+') ++next;
  if (!is_decimal(*next)) return 0;
  int exponent = 0;
  for (; is_decimal(*next); ++next)
    if (exponent < 100'000) exponent = exponent * 10 + (*next - '0');
  text = next;
  return is_negative ? -exponent : exponent;
}

[[nodiscard]] QUARRY_HD parsed_real read_hexadecimal(char const* text, binary_format format) {
  parsed_real result;
  std::uint64_t mantissa = 0;
  int exponent = 0;
  bool has_lower = false;
  bool is_behind_point = false;
  bool has_digits = false;
  for (;; ++text) {
    if (*text == '.' && !is_behind_point) {
      is_behind_point = true;
      continue;
    }
    int const digit = digit_value(*text);
    if (digit >= 16) break;
    has_digits = true;
    if (mantissa >> 60 == 0) {
      mantissa = mantissa << 4 | static_cast<std::uint64_t>(digit);
      exponent -= is_behind_point ? 4 : 0;
    } else {
      has_lower |= digit != 0;
      exponent += is_behind_point ? 0 : 4;
    }
  }
  if (!has_digits) return result;
  exponent += read_exponent(text, 'p');
  result.end = text;
  if (mantissa == 0) return result;
  result.value = nearest_binary(mantissa, exponent, has_lower, format);
  return result;
}

/// The digits of a decimal number without its sign, and its exponent.
struct decimal_text {
  char const* digits;
  int length;       // with the point
  int first_place;  // the place of the first digit that is not 0, with the exponent
  int count;        // digits from that one on
  char const* end;  // null: no digits
  bool is_zero;
};

[[nodiscard]] QUARRY_HD decimal_text find_digits(char const* text) {
  decimal_text result{text, 0, 0, 0, nullptr, true};
  bool is_behind_point = false;
  bool has_digits = false;
  int integer_digits = 0;  // from the first one that is not 0
  int zeros = 0;           // between the point and the first digit that is not 0
  for (;; ++text) {
    if (*text == '.' && !is_behind_point) {
      is_behind_point = true;
      continue;
    }
    if (!is_decimal(*text)) break;
    has_digits = true;
    if (*text != '0') result.is_zero = false;
    if (result.is_zero) {
      zeros += is_behind_point ? 1 : 0;
    } else {
      ++result.count;
      integer_digits += is_behind_point ? 0 : 1;
    }
  }
  if (!has_digits) return result;
  result.length = static_cast<int>(text - result.digits);
  int const exponent = read_exponent(text, 'e');
  result.end = text;
  result.first_place = exponent + (integer_digits > 0 ? integer_digits - 1 : -1 - zeros);
  return result;
}

/// Multiplies an integer by a power of ten, if both are exact doubles: the result is rounded once.
/// Returns false otherwise.
[[nodiscard]] QUARRY_HD bool read_short(decimal_text const& number, double& result) {
  int const last_place = number.first_place - number.count + 1;
  if (number.count > 15 || last_place < -22 || last_place > 22) return false;
  std::uint64_t mantissa = 0;
  for (int i = 0; i < number.length; ++i)
    if (number.digits[i] != '.')
      mantissa = mantissa * 10 + static_cast<std::uint64_t>(number.digits[i] - '0');
  double power = 1;
  for (int i = last_place < 0 ? -last_place : last_place; i > 0; --i) power *= 10;
  result = last_place < 0 ? static_cast<double>(mantissa) / power
                          : static_cast<double>(mantissa) * power;
  return true;
}

[[nodiscard]] QUARRY_HD double read_long(decimal_text const& number, binary_format format) {
  if (number.first_place > 310) return real_of(std::uint64_t{0x7ff} << 52);
  if (number.first_place < -345) return 0;
  decimal digits;
  bool has_lower = false;
  int place = number.first_place;
  bool has_begun = false;
  for (int i = 0; i < number.length; ++i) {
    char const c = number.digits[i];
    if (c == '.' || (c == '0' && !has_begun)) continue;
    has_begun = true;
    if (place >= decimal::min_place) {
      digits.add_digit(place, c - '0');
    } else {
      has_lower |= c != '0';
    }
    --place;
  }
  return digits.to_binary(format, has_lower);
}

}  // namespace

[[nodiscard]] QUARRY_SLOW parsed_real parse_real(char const* text, binary_format format) {
  parsed_real result;
  while (is_space(*text)) ++text;
  bool const is_negative = *text == '-';
  if (*text == '-' || *text == '+') ++text;
  if (int const word = matched(text, "inf"); word != 0) {
    int const rest = matched(text + word, "inity");
    result.end = text + word + rest;
    result.value = real_of(std::uint64_t{0x7ff} << 52);
  } else if (matched(text, "nan") != 0) {
    result.end = text + 3;
    if (*result.end == '(') {
      char const* next = result.end + 1;
      while (digit_value(*next) < 36 || *next == '_') ++next;
      if (*next == ')') result.end = next + 1;
    }
    result.value = real_of(std::uint64_t{0xfff} << 51);
  } else if (text[0] == '0' && to_lower(text[1]) == 'x' &&
             (digit_value(text[2]) < 16 || (text[2] == '.' && digit_value(text[3]) < 16))) {
    result = read_hexadecimal(text + 2, format);
    result.is_out_of_range = decimal::is_infinite(result.value);
  } else {
    decimal_text const number = find_digits(text);
    result.end = number.end;
    if (number.end != nullptr && !number.is_zero) {
      bool const is_short = format.bits == 53 && read_short(number, result.value);
      if (!is_short) result.value = read_long(number, format);
      result.is_out_of_range = result.value == 0 || decimal::is_infinite(result.value);
    }
  }
  if (is_negative && result.end != nullptr) result.value = -result.value;
  return result;
}

namespace {

QUARRY_HD double to_real(char const* text, char** end, binary_format format) {
  parsed_real const number = parse_real(text, format);
  if (end != nullptr) *end = const_cast<char*>(number.end != nullptr ? number.end : text);
  if (number.is_out_of_range) self().error_number = error_range;
  return number.value;
}

QUARRY_SLOW parsed_integer to_integer(char const* text, char** end, int base, bool reads_binary) {
  parsed_integer result;
  if (base < 0 || base == 1 || base > 36) {
    self().error_number = error_invalid;
    if (end != nullptr) *end = const_cast<char*>(text);
    return result;
  }
  result = parsed_integer::read(text, base, reads_binary);
  if (end != nullptr) *end = const_cast<char*>(result.end != nullptr ? result.end : text);
  return result;
}

QUARRY_HD long to_signed(char const* text, char** end, int base, bool reads_binary) {
  bool is_out = false;
  long const value = to_integer(text, end, base, reads_binary).as_signed(is_out);
  if (is_out) self().error_number = error_range;
  return value;
}
QUARRY_HD unsigned long to_unsigned(char const* text, char** end, int base, bool reads_binary) {
  bool is_out = false;
  unsigned long const value = to_integer(text, end, base, reads_binary).as_unsigned(is_out);
  if (is_out) self().error_number = error_range;
  return value;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

// glibc's headers call the second kind of name in C23 and with GNU extensions.
#define QUARRY_READS_INTEGER(result, name, function)                                  \
  QUARRY_HD result quarry_c_##name(char const* text, char** end, int base) {          \
    return static_cast<result>(function(text, end, base, false));                     \
  }                                                                                   \
  QUARRY_HD result quarry_c___isoc23_##name(char const* text, char** end, int base) { \
    return static_cast<result>(function(text, end, base, true));                      \
  }
QUARRY_READS_INTEGER(long, strtol, to_signed)
QUARRY_READS_INTEGER(long long, strtoll, to_signed)
QUARRY_READS_INTEGER(long, strtoimax, to_signed)
QUARRY_READS_INTEGER(unsigned long, strtoul, to_unsigned)
QUARRY_READS_INTEGER(unsigned long long, strtoull, to_unsigned)
QUARRY_READS_INTEGER(unsigned long, strtoumax, to_unsigned)
#undef QUARRY_READS_INTEGER

QUARRY_HD int quarry_c_atoi(char const* text) {
  return static_cast<int>(to_signed(text, nullptr, 10, false));
}
QUARRY_HD long quarry_c_atol(char const* text) { return to_signed(text, nullptr, 10, false); }
QUARRY_HD long long quarry_c_atoll(char const* text) { return to_signed(text, nullptr, 10, false); }
QUARRY_HD double quarry_c_strtod(char const* text, char** end) {
  return to_real(text, end, double_format);
}
QUARRY_HD float quarry_c_strtof(char const* text, char** end) {
  return static_cast<float>(to_real(text, end, float_format));
}
#ifdef __CUDACC__
// long double is double on the GPU
QUARRY_HD double quarry_c_strtold(char const* text, char** end) {
  return to_real(text, end, double_format);
}
#else
long double quarry_c_strtold(char const* text, char** end) {
  return to_real(text, end, double_format);
}
#endif
QUARRY_HD double quarry_c_atof(char const* text) { return to_real(text, nullptr, double_format); }

}  // extern "C"
