// SPDX-License-Identifier: Apache-2.0
#include "graph/edge_list.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

namespace quarry::graph_demo {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

void skip_blanks(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

/// Removes the next field from the front of `text` and returns it; empty at the end of the line.
std::string_view next_field(std::string_view& text) {
  skip_blanks(text);
  auto const end = std::ranges::find_if(text, is_blank);
  auto const field = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(field.size());
  return field;
}

/// `text` for a message: in quotes, with `\xNN` for characters that do not print, cut to the length
/// of a line.
std::string quoted(std::string_view text) {
  constexpr std::size_t max_length = 60;
  std::string result = "\"";
  for (char const c : text.substr(0, max_length)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      std::array<char, 5> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += escaped.data();
    }
  }
  return result + (text.size() > max_length ? "...\"" : "\"");
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  auto const lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

struct close_file {
  void operator()(gzFile file) const { gzclose(file); }
};

/// Reads the lines of a plain or gzip file, one at a time, through one buffer.
class line_source {
 public:
  explicit line_source(std::filesystem::path const& path)
      : path_{path}, buffer_(max_line), file_{gzopen(path.c_str(), "rb")} {
    if (!file_) refuse_file("cannot open");
    gzbuffer(file_.get(), 256 * 1024);
    refill();
  }

  /// The first `size` bytes, or fewer, of the text that `next` has not returned yet.
  [[nodiscard]] std::string_view peek(std::size_t size) const { return text_.substr(0, size); }

  /// The next line without its `\n` or `\r\n`, valid until the next call; nothing at the end.
  [[nodiscard]] std::optional<std::string_view> next() {
    auto end = text_.find('\n');
    for (; end == text_.npos && !at_end_; end = text_.find('\n')) refill();
    if (end == text_.npos && failure_) throw malformed_input{path_, number_ + 1, failure_};
    if (text_.empty()) return std::nullopt;
    ++number_;
    line_ = text_.substr(0, end);
    text_.remove_prefix(end == text_.npos ? text_.size() : end + 1);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    return line_;
  }

  /// The next line that is neither blank nor a comment.
  [[nodiscard]] std::optional<std::string_view> next_data() {
    while (auto line = next()) {
      skip_blanks(*line);
      if (!line->empty() && line->front() != '#' && line->front() != '%') return line;
    }
    return std::nullopt;
  }

  /// Removes an integer in [low, high] from the front of `fields`, part of the current line, and
  /// returns it. Refuses the line if it has no such integer. `name` names the integer in messages.
  [[nodiscard]] std::uint64_t next_integer(std::string_view& fields, char const* name,
                                           std::uint64_t low, std::uint64_t high) const {
    skip_blanks(fields);
    auto const* const last = fields.data() + fields.size();
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(fields.data(), last, value);
    bool const is_whole_field = end == last || is_blank(*end);
    if (error != std::errc{} || !is_whole_field || value < low || value > high) {
      auto const field = next_field(fields);
      if (field.empty()) refuse_missing(name);
      refuse(name + (' ' + quoted(field)) + " is not an integer from " + std::to_string(low) +
             " to " + std::to_string(high));
    }
    fields.remove_prefix(static_cast<std::size_t>(end - fields.data()));
    return value;
  }

  /// Refuses the current line because it lacks the field `name`.
  [[noreturn]] void refuse_missing(char const* name) const {
    refuse(std::string{"no "} + name + " in " + quoted(line_));
  }

  /// Throws `malformed_input` for the current line; at the end of the file for the last line.
  [[noreturn]] void refuse(std::string const& reason) const {
    throw malformed_input{path_, number_, reason};
  }

 private:
  static constexpr std::size_t max_line = std::size_t{1} << 20;

  /// Moves the unfinished line to the front of the buffer and fills the remaining buffer. Only
  /// records damage to the file, so that `next` first returns the lines before the damage, and then
  /// reports the damage with its line number.
  void refill() {
    auto const kept = text_.size();
    auto const room = buffer_.size() - kept;
    if (room == 0) {
      throw malformed_input{path_, number_ + 1,
                            "longer than " + std::to_string(max_line) + " bytes: " + quoted(text_)};
    }
    if (kept != 0) std::memmove(buffer_.data(), text_.data(), kept);
    errno = 0;
    auto const read = gzread(file_.get(), buffer_.data() + kept, static_cast<unsigned>(room));
    int error = Z_OK;
    gzerror(file_.get(), &error);
    if (error == Z_ERRNO) refuse_file("cannot read");
    if (error == Z_MEM_ERROR) throw std::bad_alloc{};
    if (error != Z_OK) {
      failure_ = error == Z_BUF_ERROR ? "the gzip data ends too soon" : "the gzip data is damaged";
    }
    auto const added = static_cast<std::size_t>(std::max(read, 0));
    text_ = {buffer_.data(), kept + added};
    at_end_ = added < room;
  }

  [[noreturn]] void refuse_file(char const* action) const {
    throw std::filesystem::filesystem_error{action, path_,
                                            std::error_code{errno, std::generic_category()}};
  }

  std::filesystem::path path_;
  std::vector<char> buffer_;
  std::unique_ptr<gzFile_s, close_file> file_;
  std::string_view text_;  ///< the part of `buffer_` that `next` has not returned yet
  std::string_view line_;
  std::size_t number_ = 0;
  char const* failure_ = nullptr;
  bool at_end_ = false;
};

edge_list read_pairs(line_source& lines) {
  edge_list result;
  while (auto fields = lines.next_data()) {
    auto const source = lines.next_integer(*fields, "source", 0, no_vertex - 1);
    auto const target = lines.next_integer(*fields, "target", 0, no_vertex - 1);
    result.edges.push_back(
        {static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(target)});
  }
  return result;
}

constexpr std::string_view matrix_market = "%%MatrixMarket";

/// Removes a word from the front of the banner and returns its index in `known`. Refuses a word
/// that is not in `known`.
template <std::size_t Size>
std::size_t next_word(line_source const& lines, std::string_view& banner, char const* name,
                      std::array<std::string_view, Size> const& known) {
  auto const word = next_field(banner);
  auto const found = std::ranges::find_if(
      known, [word](std::string_view candidate) { return equal_ignoring_case(word, candidate); });
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  std::string reason = name + (' ' + quoted(word)) + " is not among:";
  for (auto const choice : known) (reason += ' ') += choice;
  lines.refuse(reason);
}

edge_list read_matrix_market(line_source& lines) {
  auto banner = lines.next().value();
  next_field(banner);
  next_word<1>(lines, banner, "object", {"matrix"});
  next_word<1>(lines, banner, "format", {"coordinate"});
  constexpr std::array<std::size_t, 4> values_of_field{0, 1, 1, 2};
  auto const values = values_of_field[next_word<4>(lines, banner, "field",
                                                   {"pattern", "real", "integer", "complex"})];
  bool const is_symmetric = next_word<2>(lines, banner, "symmetry", {"general", "symmetric"}) == 1;

  auto fields = lines.next_data();
  if (!fields) lines.refuse("no size line");
  auto const rows = lines.next_integer(*fields, "number of rows", 0, no_vertex);
  auto const columns = lines.next_integer(*fields, "number of columns", 0, no_vertex);
  auto const entries = lines.next_integer(*fields, "number of entries", 0, UINT64_MAX);
  if (auto const extra = next_field(*fields); !extra.empty()) {
    lines.refuse("the size line goes on after three numbers: " + quoted(extra));
  }
  if (is_symmetric && rows != columns) lines.refuse("a symmetric matrix must be square");

  edge_list result{{}, std::max(rows, columns)};  // no reserve: `entries` may be wrong
  for (std::uint64_t entry = 0; entry != entries; ++entry) {
    fields = lines.next_data();
    if (!fields) {
      lines.refuse("the file ends after " + std::to_string(entry) + " of " +
                   std::to_string(entries) + " entries");
    }
    auto const row = lines.next_integer(*fields, "row", 1, rows);
    auto const column = lines.next_integer(*fields, "column", 1, columns);
    for (std::size_t value = 0; value != values; ++value) {
      if (next_field(*fields).empty()) lines.refuse_missing("value");
    }
    edge const direct{static_cast<std::uint32_t>(row - 1), static_cast<std::uint32_t>(column - 1)};
    result.edges.push_back(direct);
    if (is_symmetric && row != column) result.edges.push_back({direct.target, direct.source});
  }
  if (auto const extra = lines.next_data()) {
    lines.refuse("more than the " + std::to_string(entries) +
                 " entries promised: " + quoted(*extra));
  }
  return result;
}

}  // namespace

malformed_input::malformed_input(std::filesystem::path const& file, std::size_t line,
                                 std::string const& reason)
    : std::runtime_error{file.string() + ':' + std::to_string(line) + ": " + reason} {}

edge_list read_edge_list(std::filesystem::path const& file) {
  line_source lines{file};
  bool const is_matrix = equal_ignoring_case(lines.peek(matrix_market.size()), matrix_market);
  return is_matrix ? read_matrix_market(lines) : read_pairs(lines);
}

}  // namespace quarry::graph_demo
