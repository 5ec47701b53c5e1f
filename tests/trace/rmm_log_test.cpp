// SPDX-License-Identifier: Apache-2.0
#include "trace/rmm_log.hpp"

#include "trace/log_files.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

namespace quarry::test {
namespace rmm_log_test {

using trace::event;
using trace::event_kind;

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t hour = 3600 * second;
std::string const header = "Thread,Time,Action,Pointer,Size,Stream\n";

whole_trace read(std::string_view text) { return read_all(trace::open_rmm_log, text); }

/// The only problem of a log with a good row and this one, without file and line.
std::string problem_of(std::string const& row) {
  auto const result = read(header + "7,10:00:00.0,allocate,0x10,1,0\n" + row + "\n");
  EXPECT_EQ(result.events.size(), 1u) << row;
  EXPECT_EQ(result.problem_count, 1u) << row;
  if (result.problems.size() != 1) return {};
  std::string const prefix = "FILE:3: ";
  EXPECT_EQ(result.problems[0].substr(0, prefix.size()), prefix);
  return result.problems[0].substr(prefix.size());
}

std::vector<std::uint64_t> times_of(std::string const& text) {
  auto const result = read(text);
  EXPECT_EQ(result.problem_count, 0u);
  std::vector<std::uint64_t> times;
  for (event const& one : result.events) times.push_back(one.time);
  return times;
}

TEST(RmmLog, ReadsAllocationsFailuresAndFrees) {
  auto const result = read(header +
                           "4142,10:21:33.123456,allocate,0x7f2c5a000000,1024,0x1\n"
                           "4143,10:21:33.123457,allocate failure,(nil),99999,2\n"
                           "4142,10:21:34.000000,free,0x7f2c5a000000,1024,0x0\n");
  EXPECT_EQ(result.problem_count, 0u);
  std::uint64_t const start = 10 * hour + 21 * 60 * second + 33 * second;
  EXPECT_EQ(result.names.threads.names(), (std::vector<std::string>{"", "4142", "4143"}));
  EXPECT_EQ(result.names.streams.names(), (std::vector<std::string>{"", "0x1", "0x2"}));
  ASSERT_EQ(result.events.size(), 3u);
  EXPECT_EQ(result.events[0], (event{.time = start + 123'456'000,
                                     .address = 0x7f2c5a000000,
                                     .size = 1024,
                                     .thread = 1,
                                     .stream = 1,
                                     .kind = event_kind::allocate}));
  EXPECT_EQ(result.events[1], (event{.time = start + 123'457'000,
                                     .size = 99999,
                                     .thread = 2,
                                     .stream = 2,
                                     .kind = event_kind::fail}));
  EXPECT_EQ(result.events[2], (event{.time = start + second,
                                     .address = 0x7f2c5a000000,
                                     .size = 1024,
                                     .thread = 1,
                                     .kind = event_kind::deallocate}));
}

TEST(RmmLog, AStreamHasOneNameInDecimalAndHexadecimal) {
  auto const result = read(
      "1,0:0:0,x\n1,00:00:00.0,allocate,0x10,1,26\n1,00:00:00.0,allocate,0x20,1,0x1A\n"
      "1,00:00:00.0,allocate,0x30,1,(nil)\n");
  ASSERT_EQ(result.events.size(), 3u);
  EXPECT_EQ(result.names.streams.names(), (std::vector<std::string>{"", "0x1a"}));
  EXPECT_EQ(result.events[0].stream, result.events[1].stream);
  EXPECT_EQ(result.events[2].stream, 0u);
}

TEST(RmmLog, RowsOfNullPointersWithoutBytesAreNoEvents) {
  auto const result = read(header + "1,00:00:00.0,allocate,(nil),0,0\n1,00:00:00.0,free,0x0,0,0\n");
  EXPECT_TRUE(result.events.empty());
  EXPECT_EQ(result.problem_count, 0u);
}

TEST(RmmLog, AcceptsReturnsBlankLinesAByteOrderMarkAndAMissingLastNewline) {
  auto const result = read(
      "\xEF\xBB\xBFThread,Time,Action,Pointer,Size,Stream\r\n\r\n"
      "1,00:00:01.5,allocate,0x10,8,0\r\n\n1,00:00:02,free,0x10,8,0");
  EXPECT_EQ(result.problem_count, 0u);
  ASSERT_EQ(result.events.size(), 2u);
  EXPECT_EQ(result.events[0].time, second + second / 2);
  EXPECT_EQ(result.events[1].time, 2 * second);
}

TEST(RmmLog, ReadsTimesWithAColonBeforeTheFraction) {
  EXPECT_EQ(times_of("1,00:00:01:000042,allocate,0x10,8,0\n"),
            (std::vector<std::uint64_t>{second + 42'000}));
}

TEST(RmmLog, TimeContinuesAcrossMidnight) {
  EXPECT_EQ(
      times_of("1,23:59:59.0,allocate,0x10,8,0\n1,00:00:01.0,free,0x10,8,0\n"
               "1,23:59:59.5,free,0x20,8,0\n"  // a late row of the day before
               "1,00:00:02.0,free,0x30,8,0\n1,20:00:00.0,free,0x40,8,0\n"
               "1,10:00:00.0,free,0x50,8,0\n"),
      (std::vector<std::uint64_t>{24 * hour - second, 24 * hour + second, 24 * hour - second / 2,
                                  24 * hour + 2 * second, 44 * hour, 58 * hour}));
}

TEST(RmmLog, KeepsSmallStepsBack) {
  EXPECT_EQ(times_of("1,02:59:59.0,allocate,0x10,8,0\n1,02:00:00.0,free,0x10,8,0\n"
                     "1,01:59:59.9,free,0x20,8,0\n"),
            (std::vector<std::uint64_t>{3 * hour - second, 2 * hour, 2 * hour - second / 10}));
}

TEST(RmmLog, ASecondHeaderBeginsALogThatIsNotEarlier) {
  EXPECT_EQ(times_of(header + "1,10:00:00.0,allocate,0x10,8,0\n" + header + header +
                     "1,09:59:59.0,allocate,0x10,8,0\n1,09:59:58.0,free,0x10,8,0\n" + header +
                     "1,11:00:00.0,free,0x10,8,0\n"),
            (std::vector<std::uint64_t>{10 * hour, 34 * hour - second, 34 * hour - 2 * second,
                                        35 * hour}));
}

TEST(RmmLog, SaysWhatIsWrongWithARow) {
  EXPECT_EQ(problem_of("1,10:00:00.0,allocate,0x10,1"),
            "the line has fewer than 6 columns: 1,10:00:00.0,allocate,0x10,1");
  EXPECT_EQ(problem_of("1,10:00:00.0,allocate,0x10,1,0,"),
            "the line has more than 6 columns: 1,10:00:00.0,allocate,0x10,1,0,");
  auto const reason = [](std::string const& row) {
    std::string const problem = problem_of(row);
    return problem.substr(0, problem.rfind(": "));
  };
  EXPECT_EQ(reason("x,10:00:00.0,allocate,0x10,1,0"), "column Thread is not a whole number");
  EXPECT_EQ(reason(",10:00:00.0,allocate,0x10,1,0"), "column Thread is missing");
  for (auto const* time : {"24:00:00.0", "10:60:00.0", "10:00:61.0", "10:00:00.", "10:00:00.x", "",
                           "10:00:00.1234567890", "1:00:00.00", "10-00-00.0", "10:00:00;0"})
    EXPECT_EQ(reason("1," + std::string{time} + ",allocate,0x10,1,0"),
              "column Time is not HH:MM:SS.FRACTION");
  EXPECT_EQ(reason("1,10:00:00.0,alloc,0x10,1,0"),
            "column Action is not 'allocate', 'allocate failure' or 'free'");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x,1,0"), "column Pointer is missing");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x1g,1,0"), "column Pointer is not a whole number");
  EXPECT_EQ(reason("1,10:00:00.0,free,0x10000000000000000,1,0"), "column Pointer exceeds 64 bits");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x10,-1,0"), "column Size is negative");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x10,-,0"), "column Size is not a whole number");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x10,18446744073709551616,0"),
            "column Size exceeds 64 bits");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x10,1.5,0"), "column Size is not a whole number");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,0x10,1, 0"), "column Stream is not a whole number");
  EXPECT_EQ(reason("1,10:00:00.0,allocate,(nil),1,0"),
            "the allocation has bytes and a null pointer");
  EXPECT_EQ(reason("Thread,Time,Action,Pointer,Size"),
            "the columns are not Thread,Time,Action,Pointer,Size,Stream");
}

