// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"
#include "trace/parse_number.hpp"
#include "trace/umpire_adaptors.hpp"
#include "trace/umpire_line.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

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
/// An adaptor passes its calls to the allocator below. If the call below has lines of its own,
/// these count, and the adaptor's lines do not. If not, the adaptor's allocation is one of the
/// allocator below.
///
/// Memory: proportional to the allocators, and to the blocks and the allocations of adaptors in use
/// at one time.
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
    operation const done = is_committed ? end(number) : operation{};
    if (is_allocation && is_committed) {
      if (done.has_call_below) {
        forwarded_.insert(allocation_id);
        return {};
      }
      event allocated = event_of(allocator_id, allocation_id, event_kind::allocate);
      allocated.size = size;
      if (done.is_in_pool) {
        allocated.kind = event_kind::reserve;
        reserved_[allocation_id] = size;
      }
      happened = allocated;
    } else if (!is_allocation && !is_committed) {  // as in the log: before the memory is free
      if (is_adaptor(allocator_id) && forwarded_.erase(allocation_id) != 0) return {};
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
  static constexpr int max_allocators = 32;  // a damaged log can make a ring of allocators

  struct allocator {
    std::uint32_t number = 0;    // in the name table
    std::uint64_t upstream = 0;  // the allocator that it was made over; 0: none
    bool is_adaptor = false;
  };
  /// An operation between its two lines.
  struct operation {
    std::uint64_t allocator_id = 0;
    std::uint64_t outer = 0;      // the number of the operation that this one lies in; 0: none
    bool is_in_pool = false;      // that operation is a pool's, or is itself in one of a pool
    bool has_call_below = false;  // of an adaptor: the call that it passes on has lines
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
    allocator& made = allocators_[id] = {.upstream = upstream};
    made.is_adaptor = upstream != 0 && line.type.is_string() && is_umpire_adaptor(line.type.text);
    if (!made.is_adaptor) made.number = names_.number(line.name.decoded());
    return {};
  }

  /// The first line of an operation.
  void begin(std::uint64_t number, std::uint64_t allocator_id) {
    constexpr std::size_t max_operations = 4096;  // operations that fail have no second line
    if (operations_.size() == max_operations) operations_.erase(operations_.begin());
    auto const current = operations_.find(current_operation_);
    bool const is_inside =
        current != operations_.end() && is_made_over(current->second.allocator_id, allocator_id);
    operation begun{.allocator_id = allocator_id};
    if (is_inside) {
      bool const is_passed_on = passes_calls_to(current->second.allocator_id, allocator_id);
      current->second.has_call_below |= is_passed_on;
      begun.outer = current_operation_;
      begun.is_in_pool = !is_passed_on || current->second.is_in_pool;
    }
    operations_[number] = begun;
    current_operation_ = number;
  }
  /// The second line.
  [[nodiscard]] operation end(std::uint64_t number) {
    auto const found = operations_.find(number);
    operation const ended = found == operations_.end() ? operation{} : found->second;
    current_operation_ = ended.outer;
    if (found != operations_.end()) operations_.erase(found);
    return ended;
  }

  [[nodiscard]] bool is_adaptor(std::uint64_t id) const {
    auto const found = allocators_.find(id);
    return found != allocators_.end() && found->second.is_adaptor;
  }
  /// The allocator that serves the calls of `id`: itself, or what the adaptor stands over.
  [[nodiscard]] std::uint64_t served_by(std::uint64_t id) const {
    for (int i = 0; i < max_allocators && is_adaptor(id); ++i) id = allocators_.at(id).upstream;
    return id;
  }
  /// Whether `id` is an adaptor, and only adaptors lie between it and the allocator `below`.
  [[nodiscard]] bool passes_calls_to(std::uint64_t id, std::uint64_t below) const {
    for (int i = 0; i < max_allocators && is_adaptor(id); ++i) {
      id = allocators_.at(id).upstream;
      if (id == below) return true;
    }
    return false;
  }
  /// Whether the allocator `derived` was made over `id`, directly or through others.
  [[nodiscard]] bool is_made_over(std::uint64_t derived, std::uint64_t id) const {
    for (int i = 0; i < max_allocators; ++i) {
      auto const found = allocators_.find(derived);
      if (found == allocators_.end() || found->second.upstream == 0) return false;
      derived = found->second.upstream;
      if (derived == id) return true;
    }
    return false;
  }

  [[nodiscard]] event event_of(std::uint64_t allocator_id, std::uint64_t id, event_kind kind) {
    allocator_id = served_by(allocator_id);
    auto const [found, is_new] = allocators_.try_emplace(allocator_id);
    if (is_new) found->second.number = names_.number('a' + std::to_string(allocator_id));
    return {.time = time_++, .address = id, .allocator = found->second.number, .kind = kind};
  }

  name_table& names_;
  std::unordered_map<std::uint64_t, allocator> allocators_;    // by id
  std::map<std::uint64_t, operation> operations_;              // by number
  std::unordered_map<std::uint64_t, std::uint64_t> reserved_;  // size by allocation
  std::unordered_set<std::uint64_t> forwarded_;  // allocations of adaptors that have a call below
  std::uint64_t current_operation_ = 0;  // the operation that the next line may lie in; 0: none
  std::uint64_t time_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
