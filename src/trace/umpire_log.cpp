// SPDX-License-Identifier: Apache-2.0
#include "trace/umpire_log.hpp"

#include "trace/line_reader.hpp"
#include "trace/parse_number.hpp"
#include "trace/umpire_adaptors.hpp"
#include "trace/umpire_line.hpp"
#include "trace/umpire_replay_lines.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Operations that allocate and free nothing, or whose allocations have lines of their own.
constexpr std::array<std::string_view, 14> operations_without_events{
    "memset",
    "copy",
    "move",
    "prefetch",
    "set_default_allocator",
    "release",
    "coalesce",
    "advise",
    "register_external_allocation",
    "deregister_external_allocation",
    "map",
    "unmap",
    "reset",
    "destroy_allocator"};

/// Reads a member as a number. Returns the reason if this fails.
std::string read_number(json_value const& value, char const* name, std::uint64_t& number) {
  if (value.kind == json_value::type::absent) return std::string{name} + " is missing";
  if (value.kind != json_value::type::number) return std::string{name} + " is not a number";
  parsed_number const parsed = parse_decimal(value.text);
  number = parsed.value;
  return parsed.fault == nullptr ? std::string{} : std::string{name} + ' ' + parsed.fault;
}

/// Reads a member as a pointer. Returns the reason if this fails.
std::string read_pointer(json_value const& value, char const* name, std::uint64_t& pointer) {
  if (value.kind == json_value::type::absent) return std::string{name} + " is missing";
  if (!value.is_string()) return std::string{name} + " is not a string";
  parsed_number const parsed = parse_pointer(value.text);
  pointer = parsed.value;
  return parsed.fault == nullptr ? std::string{} : std::string{name} + ' ' + parsed.fault;
}

class umpire_log final : public line_reader {
 public:
  explicit umpire_log(std::unique_ptr<byte_source> source)
      : line_reader{std::move(source), "a line of Umpire's log"} {}
  [[nodiscard]] format file_format() const override { return format::umpire; }

 private:
  using allocator_ref = std::uint64_t;
  static constexpr int max_allocators = 32;  // a damaged log can make a ring of allocators
  static constexpr std::uint64_t max_padding = 1 << 30;

  struct allocator {
    std::uint32_t number = 0;    // in the name table
    allocator_ref upstream = 0;  // the allocator that it was made over; 0: unknown, or none
    bool is_upstream = false;    // a pool was made over it
    std::string adaptor = {};    // the name, if it only passes calls to `upstream`
    bytes padding = 0;           // bytes that the adaptor adds to each allocation
  };
  /// A `reallocate` between its two lines.
  struct reallocation {
    std::uint64_t old_pointer = 0, size = 0;
    std::uint64_t new_pointer = 0;  // of a line `allocate` between the two
    bool is_old_freed = false;      // by a line `deallocate` between the two
  };
  struct reserved_block {
    allocator_ref upstream;
    bytes size;
  };
  /// An allocation of an allocator that has pools: perhaps a pool's block.
  struct undecided {
    event allocation;
    allocator_ref upstream;
    bool follows_unreserve;
  };

  [[nodiscard]] std::string read_line(std::string_view line) override {
    umpire_line parsed;
    std::string reason = parse_umpire_line(line, parsed);
    if (!reason.empty()) return reason;
    if (parsed.is_second_header) return read_header(parsed);
    if (parsed.operation.is_string()) {
      if (!is_known_schema_) return "the line is of an unknown schema";
      std::optional<event> happened;
      reason = replay_lines_.read(parsed, happened);
      if (happened) add(*happened);
      return reason;
    }
    if (!parsed.category.is_string()) {
      return parsed.is_of_old_format ? "the format of Umpire before 2022.10 is not supported"
                                     : "the object has no member 'category' that is a string";
    }
    if (!parsed.name.is_string()) return "the object has no member 'name' that is a string";
    bool const is_phase = parsed.category.text == "metadata" && parsed.name.text == "event";
    if (parsed.category.text != "operation" && !is_phase) return {};
    reason = read_number(parsed.timestamp, "timestamp", time_);
    if (!reason.empty()) return reason;
    return is_phase ? read_phase(parsed) : read_operation(parsed);
  }

