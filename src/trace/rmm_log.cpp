// SPDX-License-Identifier: Apache-2.0
#include "trace/rmm_log.hpp"

#include "trace/line_reader.hpp"
#include "trace/parse_number.hpp"

#include <array>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::string_view header = "Thread,Time,Action,Pointer,Size,Stream";
constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t minute = 60 * second;
constexpr std::uint64_t hour = 60 * minute;
constexpr std::uint64_t day = 24 * hour;

/// One row. The numbers of threads and streams are the log's, not those of a name table.
struct row {
  std::uint64_t thread, time_of_day, pointer, size, stream;
  event_kind kind;
};

/// Removes the next column from `text`. Sets `is_present` to false if there is none.
std::string_view take_column(std::string_view& text, bool& is_present) {
  is_present = text.data() != nullptr;
  if (!is_present) return {};
  std::size_t const comma = text.find(',');
  std::string_view const column = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  return column;
}

/// Two digits at `text`, or 99.
unsigned two_digits(char const* text) {
  unsigned const tens = static_cast<unsigned>(text[0]) - '0';
  unsigned const ones = static_cast<unsigned>(text[1]) - '0';
  return tens < 10 && ones < 10 ? 10 * tens + ones : 99;
}

/// Nanoseconds since midnight of `HH:MM:SS.FRACTION`. Old versions of RMM write a colon before the
/// fraction. The fraction may be absent.
bool parse_time(std::string_view text, std::uint64_t& result) {
  if (text.size() < 8 || text[2] != ':' || text[5] != ':') return false;
  unsigned const hours = two_digits(text.data());
  unsigned const minutes = two_digits(text.data() + 3);
  unsigned const seconds = two_digits(text.data() + 6);
  if (hours > 23 || minutes > 59 || seconds > 60) return false;  // 60: a leap second
  result = hours * hour + minutes * minute + seconds * second;
  if (text.size() == 8) return true;
  std::string_view const fraction = text.substr(9);
  if ((text[8] != '.' && text[8] != ':') || fraction.size() > 9) return false;
  parsed_number const digits = parse_decimal(fraction);
  if (digits.fault != nullptr) return false;
  std::uint64_t scaled = digits.value;
  for (std::size_t i = fraction.size(); i < 9; ++i) scaled *= 10;
  result += scaled;
  return true;
}

/// Returns the reason if the line is not a row.
std::string parse_row(std::string_view line, row& read) {
  std::array<std::string_view, 6> columns;
  std::string_view rest = line;
  for (auto& column : columns) {
    bool is_present = false;
    column = take_column(rest, is_present);
    if (!is_present) return "the line has fewer than 6 columns";
  }
  if (rest.data() != nullptr) return "the line has more than 6 columns";
  auto const& [thread, time, action, pointer, size, stream] = columns;
  auto const set = [](std::uint64_t& target, parsed_number number) {
    target = number.value;
    return number.fault;
  };
  if (auto const* fault = set(read.thread, parse_decimal(thread)))
    return std::string{"column Thread "} + fault;
  if (!parse_time(time, read.time_of_day)) return "column Time is not HH:MM:SS.FRACTION";
  if (action == "allocate")
    read.kind = event_kind::allocate;
  else if (action == "free")
    read.kind = event_kind::deallocate;
  else if (action == "allocate failure")
    read.kind = event_kind::fail;
  else
    return "column Action is not 'allocate', 'allocate failure' or 'free'";
  if (auto const* fault = set(read.pointer, parse_pointer(pointer)))
    return std::string{"column Pointer "} + fault;
  if (auto const* fault = set(read.size, parse_decimal(size)))
    return std::string{"column Size "} + fault;
  if (auto const* fault = set(read.stream, parse_pointer(stream)))
    return std::string{"column Stream "} + fault;
  if (read.pointer == 0 && read.size != 0 && read.kind == event_kind::allocate)
    return "the allocation has bytes and a null pointer";
  return {};
}

/// The entries of a name table whose names are numbers.
class numbered_names {
 public:
  enum class base { decimal, hexadecimal };
  numbered_names(name_table& names, base written) : names_{names}, base_{written} {}

  /// Number 0 is entry 0, which has no name.
  [[nodiscard]] std::uint32_t entry(std::uint64_t number) {
    if (number == 0) return 0;
    if (number == last_) return last_entry_;
    auto const [found, is_new] = entries_.try_emplace(number);
    if (is_new) {
      std::array<char, 24> name;
      std::snprintf(name.data(), name.size(), base_ == base::decimal ? "%llu" : "0x%llx",
                    static_cast<unsigned long long>(number));
      found->second = names_.number(name.data());
    }
    last_ = number;
    return last_entry_ = found->second;
  }

 private:
  name_table& names_;
  base base_;
  std::unordered_map<std::uint64_t, std::uint32_t> entries_;
  std::uint64_t last_ = 0;
  std::uint32_t last_entry_ = 0;
};

class rmm_log final : public line_reader {
 public:
  explicit rmm_log(std::unique_ptr<byte_source> source)
      : line_reader{std::move(source), "a line of RMM's log"} {}
  [[nodiscard]] format file_format() const override { return format::rmm; }

 private:
  [[nodiscard]] std::string read_line(std::string_view line) override {
    row read{};
    std::string reason = parse_row(line, read);
    if (reason.empty()) {
      std::uint64_t const time = time_of(read.time_of_day);
      if (read.pointer != 0 || read.kind == event_kind::fail) {
        add({.time = time,
             .address = read.kind == event_kind::fail ? 0 : read.pointer,
             .size = read.size,
             .thread = threads_.entry(read.thread),
             .stream = streams_.entry(read.stream),
             .kind = read.kind});
      }
    } else if (line == header) {
      is_new_log_ = has_rows_;
      return {};
    } else if (line.starts_with("Thread,")) {
      return "the columns are not " + std::string{header};
    }
    return reason;
  }

  [[nodiscard]] std::uint64_t time_of(std::uint64_t time_of_day) {
    // A step of more than 2 hours back is midnight. Daylight saving steps back by 1 hour.
    std::uint64_t const max_step_back = is_new_log_ ? 0 : 2 * hour;
    std::uint64_t time = midnight_ + time_of_day;
    if (has_rows_ && time + max_step_back < last_) {
      midnight_ += day;
      time += day;
    } else if (midnight_ != 0 && time >= last_ + day - minute && !is_new_log_) {
      time -= day;  // a thread that writes a row of the day before, just after midnight
    }
    has_rows_ = true;
    is_new_log_ = false;
    return last_ = time;
  }

  numbered_names threads_{names_.threads, numbered_names::base::decimal};
  numbered_names streams_{names_.streams, numbered_names::base::hexadecimal};
  std::uint64_t midnight_ = 0;  // of the last row's day
  std::uint64_t last_ = 0;      // time of the last row
  bool has_rows_ = false;
  bool is_new_log_ = false;  // the row follows a second header
};

}  // namespace

std::unique_ptr<reader> open_rmm_log(std::unique_ptr<byte_source> source) {
  return std::make_unique<rmm_log>(std::move(source));
}

bool looks_like_rmm_log(std::span<unsigned char const> first_bytes) {
  return any_line(first_bytes, [](std::string_view line) {
    row ignored{};
    return line.ends_with(header) || parse_row(line, ignored).empty();
  });
}

}  // namespace quarry::inline QUARRY_ABI::trace
