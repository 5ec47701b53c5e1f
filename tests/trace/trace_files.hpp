// SPDX-License-Identifier: Apache-2.0
// Files for the tests of traces.
#pragma once

#include "quarry/trace/reader.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::test {

/// A folder in memory if there is one: the tests write thousands of small files.
[[nodiscard]] inline std::string temporary_folder() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : testing::TempDir();
}

/// The path of a file that does not exist yet. Removes the file at the end.
class temporary_file {
 public:
  temporary_file()
      : path_{temporary_folder() + "/quarry-trace-" + std::to_string(getpid()) + "-" +
              std::to_string(next_++)} {}
  explicit temporary_file(std::string_view contents) : temporary_file{} { write(contents); }
  temporary_file(temporary_file const&) = delete;
  temporary_file& operator=(temporary_file const&) = delete;
  ~temporary_file() { (void)std::remove(path_.c_str()); }

  [[nodiscard]] std::string const& path() const { return path_; }
  void write(std::string_view contents) const {
    std::ofstream{path_, std::ios::binary}.write(contents.data(),
                                                 static_cast<std::streamsize>(contents.size()));
  }
  [[nodiscard]] std::string contents() const {
    std::ifstream stream{path_, std::ios::binary};
    return {std::istreambuf_iterator<char>{stream}, {}};
  }

 private:
  static inline int next_ = 0;
  std::string path_;
};

/// All that a reader hands out.
struct read_trace {
  std::vector<trace::event> events;
  trace::name_tables names;
  std::vector<std::string> problems;
  std::string refusal;  ///< the message, if there are problems and no event

  [[nodiscard]] std::size_t count(trace::event_kind kind) const {
    std::size_t result = 0;
    for (auto const& each : events) result += each.kind == kind ? 1 : 0;
    return result;
  }
};

/// Reads `batch` events at a time. Throws bad_trace, unless the reader has problems.
[[nodiscard]] inline read_trace read_all(std::string const& path, std::size_t batch = 100) {
  auto const reader = trace::open_trace(path);
  read_trace result;
  std::vector<trace::event> events(batch);
  try {
    while (std::size_t const count = reader->read(events))
      result.events.insert(result.events.end(), events.begin(),
                           events.begin() + static_cast<std::ptrdiff_t>(count));
  } catch (trace::bad_trace const& refused) {
    if (reader->problem_count() == 0) throw;
    result.refusal = refused.message();
  }
  result.names = reader->names();
  result.problems = reader->problems();
  EXPECT_EQ(reader->problem_count() > 0, !result.problems.empty());
  return result;
}

/// The data as gzip compresses them.
[[nodiscard]] inline std::string compressed(std::string_view data) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string result(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// The message of the exception that a call throws; empty if it throws none.
template <class Call>
[[nodiscard]] std::string message_of(Call const& call) {
  try {
    call();
  } catch (error const& failure) {
    return failure.message();
  }
  return {};
}

/// Runs `child` in a process of its own, which ends without flushing anything.
template <class Child>
void run_and_crash(Child const& child) {
  pid_t const process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    child();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace quarry::test
