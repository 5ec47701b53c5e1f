// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"
#include "trace/parse_number.hpp"
#include "trace/umpire_line.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace quarry::inline QUARRY_ABI::trace {

/// Reads the lines of the second schema of Umpire's replay (`"schema":"v2"`).
///
/// An operation has a line with the status `pending` before it, and one with `committed` after it
/// if it succeeded. The schema has no addresses and no times: an allocation's address is its
/// number, and an event's time is the number of events before it.
///
/// A pool calls its resource between the two lines of its own operation. So an allocation becomes
/// `reserve`, and its deallocation `unreserve`, if its first line lies directly between the two
/// lines of an operation of an allocator that was made over its own. If another thread calls the
/// resource at such a moment, its call is mistaken for one of the pool.
///
/// Memory: proportional to the allocators and the blocks reserved at one time.
class umpire_replay_lines {
 public:
  explicit umpire_replay_lines(name_table& allocators) : names_{allocators} {}

  /// Reads a line that has the member `op`. Sets `happened` if the line completes an event. Returns
  /// the reason if the line cannot be read, and else an empty text.
  [[nodiscard]] std::string read(umpire_line const& line, std::optional<event>& happened) {
    if (!line.status.is_string()) return "the object has no member 'status' that is a string";
    bool const is_committed = line.status.text == "committed";
    if (!is_committed && line.status.text != "pending") return "the status is unknown";
    bool const is_maker = line.operation.text == "make_allocator";
    bool const is_allocation = line.operation.text == "allocate";
    if (!is_maker && !is_allocation && line.operation.text != "deallocate")
      return "the operation is unknown";
    std::uint64_t allocator_id = 0, allocation_id = 0, number = 0, size = 0;
    std::string reason = read_id(line.allocator_id, 'a', "allocator_id", allocator_id);
    if (!reason.empty()) return reason;
    if (is_maker) return is_committed ? add_allocator(line, allocator_id) : std::string{};
    reason = read_id(line.allocation_id, 'm', "allocation_id", allocation_id);
    if (reason.empty()) reason = read_count(line.sequence, "seq", number);
    if (reason.empty() && is_allocation) reason = read_count(line.replayed_size, "size", size);
    if (!reason.empty()) return reason;
    if (!is_committed) begin(number, allocator_id);
    bool const is_inside = is_committed ? end(number) : false;
    if (is_allocation && is_committed) {
      event allocated = event_of(allocator_id, allocation_id, event_kind::allocate);
      allocated.size = size;
      if (is_inside) {
        allocated.kind = event_kind::reserve;
        reserved_[allocation_id] = size;
      }
      happened = allocated;
    } else if (!is_allocation && !is_committed) {  // as in the log: before the memory is free
      event freed = event_of(allocator_id, allocation_id, event_kind::deallocate);
      if (auto const found = reserved_.find(allocation_id); found != reserved_.end()) {
        freed.kind = event_kind::unreserve;
        freed.size = found->second;
        reserved_.erase(found);
      }
      happened = freed;
    }
    return {};
  }

 private:
  struct allocator {
    std::uint32_t number = 0;    // in the name table
    std::uint64_t upstream = 0;  // the allocator that it was made over; 0: none
  };
  /// An operation between its two lines.
  struct operation {
    std::uint64_t allocator_id = 0;
    std::uint64_t outer = 0;  // the number of the operation that this one lies in; 0: none
  };

  [[nodiscard]] static std::string read_count(json_value const& value, char const* name,
                                              std::uint64_t& count) {
    if (value.kind == json_value::type::absent) return std::string{name} + " is missing";
    if (value.kind != json_value::type::number) return std::string{name} + " is not a number";
    parsed_number const parsed = parse_decimal(value.text);
    count = parsed.value;
    return parsed.fault == nullptr ? std::string{} : std::string{name} + ' ' + parsed.fault;
  }
  /// Reads a letter and a number, such as `a12`.
  [[nodiscard]] static std::string read_id(json_value const& value, char letter, char const* name,
                                           std::uint64_t& id) {
    if (!value.is_string()) return std::string{name} + " is missing";
    if (value.text.empty() || value.text.front() != letter)
      return std::string{name} + " does not begin with '" + letter + '\'';
    parsed_number const parsed = parse_decimal(value.text.substr(1));
    id = parsed.value;
    return parsed.fault == nullptr ? std::string{} : std::string{name} + ' ' + parsed.fault;
  }

  [[nodiscard]] std::string add_allocator(umpire_line const& line, std::uint64_t id) {
    if (!line.name.is_string()) return "name is missing";
    std::uint64_t upstream = 0;
    if (line.parent_allocator.is_string()) {
      std::string reason = read_id(line.parent_allocator, 'a', "parent_allocator", upstream);
      if (!reason.empty()) return reason;
    }
    allocators_[id] = {.number = names_.number(line.name.decoded()), .upstream = upstream};
    return {};
  }

  /// The first line of an operation.
  void begin(std::uint64_t number, std::uint64_t allocator_id) {
    constexpr std::size_t max_operations = 4096;  // operations that fail have no second line
    if (operations_.size() == max_operations) operations_.erase(operations_.begin());
    auto const current = operations_.find(current_operation_);
    bool const is_inside =
        current != operations_.end() && is_made_over(current->second.allocator_id, allocator_id);
    operations_[number] = {allocator_id, is_inside ? current_operation_ : 0};
    current_operation_ = number;
  }
  /// The second line. Returns whether the operation lies in another one.
  [[nodiscard]] bool end(std::uint64_t number) {
    auto const found = operations_.find(number);
    current_operation_ = found == operations_.end() ? 0 : found->second.outer;
    if (found != operations_.end()) operations_.erase(found);
    return current_operation_ != 0;
  }

  /// Whether the allocator `derived` was made over `id`, directly or through others.
  [[nodiscard]] bool is_made_over(std::uint64_t derived, std::uint64_t id) const {
    constexpr int max_allocators = 32;  // a damaged log can make a ring of allocators
    for (int i = 0; i < max_allocators; ++i) {
      auto const found = allocators_.find(derived);
      if (found == allocators_.end() || found->second.upstream == 0) return false;
      derived = found->second.upstream;
      if (derived == id) return true;
    }
    return false;
  }

  [[nodiscard]] event event_of(std::uint64_t allocator_id, std::uint64_t id, event_kind kind) {
    auto const [found, is_new] = allocators_.try_emplace(allocator_id);
    if (is_new) found->second.number = names_.number('a' + std::to_string(allocator_id));
    return {.time = time_++, .address = id, .allocator = found->second.number, .kind = kind};
  }

  name_table& names_;
  std::unordered_map<std::uint64_t, allocator> allocators_;    // by id
  std::map<std::uint64_t, operation> operations_;              // by number
  std::unordered_map<std::uint64_t, std::uint64_t> reserved_;  // size by allocation
  std::uint64_t current_operation_ = 0;  // the operation that the next line may lie in; 0: none
  std::uint64_t time_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
