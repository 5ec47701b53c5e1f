// SPDX-License-Identifier: Apache-2.0
// Scans one JSON object in one line, without a tree of its values.
#pragma once

#include "quarry/core/abi.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// A value as the text has it. A string is without its quotes, and its escapes are not replaced.
struct json_value {
  enum class type : std::uint8_t { absent, string, number, literal };
  std::string_view text;
  type kind = type::absent;
  bool has_escapes = false;

  [[nodiscard]] bool is_string() const { return kind == type::string; }
  /// The string with its escapes replaced. An unpaired surrogate becomes U+FFFD.
  [[nodiscard]] std::string decoded() const;
};

/// Reports the members of an object, and the members of objects in this object, one by one:
///
///     json_scanner scanner{R"({"a": 1, "b": {"c": "text"}})"};
///     while (scanner.next()) ...        // group "", key "a"; then group "b", key "c"
///     if (!scanner.fault().empty()) ... // the line is not JSON
///
/// Strict: accepts what RFC 8259 accepts, and only UTF-8. Arrays, and objects below the second
/// level, are checked and not reported. Does not recurse and does not allocate: one pass over the
/// text, at most `max_depth` levels. All views refer to the text.
class json_scanner {
 public:
  explicit json_scanner(std::string_view text) : text_{text} {}

  /// Advances to the next member whose value is a string, a number or a literal. False at the end
  /// of the object, and after a fault.
  [[nodiscard]] bool next();
  /// The key of the object that the member is in; empty for the outermost object.
  [[nodiscard]] std::string_view group() const { return depth_ == 1 ? std::string_view{} : group_; }
  /// The member's key. Its escapes are not replaced.
  [[nodiscard]] std::string_view key() const { return key_; }
  [[nodiscard]] json_value const& value() const { return value_; }
  /// What is wrong, with the column; empty if nothing is.
  [[nodiscard]] std::string fault() const;

  static constexpr unsigned max_depth = 64;

 private:
  enum class state : std::uint8_t {
    start,
    first_key,  // or the end of the object
    key,
    first_element,  // or the end of the array
    value,
    after_value,
    end,
  };

  [[nodiscard]] bool fail(char const* fault);
  void skip_spaces();
  [[nodiscard]] bool take(char expected);
  [[nodiscard]] bool open(bool is_object);
  void close();
  [[nodiscard]] bool is_in_object() const { return (objects_ >> (depth_ - 1) & 1) != 0; }
  [[nodiscard]] bool scan_key();
  [[nodiscard]] bool scan_scalar(json_value& scanned);
  [[nodiscard]] bool scan_string(json_value& scanned);
  [[nodiscard]] bool scan_escape();
  [[nodiscard]] bool scan_number(json_value& scanned);
  [[nodiscard]] bool scan_digits();

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view group_, key_;
  json_value value_;
  std::uint64_t objects_ = 0;  // bit i: level i + 1 is an object, not an array
  unsigned depth_ = 0;
  state state_ = state::start;
  char const* fault_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::trace
