// SPDX-License-Identifier: Apache-2.0
// Classes of characters in the C locale. Programs that include glibc's <ctype.h> read its tables.
#include "progress.hpp"

#ifdef __CUDACC__
#define QUARRY_TABLE __device__
#else
#define QUARRY_TABLE
#endif

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

// The bits of glibc's table on a little-endian machine.
enum class_bit : unsigned short {
  upper = 0x100,
  lower = 0x200,
  alpha = 0x400,
  digit = 0x800,
  hexadecimal = 0x1000,
  space = 0x2000,
  print = 0x4000,
  graph = 0x8000,
  blank = 0x1,
  control = 0x2,
  punctuation = 0x4,
  alphanumeric = 0x8
};

constexpr bool is_between(int c, int first, int last) { return c >= first && c <= last; }

constexpr unsigned short classes_of(int c) {
  if (!is_between(c, 0, 127)) return 0;
  bool const is_upper = is_between(c, 'A', 'Z');
  bool const is_lower = is_between(c, 'a', 'z');
  bool const is_digit = is_between(c, '0', '9');
  bool const is_letter = is_upper || is_lower;
  bool const is_hexadecimal = is_digit || is_between(c, 'A', 'F') || is_between(c, 'a', 'f');
  bool const is_graph = is_between(c, 33, 126);
  bool const is_punctuation = is_graph && !is_letter && !is_digit;
  return static_cast<unsigned short>(
      (is_upper ? upper : 0) | (is_lower ? lower : 0) | (is_letter ? alpha : 0) |
      (is_digit ? digit : 0) | (is_hexadecimal ? hexadecimal : 0) |
      (c == ' ' || is_between(c, 9, 13) ? space : 0) | (is_between(c, 32, 126) ? print : 0) |
      (is_graph ? graph : 0) | (c == ' ' || c == '\t' ? blank : 0) |
      (c < 32 || c == 127 ? control : 0) | (is_punctuation ? punctuation : 0) |
      (is_letter || is_digit ? alphanumeric : 0));
}

/// Entry c + 128 is for the character c, from -128 to 255.
struct class_tables {
  unsigned short classes[384];
  int lower_case[384];
  int upper_case[384];
};

constexpr class_tables make_tables() {
  class_tables result{};
  for (int i = 0; i < 384; ++i) {
    int const c = i - 128;
    // glibc's tables of cases map characters below 0, but EOF, to their unsigned values
    int const character = c < -1 ? c + 256 : c;
    result.classes[i] = classes_of(c);
    result.lower_case[i] = is_between(c, 'A', 'Z') ? c + 32 : character;
    result.upper_case[i] = is_between(c, 'a', 'z') ? c - 32 : character;
  }
  return result;
}

QUARRY_TABLE class_tables const tables = make_tables();
QUARRY_TABLE unsigned short const* const classes = tables.classes + 128;
QUARRY_TABLE int const* const lower_case = tables.lower_case + 128;
QUARRY_TABLE int const* const upper_case = tables.upper_case + 128;

[[nodiscard]] QUARRY_HD int has_class(int c, unsigned bit) {
#if defined(__CUDACC__) && !defined(__CUDA_ARCH__)
  return static_cast<int>(bit) + c;  // nvcc's host pass; never called
#else
  return c < -128 || c > 255 ? 0 : static_cast<int>(classes[c] & bit);
#endif
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

#if defined(__CUDACC__) && !defined(__CUDA_ARCH__)
#define QUARRY_DEVICE_ONLY(value) nullptr
#else
#define QUARRY_DEVICE_ONLY(value) value
#endif
QUARRY_HD unsigned short const** quarry_c___ctype_b_loc() {
  return QUARRY_DEVICE_ONLY(const_cast<unsigned short const**>(&classes));
}
QUARRY_HD int const** quarry_c___ctype_tolower_loc() {
  return QUARRY_DEVICE_ONLY(const_cast<int const**>(&lower_case));
}
QUARRY_HD int const** quarry_c___ctype_toupper_loc() {
  return QUARRY_DEVICE_ONLY(const_cast<int const**>(&upper_case));
}

QUARRY_HD int quarry_c_isalpha(int c) { return has_class(c, alpha); }
QUARRY_HD int quarry_c_isdigit(int c) { return has_class(c, digit); }
QUARRY_HD int quarry_c_isalnum(int c) { return has_class(c, alphanumeric); }
QUARRY_HD int quarry_c_isspace(int c) { return has_class(c, space); }
QUARRY_HD int quarry_c_isupper(int c) { return has_class(c, upper); }
QUARRY_HD int quarry_c_islower(int c) { return has_class(c, lower); }
QUARRY_HD int quarry_c_isxdigit(int c) { return has_class(c, hexadecimal); }
QUARRY_HD int quarry_c_isprint(int c) { return has_class(c, print); }
QUARRY_HD int quarry_c_isgraph(int c) { return has_class(c, graph); }
QUARRY_HD int quarry_c_isblank(int c) { return has_class(c, blank); }
QUARRY_HD int quarry_c_iscntrl(int c) { return has_class(c, control); }
QUARRY_HD int quarry_c_ispunct(int c) { return has_class(c, punctuation); }
QUARRY_HD int quarry_c_isascii(int c) { return c >= 0 && c <= 127; }
QUARRY_HD int quarry_c_toascii(int c) { return c & 127; }
QUARRY_HD int quarry_c_tolower(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }
QUARRY_HD int quarry_c_toupper(int c) { return c >= 'a' && c <= 'z' ? c - 32 : c; }

}  // extern "C"
