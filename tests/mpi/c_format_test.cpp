// SPDX-License-Identifier: Apache-2.0
// The conversions of printf are those of the host's C library.
#include "mpi/c_variadic.hpp"
#include "mpi/support/one_rank.hpp"
#include "support/sanitized.hpp"

#include <clocale>
#include <cstdarg>
#include <cstdio>
#include <cwchar>
#include <limits>

extern "C" {
int quarry_c_snprintf(char*, unsigned long, char const*, ...);
int quarry_c_sprintf(char*, char const*, ...);
int quarry_c_asprintf(char**, char const*, ...);
int quarry_c_printf(char const*, ...);
int quarry_c_puts(char const*);
int quarry_c_putchar(int);
void quarry_c_perror(char const*);
int* quarry_c___errno_location();
}

namespace quarry::mpi_test {
namespace {

class CFormat : public OneRank {};

/// Formats with both libraries and compares text and result.
template <class... Values>
void expect_same(std::string const& format, Values... values) {
  char expected[3000];
  char actual[3000];
  int const expected_length = std::snprintf(expected, sizeof(expected), format.c_str(), values...);
  int const length = quarry_c_snprintf(actual, sizeof(actual), format.c_str(), values...);
  EXPECT_STREQ(actual, expected) << format;
  EXPECT_EQ(length, expected_length) << format;
}

/// Random flags, width and precision.
std::string random_options(chooser& choose, char const* flags) {
  std::string result = "%";
  for (char const* flag = flags; *flag != 0; ++flag)
    if (choose.below(3) == 0) result += *flag;
  if (choose.below(2) == 0) result += std::to_string(1 + choose.below(40));
  if (choose.below(2) == 0) result += "." + std::to_string(choose.below(30));
  return result;
}

TEST_F(CFormat, WritesWideCharactersAsTheHostDoesInUtf8) {
  std::string const before = std::setlocale(LC_CTYPE, nullptr);
  ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);
  chooser choose{11};
  wchar_t const* const texts[] = {L"", L"abc", L"\u00e9t\u00e9", L"\u1134\u20ac", L"a\U0001f600b"};
  for (int i = 0; i < 2000; ++i) {
    std::string const options = random_options(choose, "-");
    wchar_t const* const text = texts[choose.below(5)];
    expect_same(options + "ls|", text);
    expect_same(options + "S|", text);
    if (text[0] == 0) continue;
    expect_same(options + "lc|", static_cast<std::wint_t>(text[1]));
    expect_same(options + "C|", static_cast<std::wint_t>(text[0]));
  }
  expect_same("%ls|", static_cast<wchar_t const*>(nullptr));
  std::setlocale(LC_CTYPE, before.c_str());
}

TEST_F(CFormat, FormatsIntegersAsTheHost) {
  chooser choose{1};
  for (int i = 0; i < 20000; ++i) {
    auto const value = choose.below(8) == 0 ? 0 : choose.word() >> choose.below(64);
    bool const is_signed = choose.below(2) == 0;
    std::string const options = random_options(choose, is_signed ? "-+ 0" : "-#0");
    std::string const letter(1, is_signed ? choose.one_of("di") : choose.one_of("uxXo"));
    expect_same(options + letter, static_cast<int>(value));
    expect_same(options + "hh" + letter, static_cast<int>(value));
    expect_same(options + "h" + letter, static_cast<int>(value));
    expect_same(options + "l" + letter, static_cast<long>(value));
    expect_same(options + "z" + letter, static_cast<std::size_t>(value));
  }
}

TEST_F(CFormat, FormatsDoublesAsTheHost) {
  chooser choose{2};
  for (int i = 0; i < (test::is_sanitized ? 40000 : 200000); ++i) {
    std::string const format =
        random_options(choose, "-+ #0") + std::string(1, choose.one_of("eEfFgGaA"));
    double const value = choose.real();
    expect_same(format, value);
    if (testing::Test::HasFailure()) FAIL() << "number " << i;
  }
}

TEST_F(CFormat, FormatsExtremeDoublesAsTheHost) {
  using limits = std::numeric_limits<double>;
  for (double const value : {limits::max(), limits::min(), limits::denorm_min(), limits::infinity(),
                             -limits::infinity(), 9.5, 0.5, 1.5, 2.5, 1e15, 999999.5, 0.0001})
    for (char const* format : {"%f", "%e", "%g", "%a", "%.0f", "%.0e", "%#.0g", "%.1000f", "%.0a",
                               "%010.3f", "%+.17g", "%F", "%G"})
      expect_same(format, value);
}

TEST_F(CFormat, FormatsTextAsTheHost) {
  expect_same("%s|%10s|%-10s|%.2s|%.*s", "abc", "abc", "abc", "abc", 1, "abc");
  expect_same("%c%5c%-5c|%%", 'a', 'b', 'c');
  expect_same("%*d|%-*d|%*d", 5, 1, 5, 2, -5, 3);
  expect_same("%.*f", -1, 2.5);
  expect_same("%p", reinterpret_cast<void*>(0x1234));
  expect_same("%p", static_cast<void*>(nullptr));
  char const* const nothing = nullptr;
  expect_same("%s|%.3s", nothing, nothing);
  expect_same("%Lf %Lg", 1.5L, 2.25L);
}

TEST_F(CFormat, StoresTheNumberOfCharacters) {
  int count = 0;
  short small = 0;
  char buffer[20];
  quarry_c_sprintf(buffer, "abc%nde%hn", &count, &small);
  EXPECT_STREQ(buffer, "abcde");
  EXPECT_EQ(count, 3);
  EXPECT_EQ(small, 5);
}

TEST_F(CFormat, CutsTextThatDoesNotFitAndReturnsItsLength) {
  char buffer[4] = "???";
  EXPECT_EQ(quarry_c_snprintf(buffer, 4, "%d", 123456), 6);
  EXPECT_STREQ(buffer, "123");
  EXPECT_EQ(quarry_c_snprintf(nullptr, 0, "%d", 123456), 6);
}

TEST_F(CFormat, WritesToANewBuffer) {
  char* text = nullptr;
  EXPECT_EQ(quarry_c_asprintf(&text, "%0200d", 7), 200);
  EXPECT_EQ(std::string{text}, std::string(199, '0') + "7");
}

TEST_F(CFormat, WritesLongTextInParts) {
  std::string const text(1000, 'x');
  EXPECT_EQ(quarry_c_printf("%s\n", text.c_str()), 1001);
  quarry_c_puts(text.c_str());
  quarry_c_puts("short");
  quarry_c_putchar('!');
  EXPECT_EQ(world_.output[1], text + "\n" + text + "\nshort\n!");
}

TEST_F(CFormat, NamesTheErrorOfErrno) {
  *quarry_c___errno_location() = 2;
  quarry_c_perror("data.txt");
  EXPECT_EQ(world_.output[2], "data.txt: No such file or directory\n");
}

TEST(PackedArguments, LieAtMultiplesOfTheirSizesOrInSlots) {
  struct {
    alignas(16) int first = 7;
    double second = 0.5;
    int third = -3;
    char const* fourth = "text";
  } const packed;
  mpi::packed_arguments values{&packed};
  EXPECT_EQ(values.take<int>(), 7);
  EXPECT_EQ(values.take<double>(), 0.5);
  EXPECT_EQ(values.take<int>(), -3);
  EXPECT_STREQ(values.take<char const*>(), "text");

  // A caller that gives 8 bytes where 4 are read, and 4 where 8 are read.
  alignas(16) std::uint64_t const slots[] = {std::uint64_t{5} << 32 | 7, 9, 0xffff'fffd};
  mpi::packed_arguments slotted{slots, mpi::packed_arguments::slot_of_calls};
  EXPECT_EQ(slotted.take<int>(), 7);
  EXPECT_EQ(slotted.take<long long>(), 9);
  EXPECT_EQ(slotted.take<int>(), -3);
}

}  // namespace
}  // namespace quarry::mpi_test
