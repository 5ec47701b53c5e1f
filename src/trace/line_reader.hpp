// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The base of the readers of text: splits the file into lines, numbers them, and skips those that
/// the derived class refuses. Blank lines mean nothing.
///
/// A line longer than `byte_source::max_line` is skipped. If the file's compressed data are
/// damaged, the trace ends there with a problem, so that the events before the damage are kept.
class line_reader : public reader {
 public:
  [[nodiscard]] std::size_t read(std::span<event> events) final;

 protected:
  /// `format_name` completes «no line is ...», for example `a line of RMM's log`.
  line_reader(std::unique_ptr<byte_source> source, char const* format_name);

  /// Reads one line and passes its events to `add`. Returns the reason if the line cannot be read,
  /// and else an empty text.
  [[nodiscard]] virtual std::string read_line(std::string_view line) = 0;
  /// Called once, after the last line.
  virtual void read_end() {}

  void add(event const& added) {
    has_events_ = true;
    if (filled_ < target_.size())
      target_[filled_++] = added;
    else
      pending_.push_back(added);
  }

 private:
  /// The next line that is not blank and has an acceptable length; nullopt at the end of the file.
  [[nodiscard]] std::optional<std::string_view> next_line();
  void add_line_problem(std::string const& reason, std::string_view line);
  void end();

  std::unique_ptr<byte_source> source_;
  char const* format_name_;
  std::span<event> target_;     // of the present call of `read`
  std::size_t filled_ = 0;      // events of `target_` that are set
  std::vector<event> pending_;  // events of the last line that `target_` had no space for
  std::uint64_t line_number_ = 0;
  std::uint64_t lines_read_ = 0;  // lines that were not refused
  bool is_at_end_ = false, has_events_ = false;
};

/// The first of `first_bytes` that are whole lines, at most `max_lines`: is `is_of_format` true for
/// any? The readers recognise their files with it, also if the first lines are damaged.
template <class Predicate>
[[nodiscard]] bool any_line(std::span<unsigned char const> first_bytes, Predicate is_of_format) {
  constexpr int max_lines = 64;
  std::string_view text{reinterpret_cast<char const*>(first_bytes.data()), first_bytes.size()};
  for (int i = 0; i < max_lines && !text.empty(); ++i) {
    std::size_t const end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_of_format(line)) return true;
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace quarry::inline QUARRY_ABI::trace