TEST(RmmLog, ReadsTheLargestNumbers) {
  auto const result = read(
      "18446744073709551615,23:59:60.999999999,free,0xffffffffffffffff,18446744073709551615,"
      "0xFFFFFFFFFFFFFFFF\n");
  EXPECT_EQ(result.problem_count, 0u);
  ASSERT_EQ(result.events.size(), 1u);
  EXPECT_EQ(result.events[0].address, ~std::uint64_t{0});
  EXPECT_EQ(result.events[0].size, ~std::uint64_t{0});
  EXPECT_EQ(result.names.streams.name(1), "0xffffffffffffffff");
}

TEST(RmmLog, ShowsOnlyPrintableBytesAndNoMoreThan100) {
  EXPECT_EQ(problem_of(std::string{"a\0b\xff", 4}), "the line contains a NUL byte: a\\x00b\\xff");
  EXPECT_EQ(problem_of(std::string(5000, 'z')),
            "the line has fewer than 6 columns: " + std::string(100, 'z') + "...");
}

TEST(RmmLog, SkipsLinesOfAnyLengthInBoundedSteps) {
  for (std::size_t const size : {1'048'574u, 1'048'575u, 1'048'576u, 1'048'577u, 5'000'000u}) {
    for (char const* end : {"\n", "\r\n"}) {
      std::string const row = "1,00:00:00.0,allocate,0x10,8,0";
      auto const result = read(row + end + std::string(size, ',') + end + row + end);
      EXPECT_EQ(result.events.size(), 2u) << size;
      EXPECT_EQ(result.problem_count, 1u) << size;
      EXPECT_EQ(result.problems.at(0).substr(0, 8), "FILE:2: ");
    }
  }
}

