// SPDX-License-Identifier: Apache-2.0
// Shared by the pool targets: resources that log their blocks and fail on purpose, and a model of a
// pool's allocations.
#pragma once

#include "fuzz/byte_source.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/host/pools/heuristic.hpp"
#include "quarry/host/resources/resource.hpp"

#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quarry::test {

inline constexpr int max_steps = 1500;

inline std::uint64_t number_of(void const* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}
inline void* pointer_to(std::uint64_t number) { return reinterpret_cast<void*>(number); }
inline bytes granted_up(bytes size, bytes alignment) {
  return std::max(alignment, (size + alignment - 1) & ~(alignment - 1));
}

/// Makes requests fail on purpose, with either exception that a resource may throw.
struct failures {
  unsigned remaining = 0;
  bool happened = false;

  void maybe_throw(bytes size) {
    if (remaining == 0) return;
    happened = true;
    if (--remaining % 2 == 0) throw resource_failed{"fuzz", "on purpose"};
    throw out_of_memory{"fuzz", size, "on purpose"};
  }
};

/// The blocks that a pool has allocated from its resource.
struct block_log {
  struct block {
    bytes size, alignment;
  };
  std::map<std::uint64_t, block> blocks;
  bytes reserved = 0;
  failures fails;
  std::function<void(std::uint64_t, bytes)> on_return = [](std::uint64_t, bytes) {};

  [[nodiscard]] bool has(std::uint64_t base, bytes size) const {
    auto const next = blocks.upper_bound(base);
    if (next == blocks.begin()) return false;
    auto const& [start, found] = *std::prev(next);
    return base - start <= found.size && size <= found.size - (base - start);
  }
};

/// A resource that logs its blocks. All copies share the log.
template <class Upstream>
class logged : public Upstream {
 public:
  logged(Upstream input, std::shared_ptr<block_log> log)
      : Upstream{std::move(input)}, log_{std::move(log)} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    log_->fails.maybe_throw(size);
    void* const result = Upstream::allocate(size, alignment);
    expect(log_->blocks.emplace(number_of(result), block_log::block{size, alignment}).second,
           "a block was allocated twice");
    log_->reserved += size;
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    auto const found = log_->blocks.find(number_of(pointer));
    expect(found != log_->blocks.end(), "an address is returned that is not a block");
    expect(found->second.size == size && found->second.alignment == alignment,
           "a block is returned with another size or alignment");
    log_->on_return(found->first, size);
    log_->blocks.erase(found);
    log_->reserved -= size;
    Upstream::deallocate(pointer, size, alignment);
  }

 private:
  std::shared_ptr<block_log> log_;
};

/// The allocations of a pool's users.
struct model {
  struct allocation {
    bytes size;
    std::uint8_t fill = 0;
    std::optional<std::string> name = {};
    std::uint32_t stream = 0;
  };
  bytes alignment = 16;
  std::map<std::uint64_t, allocation> allocated;
  std::vector<std::uint64_t> freed;  // base addresses
  bytes sum = 0, maximum = 0, granted = 0;
  std::uint64_t invalid_frees = 0, allocations = 0, deallocations = 0;

  [[nodiscard]] bytes room(allocation const& entry) const {
    return granted_up(entry.size, alignment);
  }

  void add(std::uint64_t base, allocation added) {
    expect(base != 0 && base % alignment == 0, "an allocation is not aligned");
    auto const next = allocated.lower_bound(base);
    expect(next == allocated.end() || room(added) <= next->first - base,
           "an allocation overlaps the next allocation");
    expect(
        next == allocated.begin() || room(std::prev(next)->second) <= base - std::prev(next)->first,
        "an allocation overlaps the previous allocation");
    sum += added.size;
    maximum = std::max(maximum, sum);
    granted += room(added);
    ++allocations;
    allocated.emplace_hint(next, base, std::move(added));
  }
  /// Removes an allocation. Returns whether a pool must accept this free; counts both cases.
  bool remove(std::uint64_t base) {
    if (base == 0) return true;
    auto const found = allocated.find(base);
    if (found == allocated.end()) {
      ++invalid_frees;
      return false;
    }
    sum -= found->second.size;
    granted -= room(found->second);
    ++deallocations;
    freed.push_back(base);
    allocated.erase(found);
    return true;
  }
  /// The allocation that contains `address`.
  [[nodiscard]] std::map<std::uint64_t, allocation>::const_iterator allocation_at(
      std::uint64_t address) const {
    auto const next = allocated.upper_bound(address);
    if (next == allocated.begin()) return allocated.end();
    auto const found = std::prev(next);
    return address - found->first < std::max<bytes>(1, found->second.size) ? found
                                                                           : allocated.end();
  }

