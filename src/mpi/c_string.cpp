// SPDX-License-Identifier: Apache-2.0
// The C library's functions for strings and bytes.
#include "c_convert.hpp"
#include "c_library.hpp"
#include "copy_bytes.hpp"
#include "format.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

using size = unsigned long;

/// The order of two strings, of at most `limit` characters.
template <bool IgnoresCase>
[[nodiscard]] QUARRY_HD int order(char const* first, char const* second, size limit) {
  for (size i = 0; i < limit; ++i) {
    int a = static_cast<unsigned char>(first[i]);
    int b = static_cast<unsigned char>(second[i]);
    if (IgnoresCase) {
      a = to_lower(a);
      b = to_lower(b);
    }
    if (a != b) return a - b;
    if (a == 0) return 0;
  }
  return 0;
}

[[nodiscard]] QUARRY_HD bool contains(char const* set, char c) {
  for (; *set != 0; ++set)
    if (*set == c) return true;
  return false;
}

/// How many characters at the start are in the set (`Wanted`) or are not.
template <bool Wanted>
[[nodiscard]] QUARRY_HD size span(char const* text, char const* set) {
  size length = 0;
  while (text[length] != 0 && contains(set, text[length]) == Wanted) ++length;
  return length;
}

template <bool IgnoresCase>
[[nodiscard]] QUARRY_HD char* find(char const* text, char const* wanted) {
  size const length = length_of(wanted);
  for (;; ++text) {
    if (order<IgnoresCase>(text, wanted, length) == 0) return const_cast<char*>(text);
    if (*text == 0) return nullptr;
  }
}

QUARRY_HD char* next_token(char* text, char const* separators, char*& rest) {
  if (text == nullptr) text = rest;
  if (text == nullptr) return nullptr;
  text += span<true>(text, separators);
  if (*text == 0) {
    rest = text;
    return nullptr;
  }
  char* const end = text + span<false>(text, separators);
  rest = *end == 0 ? end : end + 1;
  *end = 0;
  return text;
}

