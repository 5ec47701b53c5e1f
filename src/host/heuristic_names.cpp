// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/errors.hpp"
#include "quarry/host/pools/heuristics.hpp"

#include <charconv>
#include <initializer_list>
#include <optional>

namespace quarry::inline QUARRY_ABI {
namespace {

/// The row whose name or code is `name`; null if there is none.
template <class Rows>
[[nodiscard]] auto row_named(Rows const& rows, std::string_view name) {
  for (auto const& each : rows)
    if (name == each.name || name == each.code) return &each;
  return static_cast<typename Rows::value_type const*>(nullptr);
}

/// Null for `never` and for a rule of the program.
[[nodiscard]] named_heuristic const* row_of(heuristic const& rule) {
  for (named_heuristic const& each : named_heuristics)
    if (each.condition == rule.condition) return &each;
  return nullptr;
}

[[nodiscard]] std::optional<std::uint32_t> number_of(std::string_view digits) {
  std::uint32_t number = 0;
  char const* const end = digits.data() + digits.size();
  auto const parsed = std::from_chars(digits.data(), end, number);
  if (digits.empty() || parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return number;
}

/// «never, percent:N, blocks:N or cost:N, followed by any of +hwm, +cbg».
[[nodiscard]] std::string grammar(std::string_view others) {
  std::string result = "never";
  for (named_heuristic const& each : named_heuristics)
    result += (&each == &named_heuristics.back() ? " or " : ", ") + std::string{each.name} + ":N";
  result += ", followed by any of ";
  for (named_modifier const& each : named_modifiers)
    result += (&each == &named_modifiers.front() ? "+" : ", +") + std::string{each.name};
  return result + std::string{others};
}

/// One string after the other: GCC 12 warns falsely about a literal + a new string.
[[nodiscard]] std::string joined(std::initializer_list<std::string_view> parts) {
  std::string result;
  for (std::string_view const each : parts) result += each;
  return result;
}

/// Texts of one heuristic and its modifiers, which `+` separates.
class heuristic_parser {
 public:
  heuristic_parser(std::string_view text, std::string_view whole, std::string_view others)
      : left_{text}, whole_{whole}, others_{others} {}

  [[nodiscard]] heuristic run() {
    heuristic result = base(next());
    while (!is_over_) {
      std::string_view const part = next();
      named_modifier const* const row = row_named(named_modifiers, part);
      if (row == nullptr) refuse(joined({"'+", part, "' is unknown"}));
      result = row->factory(result);
    }
    return result;
  }

 private:
  [[nodiscard]] std::string_view next() {
    auto const end = left_.find('+');
    auto const part = left_.substr(0, end);
    is_over_ = end == std::string_view::npos;
    left_ = is_over_ ? std::string_view{} : left_.substr(end + 1);
    return part;
  }
  [[nodiscard]] heuristic base(std::string_view part) const {
    if (part == "never") return heuristic::never();
    auto const colon = part.find(':');
    std::string_view const name = part.substr(0, colon);
    named_heuristic const* const row = row_named(named_heuristics, name);
    if (row == nullptr) refuse(joined({"'", name, "' is unknown"}));
    auto const number =
        number_of(colon == std::string_view::npos ? std::string_view{} : part.substr(colon + 1));
    if (!number) refuse(joined({"'", part, "' has no number from 0 to 4294967295"}));
    if (*number > row->max_number) refuse("the number exceeds " + std::to_string(row->max_number));
    return row->factory(*number);
  }
  [[noreturn]] void refuse(std::string const& reason) const {
    throw bad_argument{joined(
        {"'", whole_, "' is no heuristic: ", reason, ". A heuristic is ", grammar(others_)})};
  }

  std::string_view left_, whole_, others_;
  bool is_over_ = false;
};

}  // namespace

heuristic detail::heuristic_named(std::string_view text, std::string_view whole,
                                  std::string_view others) {
  return heuristic_parser{text, whole, others}.run();
}

heuristic heuristic_named(std::string_view text) { return detail::heuristic_named(text, text, {}); }

std::string heuristic_name(heuristic const& rule) {
  named_heuristic const* const row = row_of(rule);
  if (row == nullptr)
    return rule.condition == heuristic::trigger::user ? "a rule of the program" : "never";
  std::string result = std::string{row->name} + ':' + std::to_string(rule.parameter);
  for (named_modifier const& each : named_modifiers)
    if (each.is_set(rule)) result += '+' + std::string{each.name};
  return result;
}

std::string heuristic_code(heuristic const& rule) {
  std::string result = "quarry::heuristic::";
  if (named_heuristic const* const row = row_of(rule)) {
    result += std::string{row->code} + '(' + std::to_string(rule.parameter) + ')';
  } else {
    result += rule.condition == heuristic::trigger::user ? "by_rule(rule)" : "never()";
  }
  for (named_modifier const& each : named_modifiers)
    if (each.is_set(rule)) result += '.' + std::string{each.code} + "()";
  return result;
}

}  // namespace quarry::inline QUARRY_ABI
