// SPDX-License-Identifier: Apache-2.0
#include "trace/log_files.hpp"
#include "trace/trace_files.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

namespace quarry::test {
namespace open_trace_test {

using trace::format;

struct sample {
  format file_format;
  std::string text;
};
sample const samples[] = {
    {format::rmm, "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00.0,allocate,0x10,8,0\n"},
    {format::umpire,
     "{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":8},"
     "\"string_args\":{\"allocator_ref\":\"0x1\",\"pointer\":\"0x10\"},\"timestamp\":0}\n"},
    {format::text, "a 15 8\n"}};

void check(sample const& expected, std::string const& path) {
  auto const reader = trace::open_trace(path);
  EXPECT_EQ(reader->file_format(), expected.file_format);
  std::vector<trace::event> events(2);
  ASSERT_EQ(reader->read(events), 1u);
  EXPECT_EQ(events[0].address, 16u);
  EXPECT_EQ(events[0].size, 8u);
  EXPECT_EQ(reader->read(events), 0u);
  EXPECT_EQ(reader->problem_count(), 0u);
}

TEST(OpenTrace, RecognisesLogs) {
  for (sample const& one : samples) {
    SCOPED_TRACE(trace::name_of(one.file_format));
    memory_file const file{one.text};
    check(one, file.path());
  }
}

TEST(OpenTrace, ReadsCompressedLogs) {
  for (sample const& one : samples) {
    SCOPED_TRACE(trace::name_of(one.file_format));
    std::string const path = testing::TempDir() + "quarry_open_trace_" +
                             trace::name_of(one.file_format) + std::to_string(getpid()) + ".gz";
    gzFile const file = gzopen(path.c_str(), "wb");
    gzwrite(file, one.text.data(), static_cast<unsigned>(one.text.size()));
    gzclose(file);
    check(one, path);
    std::remove(path.c_str());
  }
}

/// The message of the exception, with FILE in the place of the path; empty if all can be read.
std::string refusal_of(std::string const& text) {
  memory_file const file{text};
  try {
    auto const reader = trace::open_trace(file.path());
    std::vector<trace::event> events(8);
    while (reader->read(events) != 0) {
    }
  } catch (trace::bad_trace const& refused) {
    return with_path_replaced(refused.message(), file.path());
  }
  return {};
}

/// Their replay would look like that of a program that allocates nothing, and fits everywhere.
/// What a reader makes of a file: its events, and its only problem.
std::string only_problem(std::string const& bytes, std::size_t events_expected) {
  memory_file const file{bytes};
  auto const reader = trace::open_trace(file.path());
  std::vector<trace::event> events(8);
  std::size_t found = 0;
  while (std::size_t const count = reader->read(events)) found += count;
  EXPECT_EQ(found, events_expected);
  EXPECT_LE(reader->problem_count(), 1u);
  return reader->problem_count() == 0 ? std::string{}
                                      : with_path_replaced(reader->problems().front(), file.path());
}

TEST(OpenTrace, ReportsBytesAfterCompressedData) {
  for (sample const& one : samples) {
    SCOPED_TRACE(trace::name_of(one.file_format));
    std::string const packed = compressed(one.text);
    EXPECT_EQ(only_problem(packed, 1), "");
    EXPECT_EQ(only_problem(packed + packed, 2), "") << "parts may follow each other";
    EXPECT_EQ(only_problem(packed + std::string(100'000, '\0'), 1), "") << "zeros fill files up";
    for (std::string const& rest : {one.text, std::string(100'000, '\0') + 'x'}) {
      std::string const problem = only_problem(packed + rest, 1);
      EXPECT_EQ(problem.substr(0, problem.find(';')),
                "FILE: bytes that are not compressed follow the compressed data, and are ignored");
    }
  }
}

TEST(OpenTrace, RefusesFilesWithProblemsAndWithoutEvents) {
  std::string const header = "Thread,Time,Action,Pointer,Size,Stream\n";
  EXPECT_EQ(refusal_of(header), "") << "an empty log";
  EXPECT_EQ(refusal_of(header + "1,2,3\nbad\nbad\n"),
            "FILE:2: the line has fewer than 6 columns: 1,2,3 (the first of 3 problems). No event "
            "could be read");
  EXPECT_EQ(refusal_of(header + "bad\n1,00:00:00.0,allocate,0x10,8,0\n"), "");
  std::string const version = "{\"category\":\"metadata\",\"name\":\"version\",\"timestamp\":0}\n";
  EXPECT_EQ(refusal_of(version), "");
  EXPECT_EQ(refusal_of(version + "{}\n"),
            "FILE:2: the object has no member 'category' that is a string: {}. No event could be "
            "read");
}

TEST(OpenTrace, SaysWhatAFileOfUnknownFormatProbablyIs) {
  auto const hint = [](std::string const& text) {
    std::string const message = refusal_of(text), known = "FILE: the format is unknown. ";
    EXPECT_EQ(message.substr(0, known.size()), known);
    return message.substr(std::min(message.size(), known.size())).substr(0, 40);
  };
  EXPECT_EQ(hint("hello\n"), "Known are traces of Quarry, pickled snap");
  for (char const* const pickle : {"(dp0\nVsegments\np1\n", "(lp0\n"})
    EXPECT_EQ(hint(pickle), "It looks like a pickle of protocol 0 or ");
  EXPECT_EQ(hint(std::string{"}q\0(X\x08\0\0\0segments", 17}),
            "It looks like a pickle of protocol 0 or ");
  EXPECT_EQ(hint("[  4142][12:51:42:123456][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n"),
            "It looks like RMM's debug log (RMM_DEBUG");
  EXPECT_EQ(
      hint("[RMM] [error] [A][Stream 0x1][Upstream 8B][FAILURE maximum pool size exceeded]\n"),
      "It looks like RMM's debug log (RMM_DEBUG");
  EXPECT_EQ(hint("PK\3\4archive/data.pkl"), "It looks like a file of torch.save. Writ");
  EXPECT_EQ(hint("{\"segments\": [], \"device_traces\": []}"),
            "It looks like a snapshot of PyTorch as J");
  EXPECT_EQ(hint("BZh91AY&SY"), "It is compressed, but not by gzip. Decom");
}

TEST(OpenTrace, RecognisesALogWhoseFirstLinesAreDamaged) {
  for (sample const& one : samples) {
    memory_file const file{"damaged\n\n" + one.text};
    auto const reader = trace::open_trace(file.path());
    EXPECT_EQ(reader->file_format(), one.file_format);
    std::vector<trace::event> events(2);
    EXPECT_EQ(reader->read(events), 1u);
    EXPECT_EQ(reader->problem_count(), 1u);
  }
}

}  // namespace open_trace_test
}  // namespace quarry::test