  /// Lines of an unknown schema are not read: their members may mean other things.
  [[nodiscard]] std::string read_header(umpire_line const& line) {
    is_known_schema_ = line.schema.is_string() && line.schema.text == "v2";
    if (is_known_schema_) return {};
    std::string const name = line.schema.is_string() ? '\'' + line.schema.decoded() + '\'' : "";
    return "the schema " + name + (name.empty() ? "is missing" : " is unknown") +
           "; this program reads 'v2' of Umpire's replay";
  }

  [[nodiscard]] std::string read_phase(umpire_line const& line) {
    if (!line.event_name.is_string()) return "string_args.name is missing";
    event phase = event_of({}, event_kind::phase);
    phase.call_site = names_.call_sites.number(line.event_name.decoded());
    emit(phase);
    return {};
  }

  [[nodiscard]] std::string read_operation(umpire_line const& line) {
    std::string_view const name = line.name.text;
    bool const is_allocation =
        name == "allocate" || name == "named_allocate" || name == "allocate_resource";
    bool const is_deallocation = name == "deallocate" || name == "deallocate_resource";
    bool const is_reallocation = name == "reallocate";
    bool const is_maker = name.starts_with("make_");
    if (!is_allocation && !is_deallocation && !is_reallocation && !is_maker) {
      bool const is_known =
          std::find(operations_without_events.begin(), operations_without_events.end(), name) !=
          operations_without_events.end();
      return is_known ? "" : "the operation is unknown";
    }
    allocator_ref ref = 0;
    std::string reason = read_pointer(line.allocator_ref, "allocator_ref", ref);
    if (!reason.empty()) return reason;
    if (is_maker) return read_maker(line, ref);
    ref = find_served(ref);
    if (is_allocation) return read_allocation(line, ref);
    if (is_deallocation) return read_deallocation(line, ref);
    return read_reallocation(line, ref);
  }

  [[nodiscard]] std::string read_maker(umpire_line const& line, allocator_ref ref) {
    if (!line.allocator_name.is_string()) return "tags.allocator_name is missing";
    std::string const name = line.allocator_name.decoded();
    bool const is_adaptor = line.type.is_string() && is_umpire_adaptor(line.type.text);
    auto const below =
        line.first_argument.is_string() ? refs_.find(line.first_argument.decoded()) : refs_.end();
    bool const has_upstream = below != refs_.end() && below->second != ref;
    allocator_ref const upstream = has_upstream ? below->second : 0;
    refs_[name] = ref;
    allocator& made = allocators_[ref];
    made = {.upstream = upstream};
    if (is_adaptor && has_upstream) {
      made.adaptor = name;
      if (line.type.text.find("AlignedAllocator") != std::string_view::npos)
        made.padding = padding_of(line);
      return {};
    }
    made.number = names_.allocators.number(name);
    // does not move `made`: a map of nodes
    if (has_upstream) allocators_[served_by(upstream)].is_upstream = true;
    return {};
  }
  /// What an AlignedAllocator adds to each allocation (Umpire's AlignedAllocator.cpp).
  [[nodiscard]] static bytes padding_of(umpire_line const& line) {
    std::uint64_t alignment = 0;
    constexpr std::uint64_t default_alignment = 16;
    if (!read_number(line.alignment, "arg1", alignment).empty()) alignment = default_alignment;
    return alignment == 0 || alignment > max_padding ? 0 : sizeof(void*) + alignment - 1;
  }

  /// The allocator that serves the calls of `ref`: itself, or what the adaptor stands over.
  [[nodiscard]] allocator_ref served_by(allocator_ref ref) const {
    for (int i = 0; i < max_allocators; ++i) {
      auto const found = allocators_.find(ref);
      if (found == allocators_.end() || found->second.adaptor.empty()) return ref;
      ref = found->second.upstream;
    }
    return ref;
  }
  /// The same. Keeps the names and the padding of the adaptors for the events of this line.
  [[nodiscard]] allocator_ref find_served(allocator_ref ref) {
    adaptors_.clear();
    padding_ = 0;
    for (int i = 0; i < max_allocators; ++i) {
      auto const found = allocators_.find(ref);
      if (found == allocators_.end() || found->second.adaptor.empty()) return ref;
      adaptors_ += (adaptors_.empty() ? "" : " < ") + found->second.adaptor;
      padding_ += found->second.padding;
      ref = found->second.upstream;
    }
    return ref;
  }

