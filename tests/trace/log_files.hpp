// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the readers: files with given bytes, and all that a reader makes of them.
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::test {

/// A file in memory.
class memory_file {
 public:
  explicit memory_file(std::string_view text) : file_{memfd_create("quarry-test", 0)} {
    while (file_ >= 0 && !text.empty()) {
      ssize_t const count = write(file_, text.data(), text.size());
      if (count <= 0) std::abort();
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (file_ < 0) std::abort();
  }
  memory_file(memory_file const&) = delete;
  memory_file& operator=(memory_file const&) = delete;
  ~memory_file() { close(file_); }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

using open_function = std::unique_ptr<trace::reader> (*)(std::unique_ptr<trace::byte_source>);

/// What a reader made of a file. Problems and the refusal call the file FILE.
struct whole_trace {
  std::vector<trace::event> events;
  trace::name_tables names;
  std::vector<std::string> problems;
  std::uint64_t problem_count = 0;
  std::string refusal;  ///< the message of bad_trace
};

inline std::string with_path_replaced(std::string text, std::string const& path) {
  for (std::size_t at; (at = text.find(path)) != std::string::npos;)
    text.replace(at, path.size(), "FILE");
  return text;
}

/// Reads a file of these bytes, in batches of `batch` events.
inline whole_trace read_all(open_function open, std::string_view text, std::size_t batch = 64) {
  memory_file const file{text};
  whole_trace result;
  try {
    auto const reader = open(std::make_unique<trace::byte_source>(file.path()));
    std::vector<trace::event> events(batch);
    try {
      while (std::size_t const count = reader->read(events))
        result.events.insert(result.events.end(), events.begin(),
                             events.begin() + static_cast<std::ptrdiff_t>(count));
    } catch (trace::bad_trace const& refused) {
      result.refusal = with_path_replaced(refused.message(), file.path());
    }
    result.names = reader->names();
    for (auto const& problem : reader->problems())
      result.problems.push_back(with_path_replaced(problem, file.path()));
    result.problem_count = reader->problem_count();
  } catch (trace::bad_trace const& refused) {
    result.refusal = with_path_replaced(refused.message(), file.path());
  }
  return result;
}

inline std::span<unsigned char const> bytes_of(std::string_view text) {
  return {reinterpret_cast<unsigned char const*>(text.data()), text.size()};
}

/// A damage to one line, which no reader may accept.
struct damage {
  char const* name;
  std::string (*apply)(std::string const& line);
};
inline damage const damages[] = {
    {"garbage", [](std::string const&) { return std::string{"?"}; }},
    {"cut in half", [](std::string const& line) { return line.substr(0, line.size() / 2); }},
    {"a NUL byte", [](std::string const& line) { return line + '\0'; }},
    {"words behind it", [](std::string const& line) { return line + " ,x"; }},
    {"twice in one line", [](std::string const& line) { return line + line; }},
    {"too long", [](std::string const& line) { return line + std::string(1'100'000, ' '); }},
};

/// Damages each of the lines in turn, in each way: all other events must survive, and the problem
/// must name the line. Each line must be one event. `header` precedes them.
template <class Expect>
void damage_each_line(open_function open, std::string const& header,
                      std::vector<std::string> const& lines, Expect expect) {
  for (damage const& one : damages) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::string text = header;
      for (std::size_t j = 0; j < lines.size(); ++j)
        text += (i == j ? one.apply(lines[j]) : lines[j]) + '\n';
      auto const line = static_cast<std::size_t>(header.empty() ? 1 : 2) + i;
      expect(one.name, i, "FILE:" + std::to_string(line) + ": ", read_all(open, text));
    }
  }
}

}  // namespace quarry::test
