// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The kinds of events. Their numbers are those of the file format (docs/format/trace.md).
enum class event_kind : std::uint8_t {
  allocate = 0,    ///< an allocation succeeded
  deallocate = 1,  ///< an allocation was freed
  fail = 2,        ///< an allocation failed
  reserve = 3,     ///< the recorded allocator took a block from its upstream
  unreserve = 4,   ///< the recorded allocator returned a block to its upstream
  wait = 5,        ///< `stream` waits for the present work of the stream whose number is `size`
  phase = 6,       ///< a phase of the program begins; `call_site` is its name
};
inline constexpr std::uint8_t event_kinds = 7;

/// One event of a trace. `thread`, `stream`, `allocator` and `call_site` are numbers of entries in
/// the trace's `name_tables`. Number 0 means unknown, or the default stream.
struct event {
  std::uint64_t time = 0;  ///< nanoseconds since an epoch that the trace's writer chose
  std::uint64_t address = 0;
  bytes size = 0;  ///< requested bytes
  /// Bytes after rounding, or 0 if unknown. For `fail`: the bytes that were free, or 0 if unknown
  bytes granted = 0;
  std::uint32_t thread = 0;
  std::uint32_t stream = 0;
  std::uint32_t allocator = 0;
  std::uint32_t call_site = 0;
  event_kind kind = event_kind::allocate;

  friend bool operator==(event const&, event const&) = default;
};

/// Returns the text with `\xNN` for each byte that is not part of UTF-8. O(length).
[[nodiscard]] QUARRY_API std::string as_utf8(std::string_view text);

/// The names of one kind of entries. Entry 0 is the empty name. `add` converts names to UTF-8
/// (`as_utf8`), because Python, Arrow and JSON accept only UTF-8. `number` finds a name by the
/// bytes that were added.
class name_table {
 public:
  /// The number of `name`. Adds the name if it is new.
  std::uint32_t number(std::string_view name) {
    auto const found = numbers_.find(name);
    return found != numbers_.end() ? found->second : add(name);
  }
  /// Adds an entry, even if another entry has this name. Returns the entry's number.
  std::uint32_t add(std::string_view name) {
    auto const result = static_cast<std::uint32_t>(names_.size());
    names_.push_back(as_utf8(name));
    numbers_.emplace(std::string{name}, result);
    return result;
  }
  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }
  [[nodiscard]] std::string const& name(std::uint32_t number) const { return names_.at(number); }
  [[nodiscard]] std::size_t size() const { return names_.size(); }

 private:
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t, hash, std::equal_to<>> numbers_{{"", 0}};
};

/// The names that the events of a trace refer to.
struct name_tables {
  name_table call_sites, allocators, threads, streams;
};

}  // namespace quarry::inline QUARRY_ABI::trace
