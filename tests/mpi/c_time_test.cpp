// SPDX-License-Identifier: Apache-2.0
// Dates and options against those of the host's C library.
#include "mpi/c_layouts.hpp"
#include "mpi/support/one_rank.hpp"

#include <getopt.h>
#include <ctime>

extern "C" {
quarry::mpi::c_tm* quarry_c_gmtime_r(long const*, quarry::mpi::c_tm*);
quarry::mpi::c_tm* quarry_c_localtime_r(long const*, quarry::mpi::c_tm*);
long quarry_c_timegm(quarry::mpi::c_tm*);
long quarry_c_mktime(quarry::mpi::c_tm*);
char* quarry_c_ctime(long const*);
unsigned long quarry_c_strftime(char*, unsigned long, char const*, quarry::mpi::c_tm const*);
long quarry_c_time(long*);
int quarry_c_usleep(unsigned);
int quarry_c_clock_gettime(int, quarry::mpi::c_timespec*);
int quarry_c_getopt(int, char**, char const*);
int quarry_c_getopt_long(int, char**, char const*, quarry::mpi::c_option const*, int*);
char** quarry_c_address_of_optarg();
int* quarry_c_address_of_optind();
int* quarry_c_address_of_opterr();
int* quarry_c_address_of_optopt();
}

namespace quarry::mpi_test {
namespace {

class CTime : public OneRank {};
class COptions : public OneRank {};

TEST_F(CTime, BreaksDownTimesAsTheHost) {
  chooser choose{13};
  static_assert(sizeof(c_tm) == sizeof(std::tm));
  for (int i = 0; i < 20000; ++i) {
    long const time = static_cast<long>(choose.word() % 40'000'000'000) - 10'000'000'000;
    std::tm expected{};
    c_tm actual{};
    gmtime_r(&time, &expected);
    quarry_c_gmtime_r(&time, &actual);
    ASSERT_EQ(std::memcmp(&actual, &expected, offsetof(c_tm, zone)), 0) << time;
    EXPECT_EQ(quarry_c_timegm(&actual), time);
    localtime_r(&time, &expected);
    quarry_c_localtime_r(&time, &actual);
    ASSERT_EQ(std::memcmp(&actual, &expected, offsetof(c_tm, is_summer)), 0) << time;
    EXPECT_EQ(quarry_c_mktime(&actual), time);
    ASSERT_STREQ(quarry_c_ctime(&time), std::ctime(&time));
  }
}

TEST_F(CTime, FormatsDatesAsTheHost) {
  long const time = 1'700'000'000;
  std::tm expected{};
  c_tm actual{};
  gmtime_r(&time, &expected);
  quarry_c_gmtime_r(&time, &actual);
  for (char const* format :
       {"%Y-%m-%d %H:%M:%S", "%a %A %b %B %e %j %p %I", "%c", "%D %F %T %R", "%x %X %y %w %Z %%"}) {
    char expected_text[100];
    char text[100];
    std::strftime(expected_text, sizeof(text), format, &expected);
    quarry_c_strftime(text, sizeof(text), format, &actual);
    EXPECT_STREQ(text, expected_text);
  }
  char small[4];
  EXPECT_EQ(quarry_c_strftime(small, 4, "%Y", &actual), 0u);
}

TEST_F(CTime, WaitsAtLeastAsLongAsAsked) {
  c_timespec begin{};
  c_timespec end{};
  quarry_c_clock_gettime(0, &begin);
  quarry_c_usleep(2000);
  quarry_c_clock_gettime(0, &end);
  EXPECT_GE((end.seconds - begin.seconds) * 1'000'000'000 + end.nanoseconds - begin.nanoseconds,
            2'000'000);
  EXPECT_LE(std::time(nullptr) - quarry_c_time(nullptr), 1);
}

/// What one call returned and left in the variables.
struct option_step {
  int result, index, bad;
  std::string argument;
  bool operator==(option_step const&) const = default;
};

std::vector<char*> words_of(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

TEST_F(COptions, ReadsRandomCommandLinesAsTheHost) {
  chooser choose{14};
  option const names[] = {{"alpha", no_argument, nullptr, 'A'},
                          {"alpine", required_argument, nullptr, 'P'},
                          {"beta", optional_argument, nullptr, 'B'},
                          {nullptr, 0, nullptr, 0}};
  char const* const words[] = {"-a",     "-b",        "-c",      "-ab",      "-bx",
                               "-c5",    "--",        "file",    "-",        "--alpha",
                               "--alp",  "x",         "-z",      "--beta=3", "--beta",
                               "--alpi", "--alpha=1", "--gamma", "-abc",     "y"};
  opterr = 0;
  *quarry_c_address_of_opterr() = 0;
  for (int i = 0; i < 30000; ++i) {
    std::vector<std::string> expected_words{"program"};
    for (int j = choose.below(7); j > 0; --j)
      expected_words.emplace_back(words[choose.below(std::size(words))]);
    auto actual_words = expected_words;
    auto expected_argv = words_of(expected_words);
    auto actual_argv = words_of(actual_words);
    auto const argc = static_cast<int>(expected_words.size());
    char const* const letters = i % 3 == 0 ? "+ab:c::" : i % 3 == 1 ? ":ab:c::" : "ab:c::";
    std::string line;
    for (auto const& word : expected_words) line += word + " ";
    optind = 0;
    *quarry_c_address_of_optind() = 0;
    for (int result = 0; result != -1;) {
      result = getopt_long(argc, expected_argv.data(), letters, names, nullptr);
      option_step const expected{result, optind, result == '?' ? optopt : 0,
                                 optarg == nullptr ? "(none)" : optarg};
      int const actual_result = quarry_c_getopt_long(
          argc, actual_argv.data(), letters, reinterpret_cast<c_option const*>(names), nullptr);
      char const* const argument = *quarry_c_address_of_optarg();
      option_step const actual{actual_result, *quarry_c_address_of_optind(),
                               actual_result == '?' ? *quarry_c_address_of_optopt() : 0,
                               argument == nullptr ? "(none)" : argument};
      ASSERT_EQ(actual, expected) << line << "\n"
                                  << actual.result << " " << expected.result << " " << actual.index
                                  << " " << expected.index;
    }
    for (int j = 0; j < argc; ++j) ASSERT_STREQ(actual_argv[j], expected_argv[j]) << line;
  }
}

TEST_F(COptions, ReportsAnOptionThatDoesNotExist) {
  std::vector<std::string> words{"program", "-z"};
  auto argv = words_of(words);
  EXPECT_EQ(quarry_c_getopt(2, argv.data(), "ab"), '?');
  EXPECT_EQ(world_.output[2], "program: invalid option -- 'z'\n");
}

}  // namespace
}  // namespace quarry::mpi_test
