// SPDX-License-Identifier: Apache-2.0
// sscanf stores and returns what the host's C library stores and returns.
#include "mpi/support/one_rank.hpp"

#include <cstdio>

extern "C" int quarry_c_sscanf(char const*, char const*, ...);

namespace quarry::mpi_test {
namespace {

class CScan : public OneRank {};

/// Room for the results of four conversions of any type.
struct results {
  alignas(16) char places[4][512];
  results() { std::memset(places, '#', sizeof(places)); }
};

void expect_same_scan(std::string const& text, std::string const& format) {
  results expected;
  results actual;
  int const expected_count =
      std::sscanf(text.c_str(), format.c_str(), expected.places[0], expected.places[1],
                  expected.places[2], expected.places[3]);
  int const count = quarry_c_sscanf(text.c_str(), format.c_str(), actual.places[0],
                                    actual.places[1], actual.places[2], actual.places[3]);
  EXPECT_EQ(count, expected_count) << "'" << text << "' as '" << format << "'";
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(std::memcmp(actual.places[i], expected.places[i], 64), 0)
        << "'" << text << "' as '" << format << "', value " << i;
}

TEST_F(CScan, ReadsKnownFormsAsTheHost) {
  expect_same_scan("1 2.5 word x", "%d %lf %s %c");
  expect_same_scan("  12abc", "%d%3s");
  expect_same_scan("0x1f 017 9", "%i %i %i");
  expect_same_scan("0x1f", "%x");
  expect_same_scan("0xg", "%x%s");
  expect_same_scan("123456", "%3d%2d%d");
  expect_same_scan("a,b,c", "%[^,],%[^,],%s");
  expect_same_scan("]ab-c", "%[]a-b]%s");
  expect_same_scan("key=5", "key=%d");
  expect_same_scan("key:5", "key=%d");
  expect_same_scan("", "%d");
  expect_same_scan("   ", "%d");
  expect_same_scan("x", "%d");
  expect_same_scan("5", "%d %d");
  expect_same_scan("5 x", "%d %d");
  expect_same_scan("1 2 3", "%*d %d %n");
  expect_same_scan("50%", "%d%%%n");
  expect_same_scan("ab", "%5c");
  expect_same_scan("300 70000 5000000000", "%hhd %hd %ld");
  expect_same_scan("-5", "%u");
  expect_same_scan("99999999999999999999", "%ld");
  expect_same_scan("99999999999", "%d");
  expect_same_scan("1e5 2e-3 .5 5.", "%f %lf %f %lf");
  expect_same_scan("inf nan -infinity x", "%f %f %lf %s");
  expect_same_scan("0x1.8p3", "%lf");
  expect_same_scan("1.5e+x", "%lf%s");
  expect_same_scan("- 5", "%d");
  expect_same_scan("12:34:56", "%d:%d:%d");
  expect_same_scan("3.4028236e38 1.00000017881393432617187499", "%f %f");
}

TEST_F(CScan, ReadsRandomTextAsTheHost) {
  chooser choose{12};
  char const* const conversions[] = {"%d",  "%i",     "%u",    "%x",      "%o", "%ld", "%hd",
                                     "%f",  "%lf",    "%20s",  "%3s",     "%c", "%2d", "%4f",
                                     "%*d", "%[0-9]", "%[^ ]", "%5[a-f]", "%n", "%3c"};
  for (int i = 0; i < 300000; ++i) {
    std::string text;
    for (int j = choose.below(24); j > 0; --j)
      text += choose.one_of("0123456789 -+.eExXaf 0123456789 ");
    std::string format;
    for (int j = 1 + choose.below(4); j > 0; --j) {
      format += conversions[choose.below(std::size(conversions))];
      if (choose.below(2) == 0) format += ' ';
    }
    expect_same_scan(text, format);
    if (HasFailure()) FAIL() << "text " << i;
  }
}

}  // namespace
}  // namespace quarry::mpi_test