  [[nodiscard]] std::string read_allocation(umpire_line const& line, allocator_ref ref) {
    std::uint64_t pointer = 0, size = 0;
    std::string reason = read_number(line.size, "size", size);
    if (reason.empty()) reason = read_pointer(line.pointer, "pointer", pointer);
    if (!reason.empty()) return reason;
    if (pointer == 0) return size == 0 ? "" : "the allocation has bytes and a null pointer";
    event allocated = event_of(line, event_kind::allocate, ref);
    allocated.address = pointer;
    allocated.size = padded(size);
    allocated.call_site = call_site_of(line);
    if (auto const found = reallocations_.find(ref);
        found != reallocations_.end() && found->second.size == size) {
      found->second.new_pointer = pointer;
    }
    if (is_through_adaptor() && is_served(allocated)) {
      forwarded_.insert(pointer);
      return {};
    }
    bool const follows_unreserve = unreserved_ == ref;
    if (undecided_ && is_in_undecided(allocated, ref)) reserve_undecided();
    decide();
    if (allocators_[ref].is_upstream)
      undecided_ = {allocated, ref, follows_unreserve};
    else
      emit(allocated);
    return {};
  }

  [[nodiscard]] std::string read_deallocation(umpire_line const& line, allocator_ref ref) {
    std::uint64_t pointer = 0;
    std::string reason = read_pointer(line.pointer, "pointer", pointer);
    if (!reason.empty() || pointer == 0) return reason;
    if (is_through_adaptor() && forwarded_.erase(pointer) != 0) return {};
    decide();
    event freed = event_of(line, event_kind::deallocate, ref);
    freed.address = pointer;
    if (auto const found = reallocations_.find(ref);
        found != reallocations_.end() && found->second.old_pointer == pointer) {
      found->second.is_old_freed = true;
    }
    auto const block = reserved_.find(pointer);
    bool const is_reserved = block != reserved_.end() && block->second.upstream == ref;
    if (is_reserved) {
      freed.kind = event_kind::unreserve;
      freed.size = block->second.size;
      reserved_.erase(block);
    }
    emit(freed);
    if (is_reserved) unreserved_ = ref;
    return {};
  }

  [[nodiscard]] std::string read_reallocation(umpire_line const& line, allocator_ref ref) {
    std::uint64_t pointer = 0;
    if (line.new_ptr.kind == json_value::type::absent) {  // the first of two lines
      std::uint64_t size = 0;
      std::string reason = read_number(line.size, "size", size);
      if (reason.empty()) reason = read_pointer(line.current_ptr, "current_ptr", pointer);
      if (reason.empty()) reallocations_[ref] = {.old_pointer = pointer, .size = size};
      return reason;
    }
    std::string reason = read_pointer(line.new_ptr, "new_ptr", pointer);
    if (!reason.empty()) return reason;
    auto const found = reallocations_.find(ref);
    if (found == reallocations_.end()) return "no line 'reallocate' with current_ptr precedes";
    reallocation const done = found->second;
    reallocations_.erase(found);
    event allocated = event_of(line, event_kind::allocate, ref);
    allocated.address = pointer;
    allocated.size = padded(done.size);
    allocated.call_site = call_site_of(line);
    event freed = event_of(line, event_kind::deallocate, ref);
    freed.address = done.old_pointer;
    bool const must_allocate = pointer != 0 && done.new_pointer != pointer;
    bool const must_free = done.old_pointer != 0 && !done.is_old_freed;
    bool const is_moved = pointer != done.old_pointer;
    if (must_allocate && is_moved) emit(allocated);
    if (must_free) emit(freed);
    if (must_allocate && !is_moved) emit(allocated);
    return {};
  }

