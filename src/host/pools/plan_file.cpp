// SPDX-License-Identifier: Apache-2.0
// Writes and reads plans: docs/format/plan.md.
#include "quarry/core/detail/crc32c.hpp"
#include "quarry/host/pools/plan.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace quarry::inline QUARRY_ABI {
namespace {

constexpr std::string_view first_line = "quarry-plan 1";
constexpr std::string_view first_line_with_sizes = "quarry-plan 2";  // if sizes vary
constexpr char const* no_method = "none";
/// Four numbers of 20 digits at most an allocation, and the header.
constexpr std::size_t max_file_bytes = max_plan_allocations * 84 + 4096;

using file_handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[nodiscard]] file_handle open(std::string const& path, char const* mode) {
  file_handle result{std::fopen(path.c_str(), mode), std::fclose};
  if (!result) throw resource_failed{path + ": cannot open the file", std::strerror(errno)};
  return result;
}

[[nodiscard]] std::uint32_t checksum(std::string_view text) {
  return detail::crc32c({reinterpret_cast<unsigned char const*>(text.data()), text.size()});
}

/// The lines of a plan file, with their numbers for errors.
class plan_lines {
 public:
  plan_lines(std::string const& path, std::string_view text) : path_{path}, text_{text} {}

  [[noreturn]] void refuse(std::string const& reason) const {
    throw bad_plan{path_ + ':' + std::to_string(number_) + ": " + reason};
  }
  [[nodiscard]] std::string_view next() {
    ++number_;
    auto const end = text_.find('\n', at_);
    if (end == std::string_view::npos) refuse("the file ends inside the plan");
    auto const result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  /// The text after `name` and a space.
  [[nodiscard]] std::string_view field(std::string_view name) {
    auto const found = next();
    if (found.size() <= name.size() || !found.starts_with(name) || found[name.size()] != ' ')
      refuse("expected '" + std::string{name} + " ...'");
    return found.substr(name.size() + 1);
  }
  [[nodiscard]] std::uint64_t number_field(std::string_view name) {
    auto rest = field(name);
    auto const result = number(rest, '\0');
    return result;
  }
  /// Removes a number and the character `behind` it, or all of `rest` if that is '\0'.
  [[nodiscard]] std::uint64_t number(std::string_view& rest, char behind) {
    std::uint64_t result = 0;
    auto const [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), result);
    auto const digits = static_cast<std::size_t>(end - rest.data());
    bool const is_complete =
        behind == '\0' ? digits == rest.size() : digits < rest.size() && rest[digits] == behind;
    if (error != std::errc{} || !is_complete) refuse("expected a number");
    rest.remove_prefix(std::min(rest.size(), digits + 1));
    return result;
  }
  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] bool is_at_end() const { return at_ == text_.size(); }

 private:
  std::string const& path_;
  std::string_view text_;
  std::size_t at_ = 0, number_ = 0;
};

[[nodiscard]] std::string text_of(plan const& saved) {
  std::string method = saved.method.empty() ? no_method : saved.method;
  for (char& each : method) {
    if (each == '\n') each = ' ';
  }
  bool const has_sizes = std::ranges::any_of(
      saved.allocations, [](planned_allocation const& each) { return each.min_size != 0; });
  std::string text{has_sizes ? first_line_with_sizes : first_line};
  text += "\nalignment " + std::to_string(saved.alignment);
  text += "\nbytes " + std::to_string(saved.size);
  text += "\nlower_bound " + std::to_string(saved.lower_bound);
  text += "\nperiod_begin " + std::to_string(saved.period_begin);
  text += "\nmethod " + method;
  text += "\nallocations " + std::to_string(saved.allocations.size()) + '\n';
  for (auto const& each : saved.allocations) {
    text += std::to_string(each.size) + ' ';
    text += each.offset == not_planned ? "-" : std::to_string(each.offset);
    text += ' ' + std::to_string(each.freed_before);
    if (has_sizes) text += ' ' + std::to_string(each.min_size);
    text += '\n';
  }
  char crc[32];
  std::snprintf(crc, sizeof crc, "crc32c %08x\n", static_cast<unsigned>(checksum(text)));
  return text += crc;
}

}  // namespace

void save(plan const& saved, std::string const& path) {
  std::string const text = text_of(saved);
  file_handle file = open(path, "wb");
  bool const is_written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (std::fclose(file.release()) != 0 || !is_written)
    throw resource_failed{path + ": cannot write the file", std::strerror(errno)};
}

plan load_plan(std::string const& path) {
  std::string text;
  {
    file_handle const file = open(path, "rb");
    char part[1 << 16];
    while (std::size_t const size = std::fread(part, 1, sizeof part, file.get())) {
      text.append(part, size);
      if (text.size() > max_file_bytes)
        throw bad_plan{path + ": the file exceeds the maximum of " +
                       std::to_string(max_file_bytes) + " bytes"};
    }
    if (std::ferror(file.get()) != 0)
      throw resource_failed{path + ": cannot read the file", std::strerror(errno)};
  }
  plan_lines lines{path, text};
  auto const version = lines.next();
  bool const has_sizes = version == first_line_with_sizes;
  if (version != first_line && !has_sizes)
    lines.refuse("expected '" + std::string{first_line} + "' or '" +
                 std::string{first_line_with_sizes} + "'");
  plan result;
  result.alignment = lines.number_field("alignment");
  result.size = lines.number_field("bytes");
  result.lower_bound = lines.number_field("lower_bound");
  result.period_begin = lines.number_field("period_begin");
  result.method = lines.field("method");
  if (result.method == no_method) result.method.clear();
  auto const count = lines.number_field("allocations");
  if (count > max_plan_allocations)
    lines.refuse("the maximum is " + std::to_string(max_plan_allocations) + " allocations");
  for (std::uint64_t i = 0; i < count; ++i) {
    auto rest = lines.next();
    planned_allocation each;
    each.size = lines.number(rest, ' ');
    if (rest.starts_with("- ")) {
      rest.remove_prefix(2);
    } else {
      each.offset = lines.number(rest, ' ');
    }
    each.freed_before = lines.number(rest, has_sizes ? ' ' : '\0');
    if (has_sizes) each.min_size = lines.number(rest, '\0');
    result.allocations.push_back(each);
  }
  auto const end = lines.position();
  char crc[32];
  std::snprintf(crc, sizeof crc, "%08x",
                static_cast<unsigned>(checksum(std::string_view{text}.substr(0, end))));
  if (lines.field("crc32c") != crc)
    lines.refuse("the checksum differs: the plan was damaged, or edited");
  if (!lines.is_at_end()) lines.refuse("the file goes on after the checksum");
  if (auto const problems = audit(result); !problems.empty())
    throw bad_plan{path + ": " + problems.front()};
  return result;
}

}  // namespace quarry::inline QUARRY_ABI
