// SPDX-License-Identifier: Apache-2.0
// strtod, strtol and their relatives return what those of the host's C library return.
#include "mpi/support/one_rank.hpp"
#include "support/sanitized.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>

extern "C" {
double quarry_c_strtod(char const*, char**);
float quarry_c_strtof(char const*, char**);
long quarry_c_strtol(char const*, char**, int);
unsigned long quarry_c_strtoul(char const*, char**, int);
long quarry_c___isoc23_strtol(char const*, char**, int);
int quarry_c_atoi(char const*);
double quarry_c_atof(char const*);
int* quarry_c___errno_location();
}

namespace quarry::mpi_test {
namespace {

class CConvert : public OneRank {
 protected:
  template <class Real>
  static std::uint64_t bits_of(Real value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
  }
  void expect_same_real(std::string const& text) {
    char* expected_end = nullptr;
    char* end = nullptr;
    EXPECT_EQ(bits_of(quarry_c_strtod(text.c_str(), &end)),
              bits_of(std::strtod(text.c_str(), &expected_end)))
        << text;
    EXPECT_EQ(end, expected_end) << text;
    EXPECT_EQ(bits_of(quarry_c_strtof(text.c_str(), &end)),
              bits_of(std::strtof(text.c_str(), &expected_end)))
        << text;
    EXPECT_EQ(end, expected_end) << text;
  }
};

/// A number of up to `digits` digits with a point and an exponent.
std::string random_number(chooser& choose, int digits, int exponents) {
  std::string text;
  int const count = 1 + choose.below(digits);
  int const point = choose.below(count + 1);
  for (int i = 0; i < count; ++i) {
    if (i == point) text += '.';
    text += choose.below(4) == 0 ? choose.one_of("09") : static_cast<char>('0' + choose.below(10));
  }
  if (choose.below(3) != 0) text += "e" + std::to_string(choose.below(2 * exponents) - exponents);
  return text;
}

TEST_F(CConvert, ReadsRandomDecimalsAsTheHost) {
  chooser choose{3};
  for (int i = 0; i < (test::is_sanitized ? 20000 : 100000); ++i) {
    expect_same_real(random_number(choose, 25, 60));
    expect_same_real(random_number(choose, 40, 350));
  }
  for (int i = 0; i < 3000; ++i) expect_same_real(random_number(choose, 1200, 400));
}

TEST_F(CConvert, ReadsBackEachDouble) {
  chooser choose{4};
  char text[2000];
  for (int i = 0; i < 50000; ++i) {
    double const value = choose.real();
    std::snprintf(text, sizeof(text), "%.17g", value);
    expect_same_real(text);
    std::snprintf(text, sizeof(text), "%a", value);
    expect_same_real(text);
  }
}

TEST_F(CConvert, RoundsNumbersBetweenTwoDoublesToEven) {
  chooser choose{5};
  char text[2000];
  for (int i = 0; i < 1000; ++i) {
    // The middle of two doubles, exactly, and a little above and below it.
    std::uint64_t const mantissa = (choose.word() & ((std::uint64_t{1} << 52) - 1)) | 1ull << 52;
    int const exponent = i % 4 == 0 ? -1074 : choose.below(1000) - 900;
    long double const middle = std::ldexp(static_cast<long double>(2 * mantissa + 1), exponent - 1);
    std::snprintf(text, sizeof(text), "%.1100Lf", middle);
    expect_same_real(text);
    expect_same_real(std::string{text} + "0001");
    std::snprintf(text, sizeof(text), "%.900Le", middle);
    expect_same_real(text);
  }
}

TEST_F(CConvert, ReadsUnusualFormsAsTheHost) {
  for (char const* text : {"",
                           "x",
                           ".",
                           "-.",
                           "+.5",
                           "5.",
                           "1e",
                           "1e+",
                           "1e5x",
                           "  \t-12.5e-3z",
                           "inf",
                           "-Infinity",
                           "infinit",
                           "nan",
                           "nan(abc)",
                           "nan(",
                           "0x",
                           "0x.8",
                           "0x1.8p3",
                           "0X1P-1074",
                           "0x1p-1075",
                           "0x1.00000000000008p0",
                           "0x1.00000000000018p0",
                           "0x123456789abcdef01.8p0",
                           "1e400",
                           "-1e400",
                           "1e-400",
                           "4.9e-324",
                           "2.4703282292062327e-324",
                           "2.4703282292062329e-324",
                           "1.7976931348623158e308",
                           "1.7976931348623159e308",
                           "00000000000000000000000001",
                           "0.00000000000000000000000000000000000001e38",
                           "9007199254740993",
                           "1e22",
                           "1e23",
                           "0e99999999999",
                           "1e99999999999",
                           "1e-99999999999",
                           "3.4028236e38",
                           "1.0.0"})
    expect_same_real(text);
}

TEST_F(CConvert, ReportsARealNumberOutOfRange) {
  quarry_c_strtod("1e400", nullptr);
  EXPECT_EQ(*quarry_c___errno_location(), ERANGE);
}

TEST_F(CConvert, ReadsIntegersAsTheHost) {
  chooser choose{6};
  for (int i = 0; i < 500000; ++i) {
    std::string text;
    if (choose.below(4) == 0) text += ' ';
    if (choose.below(2) == 0) text += choose.one_of("-+");
    if (choose.below(3) == 0) text += "0";
    if (choose.below(3) == 0) text += choose.one_of("xXbB");
    for (int j = choose.below(22); j > 0; --j) text += choose.one_of("0123456789abcdefzZ ");
    int const base = choose.below(4) == 0 ? 2 + choose.below(35) : choose.one_of("\0\10\12\20");
    char* expected_end = nullptr;
    char* end = nullptr;
    errno = *quarry_c___errno_location() = 0;
    EXPECT_EQ(quarry_c_strtol(text.c_str(), &end, base),
              std::strtol(text.c_str(), &expected_end, base))
        << text << " in base " << base;
    EXPECT_EQ(end, expected_end) << text;
    EXPECT_EQ(*quarry_c___errno_location(), errno) << text;
    EXPECT_EQ(quarry_c_strtoul(text.c_str(), &end, base),
              std::strtoul(text.c_str(), &expected_end, base))
        << text << " in base " << base;
    EXPECT_EQ(end, expected_end) << text;
  }
}

TEST_F(CConvert, ReadsBinaryNumbersInC23) {
  EXPECT_EQ(quarry_c___isoc23_strtol("0b101", nullptr, 0), 5);
  EXPECT_EQ(quarry_c_strtol("0b101", nullptr, 0), 0);
}

TEST_F(CConvert, RefusesABaseThatDoesNotExist) {
  EXPECT_EQ(quarry_c_strtol("12", nullptr, 37), 0);
  EXPECT_EQ(*quarry_c___errno_location(), EINVAL);
}

TEST_F(CConvert, ReadsTheShortForms) {
  EXPECT_EQ(quarry_c_atoi(" -42abc"), -42);
  EXPECT_EQ(quarry_c_atof("2.5e1"), 25.0);
}

}  // namespace
}  // namespace quarry::mpi_test