TEST(RmmLog, TheEndOfALongLineIsNoLineAlsoAfterAReturn) {
  std::string const row = "1,00:00:00.0,allocate,0x10,8,0\n";
  // The source returns the long line in parts. The first part ends with the return.
  auto const result = read(std::string(trace::byte_source::max_line - 1, ',') + '\r' + row + row);
  EXPECT_EQ(result.events.size(), 1u);
  EXPECT_EQ(result.problem_count, 1u);
}

TEST(RmmLog, RefusesFilesWithoutAReadableLine) {
  EXPECT_EQ(read("").refusal, "FILE: the file has no lines");
  EXPECT_EQ(read("\n \n\r\n").refusal, "FILE: the file has no lines");
  EXPECT_EQ(read("x\ny\n").refusal,
            "FILE: no line is a line of RMM's log; the first problem: FILE:1: the line has fewer "
            "than 6 columns: x");
  EXPECT_EQ(read(header).refusal, "");
  EXPECT_TRUE(read(header).events.empty());
}

TEST(RmmLog, ShowsAtMost100ProblemsAndCountsAll) {
  std::string text = header;
  for (int i = 0; i < 1000; ++i) text += "bad\n";
  auto const result = read(text);
  EXPECT_EQ(result.problems.size(), trace::reader::max_problems);
  EXPECT_EQ(result.problem_count, 1000u);
}

TEST(RmmLog, KeepsTheEventsBeforeDamagedCompressedData) {
  std::string const path = testing::TempDir() + "quarry_rmm_log_damaged.gz";
  gzFile const file = gzopen(path.c_str(), "wb");
  for (int i = 0; i < 200'000; ++i)
    gzprintf(file, "%d,00:00:00.0,allocate,0x%x,%d,0\n", i % 7, i % 5003 * 77777 + 1, i);
  gzclose(file);
  ASSERT_EQ(truncate(path.c_str(), 300'000), 0);
  auto const reader = trace::open_rmm_log(std::make_unique<trace::byte_source>(path));
  std::vector<event> events(1000);
  std::size_t count = 0;
  while (std::size_t const got = reader->read(events)) count += got;
  EXPECT_GT(count, 1000u);
  EXPECT_LT(count, 200'000u);
  EXPECT_GE(reader->problem_count(), 1u);
  std::remove(path.c_str());
}

TEST(RmmLog, AllOtherEventsSurviveADamagedLine) {
  std::vector<std::string> lines;
  for (int i = 1; i <= 12; ++i)
    lines.push_back("9,10:00:00.0000" + std::to_string(10 + i) + ",allocate,0x" +
                    std::to_string(i) + "00,5,0x1");
  damage_each_line(trace::open_rmm_log, header, lines,
                   [&](char const* name, std::size_t position, std::string const& prefix,
                       whole_trace const& result) {
                     SCOPED_TRACE(name);
                     EXPECT_EQ(result.events.size(), lines.size() - 1);
                     EXPECT_EQ(result.problem_count, 1u);
                     EXPECT_EQ(result.problems.at(0).substr(0, prefix.size()), prefix);
                     for (event const& one : result.events)
                       EXPECT_NE(one.time % second, (11 + position) * 1000);
                   });
}

TEST(RmmLog, IsRecognisedByAHeaderOrARow) {
  auto const is_recognised = [](std::string_view text) {
    return trace::looks_like_rmm_log(bytes_of(text));
  };
  EXPECT_TRUE(is_recognised(header));
  EXPECT_TRUE(is_recognised("damaged\r\n\r\nThread,Time,Action,Pointer,Size,Stream\r\n"));
  EXPECT_TRUE(is_recognised("1,00:00:00.0,allocate,0x10,8,0\n1,00"));
  EXPECT_FALSE(is_recognised(""));
  EXPECT_FALSE(is_recognised("a 1 2\n"));
  EXPECT_FALSE(is_recognised("Thread,Time\n"));
}

}  // namespace rmm_log_test
}  // namespace quarry::test
