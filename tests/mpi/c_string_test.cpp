// SPDX-License-Identifier: Apache-2.0
// Functions for strings and characters return what those of the host's C library return.
#include "mpi/support/one_rank.hpp"

#include <strings.h>
#include <cctype>
#include <cstring>

extern "C" {
void* quarry_c_memmove(void*, void const*, unsigned long);
int quarry_c_memcmp(void const*, void const*, unsigned long);
void* quarry_c_memchr(void const*, int, unsigned long);
unsigned long quarry_c_strlen(char const*);
int quarry_c_strcmp(char const*, char const*);
int quarry_c_strncmp(char const*, char const*, unsigned long);
int quarry_c_strcasecmp(char const*, char const*);
int quarry_c_strncasecmp(char const*, char const*, unsigned long);
char* quarry_c_strcpy(char*, char const*);
char* quarry_c_strncpy(char*, char const*, unsigned long);
char* quarry_c_strcat(char*, char const*);
char* quarry_c_strncat(char*, char const*, unsigned long);
char* quarry_c_strchr(char const*, int);
char* quarry_c_strrchr(char const*, int);
char* quarry_c_strstr(char const*, char const*);
unsigned long quarry_c_strspn(char const*, char const*);
unsigned long quarry_c_strcspn(char const*, char const*);
char* quarry_c_strpbrk(char const*, char const*);
char* quarry_c_strtok(char*, char const*);
char* quarry_c_strtok_r(char*, char const*, char**);
char* quarry_c_strerror(int);
char* quarry_c_strdup(char const*);
char* quarry_c_strndup(char const*, unsigned long);
unsigned short const** quarry_c___ctype_b_loc();
int const** quarry_c___ctype_tolower_loc();
int const** quarry_c___ctype_toupper_loc();
int quarry_c_isalpha(int);
int quarry_c_ispunct(int);
int quarry_c_toupper(int);
}

