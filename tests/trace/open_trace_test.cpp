// SPDX-License-Identifier: Apache-2.0
#include "trace/log_files.hpp"

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