/// The texts of errno that a program is likely to see, as glibc has them.
[[nodiscard]] QUARRY_HD char const* message_of(int code) {
  switch (code) {
    case 0:
      return "Success";
    case 1:
      return "Operation not permitted";
    case 2:
      return "No such file or directory";
    case 3:
      return "No such process";
    case 4:
      return "Interrupted system call";
    case 5:
      return "Input/output error";
    case 9:
      return "Bad file descriptor";
    case 11:
      return "Resource temporarily unavailable";
    case 12:
      return "Cannot allocate memory";
    case 13:
      return "Permission denied";
    case 14:
      return "Bad address";
    case 16:
      return "Device or resource busy";
    case 17:
      return "File exists";
    case 18:
      return "Invalid cross-device link";
    case 20:
      return "Not a directory";
    case 21:
      return "Is a directory";
    case 22:
      return "Invalid argument";
    case 23:
      return "Too many open files in system";
    case 24:
      return "Too many open files";
    case 27:
      return "File too large";
    case 28:
      return "No space left on device";
    case 29:
      return "Illegal seek";
    case 30:
      return "Read-only file system";
    case 32:
      return "Broken pipe";
    case 33:
      return "Numerical argument out of domain";
    case 34:
      return "Numerical result out of range";
    case 36:
      return "File name too long";
    case 38:
      return "Function not implemented";
    case 39:
      return "Directory not empty";
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD void* quarry_c_memcpy(void* to, void const* from, size count) {
  copy_bytes(to, from, count);
  return to;
}
QUARRY_HD void* quarry_c_mempcpy(void* to, void const* from, size count) {
  copy_bytes(to, from, count);
  return static_cast<char*>(to) + count;
}
QUARRY_HD void* quarry_c_memmove(void* to, void const* from, size count) {
  move_bytes(to, from, count);
  return to;
}
QUARRY_HD void* quarry_c_memset(void* to, int value, size count) {
  fill_bytes(to, static_cast<unsigned char>(value), count);
  return to;
}
QUARRY_HD void quarry_c_bzero(void* to, size count) { fill_bytes(to, 0, count); }
QUARRY_HD void quarry_c_bcopy(void const* from, void* to, size count) {
  quarry_c_memmove(to, from, count);
}
QUARRY_HD int quarry_c_memcmp(void const* first, void const* second, size count) {
  auto const* const a = static_cast<unsigned char const*>(first);
  auto const* const b = static_cast<unsigned char const*>(second);
  for (size i = 0; i < count; ++i)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}
QUARRY_HD int quarry_c_bcmp(void const* first, void const* second, size count) {
  return quarry_c_memcmp(first, second, count);
}
QUARRY_HD void* quarry_c_memchr(void const* data, int c, size count) {
  auto const* const text = static_cast<unsigned char const*>(data);
  for (size i = 0; i < count; ++i)
    if (text[i] == static_cast<unsigned char>(c)) return const_cast<unsigned char*>(text + i);
  return nullptr;
}

QUARRY_HD size quarry_c_strlen(char const* text) { return length_of(text); }
QUARRY_HD size quarry_c_strnlen(char const* text, size limit) {
  size length = 0;
  while (length < limit && text[length] != 0) ++length;
  return length;
}
QUARRY_HD int quarry_c_strcmp(char const* first, char const* second) {
  return order<false>(first, second, ~size{0});
}
QUARRY_HD int quarry_c_strncmp(char const* first, char const* second, size limit) {
  return order<false>(first, second, limit);
}
QUARRY_HD int quarry_c_strcoll(char const* first, char const* second) {
  return order<false>(first, second, ~size{0});
}
QUARRY_HD int quarry_c_strcasecmp(char const* first, char const* second) {
  return order<true>(first, second, ~size{0});
}
QUARRY_HD int quarry_c_strncasecmp(char const* first, char const* second, size limit) {
  return order<true>(first, second, limit);
}
QUARRY_HD char* quarry_c_stpcpy(char* to, char const* from) {
  while ((*to = *from) != 0) ++to, ++from;
  return to;
}
QUARRY_HD char* quarry_c_strcpy(char* to, char const* from) {
  quarry_c_stpcpy(to, from);
  return to;
}
QUARRY_HD char* quarry_c_strncpy(char* to, char const* from, size count) {
  size i = 0;
  for (; i < count && from[i] != 0; ++i) to[i] = from[i];
  for (; i < count; ++i) to[i] = 0;
  return to;
}
QUARRY_HD char* quarry_c_strcat(char* to, char const* from) {
  quarry_c_stpcpy(to + length_of(to), from);
  return to;
}
QUARRY_HD char* quarry_c_strncat(char* to, char const* from, size count) {
  char* end = to + length_of(to);
  for (size i = 0; i < count && from[i] != 0; ++i) *end++ = from[i];
  *end = 0;
  return to;
}
QUARRY_HD char* quarry_c_strchrnul(char const* text, int c) {
  while (*text != 0 && *text != static_cast<char>(c)) ++text;
  return const_cast<char*>(text);
}
QUARRY_HD char* quarry_c_strchr(char const* text, int c) {
  char* const found = quarry_c_strchrnul(text, c);
  return *found == static_cast<char>(c) ? found : nullptr;
}
QUARRY_HD char* quarry_c_index(char const* text, int c) { return quarry_c_strchr(text, c); }
QUARRY_HD char* quarry_c_strrchr(char const* text, int c) {
  char const* found = nullptr;
  for (;; ++text) {
    if (*text == static_cast<char>(c)) found = text;
    if (*text == 0) return const_cast<char*>(found);
  }
}
QUARRY_HD char* quarry_c_rindex(char const* text, int c) { return quarry_c_strrchr(text, c); }
QUARRY_HD char* quarry_c_strstr(char const* text, char const* wanted) {
  return find<false>(text, wanted);
}
QUARRY_HD char* quarry_c_strcasestr(char const* text, char const* wanted) {
  return find<true>(text, wanted);
}
QUARRY_HD size quarry_c_strspn(char const* text, char const* set) { return span<true>(text, set); }
QUARRY_HD size quarry_c_strcspn(char const* text, char const* set) {
  return span<false>(text, set);
}
QUARRY_HD char* quarry_c_strpbrk(char const* text, char const* set) {
  text += span<false>(text, set);
  return *text != 0 ? const_cast<char*>(text) : nullptr;
}
QUARRY_HD char* quarry_c_strtok_r(char* text, char const* separators, char** rest) {
  return next_token(text, separators, *rest);
}
QUARRY_HD char* quarry_c_strtok(char* text, char const* separators) {
  return next_token(text, separators, own_library().next_token);
}
QUARRY_HD char* quarry_c_strsep(char** text, char const* separators) {
  char* const token = *text;
  if (token == nullptr) return nullptr;
  char* const end = token + span<false>(token, separators);
  *text = *end != 0 ? end + 1 : nullptr;
  *end = 0;
  return token;
}
QUARRY_HD char* quarry_c_strerror(int code) {
  char const* const known = message_of(code);
  if (known != nullptr) return const_cast<char*>(known);
  c_library& library = own_library();
  text_buffer text{library.message, sizeof(library.message)};
  text.add("Unknown error ");
  text.add_number(code);
  text.terminate();
  return library.message;
}

}  // extern "C"
