// SPDX-License-Identifier: Apache-2.0
#include "trace/text_log.hpp"

#include "trace/line_reader.hpp"
#include "trace/parse_number.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Removes the first word of `text`, and the spaces before it. Empty if there is none.
std::string_view take_word(std::string_view& text) {
  constexpr std::string_view spaces = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  std::string_view const word = text.substr(0, text.find_first_of(spaces));
  text.remove_prefix(word.size());
  return word;
}

/// Sets all of `read` but the time. Returns the reason if the line is not of the format.
std::string parse_text_line(std::string_view line, event& read) {
  std::string_view rest = line;
  std::string_view const kind = take_word(rest);
  if (kind != "a" && kind != "f") return "the line is neither 'a ID BYTES' nor 'f ID'";
  parsed_number const id = parse_decimal(take_word(rest));
  if (id.fault != nullptr) return std::string{"the ID "} + id.fault;
  if (id.value == ~std::uint64_t{0}) return "the ID exceeds 2^64 - 2";
  read.kind = kind == "a" ? event_kind::allocate : event_kind::deallocate;
  read.address = id.value + 1;
  if (kind == "a") {
    parsed_number const size = parse_decimal(take_word(rest));
    if (size.fault != nullptr) return std::string{"the size "} + size.fault;
    read.size = size.value;
  }
  if (!take_word(rest).empty())
    return kind == "a" ? "words follow 'a ID BYTES'" : "words follow 'f ID'";
  return {};
}

class text_log final : public line_reader {
 public:
  explicit text_log(std::unique_ptr<byte_source> source)
      : line_reader{std::move(source), "'a ID BYTES' or 'f ID'"} {}
  [[nodiscard]] format file_format() const override { return format::text; }

 private:
  [[nodiscard]] std::string read_line(std::string_view line) override {
    event next{};
    std::string reason = parse_text_line(line, next);
    if (!reason.empty()) return reason;
    next.time = time_++;
    add(next);
    return {};
  }

  std::uint64_t time_ = 0;
};

}  // namespace

std::unique_ptr<reader> open_text_log(std::unique_ptr<byte_source> source) {
  return std::make_unique<text_log>(std::move(source));
}

bool looks_like_text_log(std::span<unsigned char const> first_bytes) {
  return any_line(first_bytes, [](std::string_view line) {
    event ignored{};
    return parse_text_line(line, ignored).empty();
  });
}

}  // namespace quarry::inline QUARRY_ABI::trace
