// SPDX-License-Identifier: Apache-2.0
// What the pool targets share: resources that are watched and fail on purpose, and what the users
// of a pool have.
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

/// Makes requests fail on purpose, in either way that a resource may fail.
struct failures {
  unsigned left = 0;
  bool happened = false;

  void maybe_throw(bytes size) {
    if (left == 0) return;
    happened = true;
    if (--left % 2 == 0) throw resource_failed{"fuzz", "on purpose"};
    throw out_of_memory{"fuzz", size, "on purpose"};
  }
};

/// The blocks that a pool has of its resource.
struct block_log {
  struct block {
    bytes size, alignment;
  };
  std::map<std::uint64_t, block> blocks;
  bytes reserved = 0;
  failures fails;
  std::function<void(std::uint64_t, bytes)> on_give = [](std::uint64_t, bytes) {};

  [[nodiscard]] bool has(std::uint64_t base, bytes size) const {
    auto const after = blocks.upper_bound(base);
    if (after == blocks.begin()) return false;
    auto const& [start, what] = *std::prev(after);
    return base - start <= what.size && size <= what.size - (base - start);
  }
};

/// A resource that is watched, shared by all copies of the log.
template <class Upstream>
class logged : public Upstream {
 public:
  logged(Upstream input, std::shared_ptr<block_log> log)
      : Upstream{std::move(input)}, log_{std::move(log)} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    log_->fails.maybe_throw(size);
    void* const result = Upstream::allocate(size, alignment);
    expect(log_->blocks.emplace(number_of(result), block_log::block{size, alignment}).second,
           "a block was given twice");
    log_->reserved += size;
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    auto const found = log_->blocks.find(number_of(pointer));
    expect(found != log_->blocks.end(), "a block goes back that is none");
    expect(found->second.size == size && found->second.alignment == alignment,
           "a block goes back otherwise than it came");
    log_->on_give(found->first, size);
    log_->blocks.erase(found);
    log_->reserved -= size;
    Upstream::deallocate(pointer, size, alignment);
  }

 private:
  std::shared_ptr<block_log> log_;
};

/// What a pool's users have.
struct model {
  struct one {
    bytes size;
    std::uint8_t fill = 0;
    std::optional<std::string> name = {};
    std::uint32_t on = 0;  // stream
  };
  bytes alignment = 16;
  std::map<std::uint64_t, one> allocated;
  std::vector<std::uint64_t> ended;  // was live once
  bytes sum = 0, maximum = 0, granted = 0;
  std::uint64_t invalid_frees = 0, allocations = 0, deallocations = 0;

  [[nodiscard]] bytes room(one const& what) const { return granted_up(what.size, alignment); }

  void add(std::uint64_t base, one what) {
    expect(base != 0 && base % alignment == 0, "an allocation is not aligned");
    auto const next = allocated.lower_bound(base);
    expect(next == allocated.end() || room(what) <= next->first - base,
           "an allocation overlaps the next one");
    expect(
        next == allocated.begin() || room(std::prev(next)->second) <= base - std::prev(next)->first,
        "an allocation overlaps the one before");
    sum += what.size;
    maximum = std::max(maximum, sum);
    granted += room(what);
    ++allocations;
    allocated.emplace_hint(next, base, std::move(what));
  }
  /// Whether a pool has to take `base` back; counts either case.
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
    ended.push_back(base);
    allocated.erase(found);
    return true;
  }
  /// What `address` lies inside.
  [[nodiscard]] std::map<std::uint64_t, one>::const_iterator at(std::uint64_t address) const {
    auto const after = allocated.upper_bound(address);
    if (after == allocated.begin()) return allocated.end();
    auto const found = std::prev(after);
    return address - found->first < std::max<bytes>(1, found->second.size) ? found
                                                                           : allocated.end();
  }

  /// Mostly what is live; else what was, what lies inside or behind, or anything.
  [[nodiscard]] std::uint64_t some_address(byte_source& input) const {
    std::uint8_t const kind = input.u8() % 16;
    if (kind == 0 && !ended.empty())
      return ended[ended.size() - 1 - input.index(std::min<std::size_t>(ended.size(), 64))];
    if (kind == 1) return input.u64();
    if (kind == 2) return input.u16();
    if (allocated.empty()) return ended.empty() ? 0 : ended.back();
    auto const& [base, what] =
        *std::next(allocated.begin(), static_cast<std::ptrdiff_t>(input.index(allocated.size())));
    if (kind == 3) return base + input.range(0, room(what) - 1);
    if (kind == 4) return base + (input.chance(128) ? what.size : room(what));
    return base;
  }
};

/// What all counts have in common.
template <class Counts>
void expect_counts(Counts const& counts, model const& users, bytes maximum) {
  expect(counts.allocated == users.sum && counts.peak_allocated == users.maximum,
         "the bytes that are live are counted wrongly");
  expect(counts.chunks_allocated == users.allocated.size(),
         "the pieces that are live are counted wrongly");
  expect(counts.invalid_frees == users.invalid_frees, "refused deallocations are counted wrongly");
  expect(counts.reserved <= maximum && counts.peak_reserved <= maximum &&
             counts.reserved <= counts.peak_reserved,
         "it holds more than it may, or than it says");
  expect(counts.reserved >= users.granted, "it holds less than is in use");
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
inline bytes some_most(byte_source& input, bytes usual) {
  return input.chance(96) ? ~bytes{0} : input.wild_size(usual);
}
inline heuristic some_heuristic(byte_source& input) {
  heuristic result;
  result.when = static_cast<heuristic::trigger>(input.u8() % 3);
  result.size = static_cast<heuristic::target>(input.u8() % 2);
  result.checked_at = static_cast<heuristic::moment>(input.u8() % 2);
  result.rules = static_cast<heuristic_rules>(input.u8() % 3);
  result.parameter = static_cast<std::uint32_t>(
      result.when == heuristic::trigger::blocks ? input.range(0, 6) : input.range(0, 100));
  return result;
}
/// Of pool_options and stream_pool_options.
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
  options.max_bytes = some_most(input, usual_block * 8);
  return options;
}

}  // namespace quarry::test