  /// An event of this line's time, allocator and stream.
  [[nodiscard]] event event_of(umpire_line const& line, event_kind kind, allocator_ref ref = 0) {
    event result{.time = time_, .kind = kind};
    if (ref != 0) {
      auto const [found, is_new] = allocators_.try_emplace(ref);
      // The line that made the allocator is not in the log. Its address must do as its name.
      if (is_new) {
        found->second.number = names_.allocators.number(line.allocator_name.is_string()
                                                            ? line.allocator_name.decoded()
                                                            : line.allocator_ref.decoded());
      }
      result.allocator = found->second.number;
    }
    if (line.resource.is_string()) result.stream = names_.streams.number(line.resource.decoded());
    return result;
  }

  /// The name of the allocation and the names of the adaptors, the innermost first.
  [[nodiscard]] std::uint32_t call_site_of(umpire_line const& line) {
    if (!line.allocation_name.is_string()) return names_.call_sites.number(adaptors_);
    std::string name = line.allocation_name.decoded();
    if (is_through_adaptor()) name += " < " + adaptors_;
    return names_.call_sites.number(name);
  }
  [[nodiscard]] bool is_through_adaptor() const { return !adaptors_.empty(); }
  [[nodiscard]] bytes padded(bytes size) const {
    return size == 0 || size > ~padding_ ? size : size + padding_;
  }
  /// Whether the last event was the allocation in which an adaptor's allocation lies. The second
  /// interface of 2026 writes both.
  [[nodiscard]] bool is_served(event const& allocated) const {
    event const& last = undecided_ ? undecided_->allocation : last_event_;
    return last.kind == event_kind::allocate && last.allocator == allocated.allocator &&
           last.size != 0 && allocated.address - last.address < last.size;
  }

  void emit(event const& decided) {
    decide();
    unreserved_ = 0;
    last_event_ = decided;
    add(decided);
  }

  /// Whether the undecided allocation contains `inner`, whose allocator was made over the other's.
  [[nodiscard]] bool is_in_undecided(event const& inner, allocator_ref ref) const {
    event const& outer = undecided_->allocation;
    if (inner.address < outer.address || inner.size > outer.size ||
        inner.address - outer.address > outer.size - inner.size) {
      return false;
    }
    for (int i = 0; i < max_allocators; ++i) {
      auto const found = allocators_.find(ref);
      if (found == allocators_.end() || found->second.upstream == 0) return false;
      ref = found->second.upstream;
      if (ref == undecided_->upstream) return true;
    }
    return false;
  }

  void reserve_undecided() {
    event reserved = undecided_->allocation;
    reserved.kind = event_kind::reserve;
    reserved_[reserved.address] = {undecided_->upstream, reserved.size};
    undecided_.reset();
    emit(reserved);
  }

  void decide() {
    if (!undecided_) return;
    if (undecided_->follows_unreserve) return reserve_undecided();
    event const allocation = undecided_->allocation;
    undecided_.reset();
    emit(allocation);
  }

  void read_end() override { decide(); }

  std::unordered_map<allocator_ref, allocator> allocators_;
  std::unordered_map<std::string, allocator_ref> refs_;  // by name
  std::unordered_map<allocator_ref, reallocation> reallocations_;
  std::unordered_map<std::uint64_t, reserved_block> reserved_;  // by address
  std::optional<undecided> undecided_;
  allocator_ref unreserved_ = 0;  // the last event returned a reserved block of this allocator
  event last_event_{};            // that was added
  std::unordered_set<std::uint64_t> forwarded_;  // addresses of adaptors whose upstream has a line
  std::string adaptors_;  // names of the adaptors that the present line's call passes
  bytes padding_ = 0;     // bytes that these add to an allocation
  std::uint64_t time_ = 0;
  bool is_known_schema_ = true;
  umpire_replay_lines replay_lines_{names_.allocators};  // of the second schema
};

}  // namespace

std::unique_ptr<reader> open_umpire_log(std::unique_ptr<byte_source> source) {
  return std::make_unique<umpire_log>(std::move(source));
}

bool looks_like_umpire_log(std::span<unsigned char const> first_bytes) {
  return any_line(first_bytes, [](std::string_view line) {
    umpire_line parsed;
    return parse_umpire_line(line, parsed).empty() &&
           (parsed.category.is_string() || parsed.is_of_old_format || parsed.is_second_header ||
            (parsed.operation.is_string() && parsed.status.is_string()));
  });
}

}  // namespace quarry::inline QUARRY_ABI::trace
