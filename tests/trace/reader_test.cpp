// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/reader.hpp"

#include "quarry/trace/file_writer.hpp"
#include "trace/codec.hpp"
#include "trace/trace_files.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <algorithm>

namespace quarry::test {
namespace {

using trace::bad_trace;
using trace::event;
using trace::open_trace;
namespace codec = trace::codec;

std::string trace_header() { return {"QUARRYTR\1\0\0\0\0\0\0\0", 16}; }

/// A chunk with a right checksum.
std::string trace_chunk(unsigned char kind, std::uint32_t count, std::string_view payload) {
  std::string result(codec::chunk_header_bytes, '\0');
  codec::put_chunk_header(reinterpret_cast<unsigned char*>(result.data()), codec::chunk_kind{kind},
                          count,
                          {reinterpret_cast<unsigned char const*>(payload.data()), payload.size()});
  return result.append(payload);
}

/// An event of kind `allocate` at address 0.
std::string const plain_event{"\0\0\0", 3};

/// A trace with enough events for several windows of the file.
std::string large_trace(std::vector<event>& events) {
  temporary_file const file;
  std::mt19937_64 random{1};
  events.resize(200'000);
  for (std::size_t i = 0; i < events.size(); ++i)
    events[i] = {.time = i, .address = random(), .size = random()};
  trace::file_writer writer{file.path()};
  writer.add(events, {});
  writer.close();
  return file.contents();
}

TEST(OpenTrace, NamesTheFormats) {
  EXPECT_STREQ(name_of(trace::format::quarry), "quarry");
  EXPECT_STREQ(name_of(trace::format::pytorch), "pytorch");
  temporary_file const file{trace_header()};
  EXPECT_EQ(open_trace(file.path())->file_format(), trace::format::quarry);
}

TEST(OpenTrace, RefusesWhatIsNoTrace) {
  EXPECT_EQ(message_of([] { (void)open_trace("/nonexistent"); }),
            "/nonexistent: cannot open the file: No such file or directory");
  EXPECT_THROW((void)open_trace("/nonexistent"), resource_failed);
  temporary_file const file{""};
  EXPECT_EQ(message_of([&] { (void)open_trace(file.path()); }),
            file.path() + ": the file is empty");
  EXPECT_EQ(message_of([] { (void)open_trace(testing::TempDir()); }),
            testing::TempDir() + ": cannot read the file: Is a directory");
  for (std::string_view const text : {"Q", "QUARRYT", "\x80", "\x80\1", "PK\3\4",
                                      "\x7f"
                                      "ELF"}) {
    file.write(text);
    EXPECT_NE(message_of([&] { (void)open_trace(file.path()); }).find("the format is unknown"),
              std::string::npos)
        << text;
  }
}

TEST(OpenTrace, RefusesALaterVersion) {
  std::string bytes = trace_header();
  bytes[8] = 2;
  temporary_file const file{bytes};
  EXPECT_EQ(message_of([&] { (void)open_trace(file.path()); }),
            file.path() + ": has version 2 of the format; this program reads version 1");
  EXPECT_THROW((void)open_trace(file.path()), bad_trace);
}

TEST(QuarryReader, SkipsChunksOfUnknownKindsSilently) {
  temporary_file const file{trace_header() + trace_chunk(7, 3, "future") +
                            trace_chunk(1, 1, plain_event)};
  auto const found = read_all(file.path());
  EXPECT_EQ(found.events.size(), 1u);
  EXPECT_TRUE(found.problems.empty());
}

TEST(QuarryReader, NamesTheInvalidEventOfAChunkAndKeepsTheEventsBefore) {
  for (std::size_t const batch : {std::size_t{1}, std::size_t{2}, std::size_t{100}}) {
    temporary_file const file{
        trace_header() + trace_chunk(1, 5, plain_event + plain_event + plain_event + "\x07\0\0") +
        trace_chunk(1, 1, plain_event)};
    auto const found = read_all(file.path(), batch);
    EXPECT_EQ(found.events.size(), 4u);
    EXPECT_EQ(found.problems,
              std::vector<std::string>{file.path() + ", offset 16: event 3 of the chunk is "
                                                     "invalid; its later events are skipped"});
  }
}

TEST(QuarryReader, RefusesEventsWithNamesThatNoChunkHad) {
  // tag with a call site: time 0, call site 5, address 0
  temporary_file const file{trace_header() + trace_chunk(1, 1, std::string_view{"\x10\0\5\0", 4})};
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events.empty());
  EXPECT_EQ(found.problems.size(), 1u);
  EXPECT_EQ(found.refusal, found.problems[0] + ". No event could be read");
  EXPECT_EQ(found.names.call_sites.size(), 1u);
}

TEST(QuarryReader, RefusesNumbersOfNamesThatLeaveAGap) {
  temporary_file const gap{trace_header() +
                           trace_chunk(2, 1, std::string_view{"\0\xff\xff\xff\xff\x0f\1x", 8}) +
                           trace_chunk(1, 1, plain_event)};
  auto const found = read_all(gap.path());
  EXPECT_EQ(found.events.size(), 1u);
  EXPECT_EQ(found.names.call_sites.size(), 1u);
  EXPECT_EQ(found.problems,
            std::vector<std::string>{gap.path() +
                                     ", offset 16: name 0 of the chunk has the number 4294967295, "
                                     "but its table has only 1 names"});
}

/// The text of a lost name must not be taken for the entry itself.
TEST(QuarryReader, EndsIfANameIsCalledAsALostName) {
  std::string const names = trace_chunk(2, 1, std::string_view{"\0\1\x0blost name 2", 14});
  temporary_file const file{trace_header() + names + std::string(100, 'x') +
                            trace_chunk(2, 1, std::string_view{"\0\4\1z", 4}) +
                            trace_chunk(1, 1, plain_event)};
  auto const found = read_all(file.path());
  EXPECT_EQ(found.events.size(), 1u);
  EXPECT_EQ(found.names.call_sites.names(),
            (std::vector<std::string>{"", "lost name 2", "lost name 2", "lost name 3", "z"}));
}

TEST(QuarryReader, ReportsANameWithTheNumberOfAnotherName) {
  std::string const entry{"\0\1\1a", 4}, other{"\0\1\1b", 4};
  temporary_file const file{trace_header() + trace_chunk(2, 3, entry + entry + other)};
  auto const found = read_all(file.path());
  EXPECT_EQ(found.names.call_sites.names(), (std::vector<std::string>{"", "a"}));
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_NE(found.problems[0].find("name 2 of the chunk has the number of an earlier name"),
            std::string::npos);
}

TEST(QuarryReader, KeepsAtMostSoManyProblemsAndCountsAll) {
  std::string bytes = trace_header();
  for (int i = 0; i < 300; ++i) bytes += trace_chunk(1, 1, "\x07") + trace_chunk(1, 1, plain_event);
  temporary_file const file{bytes};
  auto const reader = open_trace(file.path());
  std::vector<event> events(1000);
  EXPECT_EQ(reader->read(events), 300u);
  EXPECT_EQ(reader->problems().size(), trace::reader::max_problems);
  EXPECT_EQ(reader->problem_count(), 300u);
}

/// Each header claims a chunk of 16 MiB, so a search without a bound computes 16 MiB of checksum
/// for each 20 bytes of the file.
TEST(QuarryReader, GivesUpSoonOnAFileOfWrongChunks) {
  std::string wrong{"QTCK\1\0\0\0\0\0\0\1\1\0\0\0wwww", 20};
  std::string bytes = trace_header();
  while (bytes.size() < 24u << 20) bytes += wrong;
  temporary_file const file{bytes};
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events.empty());
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_TRUE(found.problems[0].ends_with(
      ", offset 16: too many chunks are damaged; the remainder of the file is skipped"))
      << found.problems[0];
}

TEST(QuarryReader, FindsAChunkBehindMegabytesOfOtherBytes) {
  for (int const length : {65'531, 65'536, 65'537, 3'000'001}) {
    temporary_file const file{trace_header() + std::string(static_cast<std::size_t>(length), 'Q') +
                              trace_chunk(1, 1, plain_event)};
    auto const found = read_all(file.path());
    EXPECT_EQ(found.events.size(), 1u);
    ASSERT_EQ(found.problems.size(), 1u);
    EXPECT_NE(found.problems[0].find(std::to_string(length) + " bytes are skipped"),
              std::string::npos);
  }
}

TEST(QuarryReader, ReadsCompressedFiles) {
  std::vector<event> events;
  std::string const bytes = large_trace(events);
  temporary_file const file{compressed(bytes)};
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events == events);
  EXPECT_TRUE(found.problems.empty());
  // gzip can join compressed files; behind them it ignores other bytes
  file.write(compressed(bytes.substr(0, 1'000'000)) + compressed(bytes.substr(1'000'000)) +
             std::string(100, '\0'));
  EXPECT_TRUE(read_all(file.path()).events == events);
}

TEST(QuarryReader, KeepsTheEventsBeforeTheDamageOfACompressedFile) {
  std::vector<event> events;
  std::string const bytes = large_trace(events);
  std::string const packed = compressed(bytes);
  temporary_file const file, plain;
  for (double const share : {0.0, 0.0001, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999}) {
    auto const size = 64 + static_cast<std::size_t>(share * static_cast<double>(packed.size()));
    SCOPED_TRACE("cut at " + std::to_string(size));
    file.write(packed.substr(0, size));
    // What zlib itself makes of the cut file
    std::string expected(bytes.size(), '\0');
    gzFile const stream = gzopen(file.path().c_str(), "rb");
    expected.resize(static_cast<std::size_t>(
        std::max(0, gzread(stream, expected.data(), static_cast<unsigned>(expected.size())))));
    gzclose(stream);
    if (expected.size() < codec::file_header_bytes) continue;
    plain.write(expected);
    auto const found = read_all(file.path());
    EXPECT_TRUE(found.events == read_all(plain.path()).events);
    EXPECT_GT(static_cast<double>(found.events.size()),
              share * static_cast<double>(events.size()) - 10'000);
    ASSERT_FALSE(found.problems.empty());
    EXPECT_EQ(found.problems[0],
              file.path() + ": the compressed data are damaged: the file ends too early");
  }
  std::string changed = packed;
  changed[changed.size() - 5] ^= 1;  // the checksum of gzip
  file.write(changed);
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events == events);
  EXPECT_EQ(found.problems,
            std::vector<std::string>{file.path() +
                                     ": the compressed data are damaged: incorrect data check"});
}

TEST(QuarryReader, ReadsFromAPipe) {
  temporary_file const file;
  ASSERT_EQ(mkfifo(file.path().c_str(), 0600), 0);
  pid_t const writer = fork();
  if (writer == 0) {
    file.write(trace_header() + trace_chunk(1, 1, plain_event));
    _exit(0);
  }
  EXPECT_EQ(read_all(file.path()).events.size(), 1u);
  waitpid(writer, nullptr, 0);
}

}  // namespace
}  // namespace quarry::test
