// SPDX-License-Identifier: Apache-2.0
#include "trace/line_reader.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// The line as a message shows it: at most 100 bytes, and only printable ones of ASCII.
std::string shortened(std::string_view line) {
  constexpr std::size_t max_shown = 100;
  std::string result;
  for (char const character : line.substr(0, max_shown)) {
    if (character >= ' ' && character <= '~') {
      result += character;
    } else {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(character)));
      result += code;
    }
  }
  if (line.size() > max_shown) result += "...";
  return result;
}

bool is_blank(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; });
}

}  // namespace

line_reader::line_reader(std::unique_ptr<byte_source> source, char const* format_name)
    : source_{std::move(source)}, format_name_{format_name} {}

void line_reader::add_line_problem(std::string const& reason, std::string_view line) {
  if (problem_count() >= max_problems) return add_problem({});  // counted, and not shown
  bool const has_nul = line.find('\0') != std::string_view::npos;
  add_problem(source_->path() + ':' + std::to_string(line_number_) + ": " +
              (has_nul ? "the line contains a NUL byte" : reason) + ": " + shortened(line));
}

std::optional<std::string_view> line_reader::next_line() {
  std::uint64_t skipped_from = 0;  // the number of a line that is too long, while it is skipped
  for (;;) {
    std::uint64_t const start = source_->offset();
    auto line = source_->line();
    if (!line) return std::nullopt;
    if (skipped_from == 0) ++line_number_;
    // `line` is a view of the window of `source_`, where the line's end follows it.
    auto const consumed = static_cast<std::size_t>(source_->offset() - start);
    bool const has_end = consumed != 0 && line->data()[consumed - 1] == '\n';
    if (skipped_from != 0) {
      if (has_end) skipped_from = 0;
      continue;
    }
    if (line->size() >= byte_source::max_line - 1) {  // less 1: `line` removes a carriage return
      add_line_problem("the line has more than " + std::to_string(byte_source::max_line) + " bytes",
                       *line);
      if (!has_end) skipped_from = line_number_;
      continue;
    }
    if (line_number_ == 1 && line->starts_with(byte_order_mark))
      line->remove_prefix(byte_order_mark.size());
    if (!is_blank(*line)) return line;
  }
}

void line_reader::end() {
  is_at_end_ = true;
  read_end();
}

std::size_t line_reader::read(std::span<event> events) {
  target_ = events;
  filled_ = 0;
  std::size_t const left_over = std::min(pending_.size(), events.size());
  std::copy_n(pending_.begin(), left_over, events.begin());
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(left_over));
  filled_ = left_over;
  while (filled_ < events.size() && !is_at_end_) {
    std::optional<std::string_view> line;
    try {
      line = next_line();
    } catch (bad_trace const& damage) {
      if (lines_read_ == 0) throw;
      add_problem(damage.message() + "; line " + std::to_string(line_number_) +
                  " is the last that was read");
    }
    if (!line) {
      end();
      break;
    }
    std::string const reason = read_line(*line);
    if (reason.empty())
      ++lines_read_;
    else
      add_line_problem(reason, *line);
  }
  target_ = {};
  if (is_at_end_ && lines_read_ == 0) {
    throw bad_trace{source_->path() + ": " +
                    (problems().empty() ? std::string{"the file has no lines"}
                                        : std::string{"no line is "} + format_name_ +
                                              "; the first problem: " + problems().front())};
  }
  if (is_at_end_) require_events(has_events_);
  return filled_;
}

}  // namespace quarry::inline QUARRY_ABI::trace
