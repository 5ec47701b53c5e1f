// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of the readers of logs: makes a file from the input, reads it, and
// checks what must hold for every file.
#pragma once

#include "fuzz/byte_source.hpp"
#include "trace/log_files.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quarry::test {

/// Makes a file. Input of bytes alone seldom has the form of a log, so a byte of the input means a
/// fragment of the format, or else the byte after it. If the first byte is odd, the file is the
/// remaining input.
inline std::string log_from(std::uint8_t const* data, std::size_t size,
                            std::span<std::string_view const> fragments) {
  byte_source input{data, size};
  if (input.u8() % 2 == 1) return {reinterpret_cast<char const*>(data) + 1, size - 1};
  std::string text;
  while (!input.is_exhausted()) {
    std::size_t const choice = input.u8();
    std::size_t const count = 256 / fragments.size() * fragments.size();
    if (choice < count)
      text += fragments[choice % fragments.size()];
    else
      text += static_cast<char>(input.u8());
  }
  return text;
}

/// Reads a file whole, and again one event at a time. A line gives at most `max_events` events.
inline void check_log(open_function open, std::string const& text, std::size_t max_events) {
  auto const result = read_all(open, text, 64);
  auto const lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  expect(result.events.size() <= lines * max_events, "more events than the lines can give");
  expect(result.problem_count <= lines, "more problems than lines");
  expect(result.problems.size() ==
             std::min<std::size_t>(result.problem_count, trace::reader::max_problems),
         "problems are missing");
  expect(result.refusal.empty() || result.events.empty(), "a refused file gave events");
  for (auto const& problem : result.problems)
    expect(problem.starts_with("FILE:") && problem.size() < 1000, "a problem without its place");
  for (trace::event const& one : result.events) {
    expect(static_cast<unsigned>(one.kind) < trace::event_kinds, "an unknown kind of event");
    expect(one.thread < result.names.threads.size() && one.stream < result.names.streams.size() &&
               one.allocator < result.names.allocators.size() &&
               one.call_site < result.names.call_sites.size(),
           "an event refers to a name that does not exist");
    bool const has_address =
        one.kind != trace::event_kind::fail && one.kind != trace::event_kind::phase;
    expect(has_address == (one.address != 0), "an event has a wrong address");
  }
  auto const single = read_all(open, text, 1);
  expect(single.events == result.events && single.problems == result.problems &&
             single.refusal == result.refusal,
         "the events depend on the size of the batches");
}

}  // namespace quarry::test