  /// An address: mostly of an allocation; otherwise a freed address, an interior pointer, an
  /// address behind an allocation, or any number.
  [[nodiscard]] std::uint64_t some_address(byte_source& input) const {
    std::uint8_t const kind = input.u8() % 16;
    if (kind == 0 && !freed.empty())
      return freed[freed.size() - 1 - input.index(std::min<std::size_t>(freed.size(), 64))];
    if (kind == 1) return input.u64();
    if (kind == 2) return input.u16();
    if (allocated.empty()) return freed.empty() ? 0 : freed.back();
    auto const& [base, found] =
        *std::next(allocated.begin(), static_cast<std::ptrdiff_t>(input.index(allocated.size())));
    if (kind == 3) return base + input.range(0, room(found) - 1);
    if (kind == 4) return base + (input.chance(128) ? found.size : room(found));
    return base;
  }
};

/// Checks the counts that all pools have.
template <class Counts>
void expect_counts(Counts const& counts, model const& users, bytes maximum) {
  expect(counts.allocated == users.sum && counts.peak_allocated == users.maximum,
         "the count of allocated bytes is wrong");
  expect(counts.allocations_in_use == users.allocated.size(),
         "the count of allocated chunks is wrong");
  expect(counts.invalid_frees == users.invalid_frees, "the count of invalid frees is wrong");
  expect(counts.reserved <= maximum && counts.peak_reserved <= maximum &&
             counts.reserved <= counts.peak_reserved,
         "the reserved bytes exceed the limit or the peak");
  expect(counts.reserved >= users.granted, "the reserved bytes are less than the granted bytes");
}
template <class Pool>
void expect_sound(Pool const& pool) {
  auto const problems = pool.audit();
  expect(problems.empty(), problems.empty() ? "" : problems[0].c_str());
}

inline bool is_alignment(bytes number) {
  return number >= 16 && number <= 1 << 14 && (number & (number - 1)) == 0;
}
inline bytes some_alignment(byte_source& input) {
  std::uint8_t const kind = input.u8();
  return kind < 128 ? 16 : kind < 250 ? bytes{16} << kind % 11 : input.wild_size(1 << 16);
}
inline bytes some_maximum(byte_source& input, bytes usual) {
  return input.chance(96) ? ~bytes{0} : input.wild_size(usual);
}
inline heuristic some_heuristic(byte_source& input) {
  heuristic result;
  result.condition = static_cast<heuristic::trigger>(input.u8() % 3);
  result.size = static_cast<heuristic::target>(input.u8() % 2);
  result.checked_at = static_cast<heuristic::moment>(input.u8() % 2);
  result.parameter = static_cast<std::uint32_t>(
      result.condition == heuristic::trigger::blocks ? input.range(0, 6) : input.range(0, 100));
  return result;
}
/// For pool_options and stream_pool_options.
template <class Options>
bool is_valid(Options const& options) {
  return is_alignment(options.alignment) && options.first_block <= max_bytes_at_once &&
         options.next_block <= max_bytes_at_once && options.growth_percent <= 1000;
}
template <class Options>
Options some_options(byte_source& input, bytes usual_block) {
  Options options;
  options.alignment = some_alignment(input);
  options.first_block = input.wild_size(usual_block);
  options.next_block = input.wild_size(usual_block / 4);
  options.growth_percent = input.chance(250) ? input.u8() : input.u32();
  options.max_bytes = some_maximum(input, usual_block * 8);
  return options;
}

}  // namespace quarry::test