namespace quarry::mpi_test {
namespace {

class CString : public OneRank {};

std::string random_text(chooser& choose, int limit) {
  std::string text;
  for (int i = choose.below(limit); i > 0; --i) text += choose.one_of("aAbBc\xe4");
  return text;
}
int sign(int value) { return (value > 0) - (value < 0); }

TEST_F(CString, ComparesAsTheHost) {
  chooser choose{7};
  for (int i = 0; i < 20000; ++i) {
    std::string const a = random_text(choose, 6);
    std::string const b = random_text(choose, 6);
    auto const limit = static_cast<unsigned long>(choose.below(7));
    char const* const x = a.c_str();
    char const* const y = b.c_str();
    EXPECT_EQ(sign(quarry_c_strcmp(x, y)), sign(std::strcmp(x, y)));
    EXPECT_EQ(sign(quarry_c_strncmp(x, y, limit)), sign(std::strncmp(x, y, limit)));
    EXPECT_EQ(sign(quarry_c_strcasecmp(x, y)), sign(strcasecmp(x, y)));
    EXPECT_EQ(sign(quarry_c_strncasecmp(x, y, limit)), sign(strncasecmp(x, y, limit)));
    auto const both = std::min(a.size(), b.size());
    EXPECT_EQ(sign(quarry_c_memcmp(x, y, both)), sign(std::memcmp(x, y, both)));
  }
}

TEST_F(CString, SearchesAsTheHost) {
  chooser choose{8};
  for (int i = 0; i < 20000; ++i) {
    std::string const a = random_text(choose, 12);
    std::string const b = random_text(choose, 4);
    char const* const x = a.c_str();
    char const* const y = b.c_str();
    char const c = choose.one_of("aAbBc\xe4\0");
    EXPECT_EQ(quarry_c_strlen(x), a.size());
    EXPECT_EQ(quarry_c_strchr(x, c), std::strchr(x, c));
    EXPECT_EQ(quarry_c_strrchr(x, c), std::strrchr(x, c));
    EXPECT_EQ(quarry_c_memchr(x, c, a.size()), std::memchr(x, c, a.size()));
    EXPECT_EQ(quarry_c_strstr(x, y), std::strstr(x, y));
    EXPECT_EQ(quarry_c_strspn(x, y), std::strspn(x, y));
    EXPECT_EQ(quarry_c_strcspn(x, y), std::strcspn(x, y));
    EXPECT_EQ(quarry_c_strpbrk(x, y), std::strpbrk(x, y));
  }
}

TEST_F(CString, CopiesAsTheHost) {
  chooser choose{9};
  for (int i = 0; i < 5000; ++i) {
    std::string const a = random_text(choose, 10);
    std::string const b = random_text(choose, 10);
    auto const limit = static_cast<unsigned long>(choose.below(12));
    char expected[40];
    char actual[40];
    auto const reset = [&] {
      std::memset(expected, '#', sizeof(expected));
      std::memset(actual, '#', sizeof(actual));
    };
    reset();
    std::strcat(std::strcpy(expected, a.c_str()), b.c_str());
    quarry_c_strcat(quarry_c_strcpy(actual, a.c_str()), b.c_str());
    EXPECT_EQ(std::memcmp(expected, actual, sizeof(actual)), 0);
    reset();
    quarry_c_strncpy(actual, a.c_str(), limit);
    std::memcpy(expected, a.c_str(), std::min(limit, a.size()));
    for (auto j = a.size(); j < limit; ++j) expected[j] = 0;
    EXPECT_EQ(std::memcmp(expected, actual, sizeof(actual)), 0);
    quarry_c_strncat(quarry_c_strcpy(actual, a.c_str()), b.c_str(), limit);
    EXPECT_EQ(std::string{actual}, a + b.substr(0, limit));
    EXPECT_EQ(std::string{quarry_c_strdup(a.c_str())}, a);
    EXPECT_EQ(std::string{quarry_c_strndup(a.c_str(), limit)}, a.substr(0, limit));
  }
}

TEST_F(CString, MovesBytesThatOverlap) {
  for (unsigned long from = 0; from < 8; ++from)
    for (unsigned long to = 0; to < 8; ++to) {
      char expected[] = "0123456789abcdef";
      char actual[] = "0123456789abcdef";
      std::memmove(expected + to, expected + from, 8);
      quarry_c_memmove(actual + to, actual + from, 8);
      EXPECT_STREQ(actual, expected);
    }
}

TEST_F(CString, SplitsTextAsTheHost) {
  for (char const* text : {"", ",", "a", "a,b", ",,a, b,,", "a b;c"}) {
    std::string expected{text};
    std::string actual{text};
    std::string again{text};
    char* rest = nullptr;
    char* own_rest = nullptr;
    char* e = strtok_r(expected.data(), ", ;", &rest);
    char* a = quarry_c_strtok(actual.data(), ", ;");
    char* r = quarry_c_strtok_r(again.data(), ", ;", &own_rest);
    while (e != nullptr) {
      ASSERT_STREQ(a, e);
      ASSERT_STREQ(r, e);
      e = strtok_r(nullptr, ", ;", &rest);
      a = quarry_c_strtok(nullptr, ", ;");
      r = quarry_c_strtok_r(nullptr, ", ;", &own_rest);
    }
    EXPECT_EQ(a, nullptr);
    EXPECT_EQ(r, nullptr);
  }
}

TEST_F(CString, HasTheTextsOfCommonErrors) {
  for (int const code : {0, 1, 2, 5, 9, 12, 13, 17, 20, 21, 22, 24, 28, 32, 33, 34, 4000, -7})
    EXPECT_STREQ(quarry_c_strerror(code), std::strerror(code));
}

TEST_F(CString, ClassifiesEachCharacterAsTheHost) {
  for (int c = -128; c < 256; ++c) {
    EXPECT_EQ((*quarry_c___ctype_b_loc())[c], (*__ctype_b_loc())[c]) << c;
    EXPECT_EQ((*quarry_c___ctype_tolower_loc())[c], (*__ctype_tolower_loc())[c]) << c;
    EXPECT_EQ((*quarry_c___ctype_toupper_loc())[c], (*__ctype_toupper_loc())[c]) << c;
    if (c < -1) continue;
    EXPECT_EQ(quarry_c_isalpha(c) != 0, std::isalpha(c) != 0) << c;
    EXPECT_EQ(quarry_c_ispunct(c) != 0, std::ispunct(c) != 0) << c;
    EXPECT_EQ(quarry_c_toupper(c), std::toupper(c)) << c;
  }
}

}  // namespace
}  // namespace quarry::mpi_test
