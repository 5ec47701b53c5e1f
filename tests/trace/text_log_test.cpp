// SPDX-License-Identifier: Apache-2.0
#include "trace/text_log.hpp"

#include "trace/log_files.hpp"

#include <gtest/gtest.h>

#include <random>

namespace quarry::test {
namespace text_log_test {

using trace::event;
using trace::event_kind;

whole_trace read(std::string_view text) { return read_all(trace::open_text_log, text); }

TEST(TextLog, ReadsAllocationsAndFrees) {
  auto const result = read("a 0 4096\n\n  a\t7   0 \nf 0\r\nf 18446744073709551614");
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(result.events,
            (std::vector<event>{
                {.time = 0, .address = 1, .size = 4096, .kind = event_kind::allocate},
                {.time = 1, .address = 8, .size = 0, .kind = event_kind::allocate},
                {.time = 2, .address = 1, .kind = event_kind::deallocate},
                {.time = 3, .address = ~std::uint64_t{0}, .kind = event_kind::deallocate}}));
}

TEST(TextLog, SaysWhatIsWrongWithALine) {
  auto const problem = [](std::string const& line) {
    auto const result = read("a 1 2\n" + line);
    EXPECT_EQ(result.events.size(), 1u) << line;
    EXPECT_EQ(result.problem_count, 1u) << line;
    return result.problems.at(0);
  };
  EXPECT_EQ(problem("x 1 2"), "FILE:2: the line is neither 'a ID BYTES' nor 'f ID': x 1 2");
  EXPECT_EQ(problem("a"), "FILE:2: the ID is missing: a");
  EXPECT_EQ(problem("a 1"), "FILE:2: the size is missing: a 1");
  EXPECT_EQ(problem("a 1 -2"), "FILE:2: the size is negative: a 1 -2");
  EXPECT_EQ(problem("a 1 2k"), "FILE:2: the size is not a whole number: a 1 2k");
  EXPECT_EQ(problem("a 1 99999999999999999999"),
            "FILE:2: the size exceeds 64 bits: a 1 99999999999999999999");
  EXPECT_EQ(problem("f 18446744073709551615"),
            "FILE:2: the ID exceeds 2^64 - 2: f 18446744073709551615");
  EXPECT_EQ(problem("a 1 2 3"), "FILE:2: words follow 'a ID BYTES': a 1 2 3");
  EXPECT_EQ(problem("f 1 2"), "FILE:2: words follow 'f ID': f 1 2");
  EXPECT_EQ(problem(std::string{"f 1\0", 4}), "FILE:2: the line contains a NUL byte: f 1\\x00");
}

TEST(TextLog, RefusesFilesWithoutAReadableLine) {
  EXPECT_EQ(read("").refusal, "FILE: the file has no lines");
  EXPECT_EQ(read("hello\n").refusal,
            "FILE: no line is 'a ID BYTES' or 'f ID'; the first problem: FILE:1: the line is "
            "neither 'a ID BYTES' nor 'f ID': hello");
}

TEST(TextLog, AllOtherEventsSurviveADamagedLine) {
  std::vector<std::string> const lines{"a 10 100", "a 20 200", "f 10", "a 30 300", "f 20"};
  damage_each_line(
      trace::open_text_log, "", lines,
      [&](char const* name, std::size_t, std::string const& prefix, whole_trace const& result) {
        SCOPED_TRACE(name);
        EXPECT_EQ(result.events.size(), lines.size() - 1);
        EXPECT_EQ(result.problem_count, 1u);
        EXPECT_EQ(result.problems.at(0).substr(0, prefix.size()), prefix);
      });
}

TEST(TextLog, ReadsBackRandomEventsInBatchesOfAnySize) {
  std::uint32_t const seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  std::string text;
  std::vector<event> model;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    auto const address_bits = random() % 63, size_bits = random() % 64;
    event one{.time = i, .address = random() >> address_bits};
    if (one.address == 0) one.address = 1;
    std::string const id = std::to_string(one.address - 1);
    if (random() % 2 == 0) {
      one.size = random() >> size_bits;
      text += "a " + id + ' ' + std::to_string(one.size) + '\n';
    } else {
      one.kind = event_kind::deallocate;
      text += "f " + id + '\n';
    }
    model.push_back(one);
  }
  for (std::size_t const batch : {1u, 7u, 4096u, 100'000u})
    EXPECT_EQ(read_all(trace::open_text_log, text, batch).events, model);
}

TEST(TextLog, IsRecognisedByALine) {
  EXPECT_TRUE(trace::looks_like_text_log(bytes_of("a 1 2\n")));
  EXPECT_TRUE(trace::looks_like_text_log(bytes_of("damaged\nf 1\n")));
  EXPECT_FALSE(trace::looks_like_text_log(bytes_of("all 1 2\n")));
}

}  // namespace text_log_test
}  // namespace quarry::test
