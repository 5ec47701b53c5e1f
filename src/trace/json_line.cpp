// SPDX-License-Identifier: Apache-2.0
#include "trace/json_line.hpp"
#include "trace/utf8.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

bool is_digit(char character) { return character >= '0' && character <= '9'; }

/// The value of 4 hexadecimal digits, or a number above 0xFFFF.
std::uint32_t hexadecimal_4(std::string_view text) {
  constexpr std::uint32_t invalid = 0x10000;
  if (text.size() < 4) return invalid;
  std::uint32_t value = 0;
  for (char const character : text.substr(0, 4)) {
    auto digit = static_cast<std::uint32_t>(character) - '0';
    std::uint32_t const letter = (static_cast<std::uint32_t>(character) | 0x20u) - 'a';
    if (letter < 6) digit = letter + 10;
    if (digit > 15) return invalid;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& target, std::uint32_t point) {
  auto const add = [&](std::uint32_t byte) { target += static_cast<char>(byte); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | point >> 6);
    add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  }
}

}  // namespace

std::string json_value::decoded() const {
  if (!has_escapes) return std::string{text};
  constexpr std::uint32_t replacement = 0xFFFD;
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    char const escape = text[++i];  // the scanner checked that it exists
    switch (escape) {
      case 'b':
        result += '\b';
        break;
      case 'f':
        result += '\f';
        break;
      case 'n':
        result += '\n';
        break;
      case 'r':
        result += '\r';
        break;
      case 't':
        result += '\t';
        break;
      case 'u': {
        std::uint32_t point = hexadecimal_4(text.substr(i + 1));
        i += 4;
        if (point >= 0xD800 && point < 0xE000) {
          std::string_view const rest = text.substr(i + 1);
          std::uint32_t const low =
              rest.starts_with("\\u") ? hexadecimal_4(rest.substr(2)) : replacement;
          bool const is_pair = point < 0xDC00 && low >= 0xDC00 && low < 0xE000;
          point = is_pair ? 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00) : replacement;
          if (is_pair) i += 6;
        }
        append_utf8(result, point);
        break;
      }
      default:
        result += escape;
        break;
    }
  }
  return result;
}

std::string json_scanner::fault() const {
  if (fault_ == nullptr) return {};
  return "column " + std::to_string(at_ + 1) + ": " + fault_;
}

bool json_scanner::fail(char const* fault) {
  if (fault_ == nullptr) fault_ = fault;
  return false;
}

void json_scanner::skip_spaces() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

bool json_scanner::take(char expected) {
  if (at_ == text_.size() || text_[at_] != expected) return false;
  ++at_;
  return true;
}

bool json_scanner::open(bool is_object) {
  if (depth_ == max_depth) return fail("more than 64 levels");
  if (depth_ == 1) group_ = key_;
  std::uint64_t const bit = std::uint64_t{1} << depth_++;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  state_ = is_object ? state::first_key : state::first_element;
  return true;
}

void json_scanner::close() { state_ = --depth_ == 0 ? state::end : state::after_value; }

bool json_scanner::next() {
  while (fault_ == nullptr) {
    skip_spaces();
    switch (state_) {
      case state::start:
        if (!take('{')) return fail("the line is not a JSON object");
        if (!open(true)) return false;
        break;
      case state::first_key:
        if (take('}')) {
          close();
          break;
        }
        [[fallthrough]];
      case state::key:
        if (!scan_key()) return false;
        break;
      case state::first_element:
        if (take(']')) {
          close();
          break;
        }
        [[fallthrough]];
      case state::value:
        if (take('{')) {
          if (!open(true)) return false;
        } else if (take('[')) {
          if (!open(false)) return false;
        } else {
          if (!scan_scalar(value_)) return false;
          state_ = state::after_value;
          if (depth_ <= 2 && is_in_object()) return true;
        }
        break;
      case state::after_value:
        if (take(','))
          state_ = is_in_object() ? state::key : state::value;
        else if (take(is_in_object() ? '}' : ']'))
          close();
        else
          return fail(is_in_object() ? "expected ',' or '}'" : "expected ',' or ']'");
        break;
      case state::end:
        return at_ == text_.size() ? false : fail("text after the JSON object");
    }
  }
  return false;
}

bool json_scanner::scan_key() {
  json_value scanned;
  if (!take('"')) return fail("expected the name of a member");
  if (!scan_string(scanned)) return false;
  skip_spaces();
  if (!take(':')) return fail("expected ':'");
  key_ = scanned.text;
  state_ = state::value;
  return true;
}

bool json_scanner::scan_scalar(json_value& scanned) {
  if (take('"')) return scan_string(scanned);
  if (at_ < text_.size() && (text_[at_] == '-' || is_digit(text_[at_])))
    return scan_number(scanned);
  for (std::string_view const literal : {"true", "false", "null"}) {
    if (text_.substr(at_).starts_with(literal)) {
      scanned = {text_.substr(at_, literal.size()), json_value::type::literal, false};
      at_ += literal.size();
      return true;
    }
  }
  return fail("expected a value");
}

bool json_scanner::scan_string(json_value& scanned) {
  std::size_t const start = at_;
  bool has_escapes = false;
  while (at_ < text_.size()) {
    auto const character = static_cast<unsigned char>(text_[at_]);
    if (character == '"') {
      scanned = {text_.substr(start, at_++ - start), json_value::type::string, has_escapes};
      return true;
    }
    if (character == '\\') {
      has_escapes = true;
      if (!scan_escape()) return false;
    } else if (character < ' ') {
      return fail("a control character in a string");
    } else if (character < 0x80) {
      ++at_;
    } else {
      std::size_t const length = utf8_length(text_.substr(at_));
      if (length == 0) return fail("a string that is not UTF-8");
      at_ += length;
    }
  }
  return fail("a string without an end");
}

bool json_scanner::scan_escape() {
  std::string_view const rest = text_.substr(at_ + 1);
  if (!rest.empty() && rest[0] == 'u' && hexadecimal_4(rest.substr(1)) <= 0xFFFF) {
    at_ += 6;
    return true;
  }
  constexpr std::string_view escapes = "\"\\/bfnrt";
  if (rest.empty() || escapes.find(rest[0]) == std::string_view::npos)
    return fail("an unknown escape in a string");
  at_ += 2;
  return true;
}

bool json_scanner::scan_digits() {
  std::size_t const start = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  return at_ != start || fail("expected a digit");
}

bool json_scanner::scan_number(json_value& scanned) {
  std::size_t const start = at_;
  (void)take('-');
  if (!take('0') && !scan_digits()) return false;
  if (take('.') && !scan_digits()) return false;
  if (take('e') || take('E')) {
    if (!take('+')) (void)take('-');
    if (!scan_digits()) return false;
  }
  scanned = {text_.substr(start, at_ - start), json_value::type::number, false};
  return true;
}

}  // namespace quarry::inline QUARRY_ABI::trace
