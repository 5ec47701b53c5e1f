// SPDX-License-Identifier: Apache-2.0
// The common part of `planned_pool` and `planned_stream_pool`.
#pragma once

#include "quarry/host/pools/plan_cursor.hpp"
#include "quarry/host/pools/planned_block.hpp"
#include "quarry/host/registry/memory_location.hpp"

#include <algorithm>
#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The counts of all planned pools. `allocations` = `planned` + `unplanned` + `occupied`.
template <class FallbackCounts>
struct planned_counts {
  bytes reserved = 0, peak_reserved = 0;    ///< bytes reserved from the resource
  bytes allocated = 0, peak_allocated = 0;  ///< requested bytes in use
  bytes granted = 0;      ///< bytes of the places and chunks that serve the requested bytes
  bytes peak_placed = 0;  ///< peak of the bytes of places in use
  std::uint64_t allocations = 0, deallocations = 0;
  std::size_t allocations_in_use = 0;
  std::uint64_t planned = 0;    ///< allocations that the plan served
  std::uint64_t unplanned = 0;  ///< allocations whose request was not the next request of the plan
  /// Allocations whose place is in use, is not aligned, or is not in the plan. In a pool with
  /// streams also: allocations whose place another stream freed without an event
  std::uint64_t occupied = 0;
  std::uint64_t jumps = 0;  ///< of the cursor, to another position of the plan
  std::uint64_t invalid_frees = 0;
  FallbackCounts fallback = {};
};

/// A plan's block, its cursor, and a fallback, which is a pool for all other requests.
///
/// The base class of the planned pools. The derived pool decides which callers may use a place, and
/// calls its fallback. Not thread-safe. In the registry the plan's block and the fallback are two
/// allocators. The fallback's name is the pool's name and " fallback". Places have no red zones.
template <memory_resource Resource, class Fallback>
class QUARRY_POISONS planned_memory {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  planned_memory(planned_memory const&) = delete;
  planned_memory& operator=(planned_memory const&) = delete;

  /// Continues at the first request of the plan's period, or of the plan if it has no period.
  /// Programs may call it when an iteration begins. Allocations in use stay valid.
  void restart() { cursor_.restart(); }

  /// Returns the requested bytes, or nullopt if `pointer` is not the base address of an allocation
  /// in use.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    return block_.contains(pointer) ? block_.size_of(pointer) : fallback_.size_of(pointer);
  }
  /// Labels an allocation for reports. Returns false if `pointer` is not allocated or the pool is
  /// not tracked.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) {
    return block_.contains(pointer) ? block_.label(pointer, {std::move(name), call_site})
                                    : fallback_.label(pointer, std::move(name), call_site);
  }
  /// The number of the plan's block in the registry, or 0 if the block is not tracked.
  /// `fallback_id` is the number of the fallback.
  [[nodiscard]] allocator_id id() const { return block_.id(); }
  [[nodiscard]] allocator_id fallback_id() const { return fallback_.id(); }
  /// Describes each violated invariant. Returns no texts if there are none.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = block_.audit();
    for (auto& problem : fallback_.audit()) problems.push_back(std::move(problem));
    return problems;
  }
  [[nodiscard]] Resource& resource() { return fallback_.resource(); }
  [[nodiscard]] memory_location location() { return location_of(fallback_.resource()); }

 protected:
  using base_counts = planned_counts<decltype(std::declval<Fallback const&>().counts())>;

  /// Checks the plan and the options, then constructs the fallback from `arguments` and its
  /// options. `pool`: the name in messages. `block_options`, `is_poisoned`: see `planned_block`.
  /// Throws `bad_argument` if the plan violates its invariants or an option is outside its range.
  /// Throws `out_of_memory` if the plan exceeds `max_bytes`, and what the resource throws.
  template <class Options, class... Arguments>
  planned_memory(char const* pool, plan const& served, Options const& options,
                 std::uint32_t lookahead, pool_options const& block_options, bool is_poisoned,
                 Arguments&&... arguments)
      : name_{pool},
        alignment_{served.alignment},
        cursor_{served, lookahead},
        fallback_{std::forward<Arguments>(arguments)..., fallback_options(name_, served, options)},
        block_{fallback_.resource(), served, block_options,
               is_poisoned && detail::is_poisoned(fallback_.resource())} {}
  ~planned_memory() = default;

  /// Allocates `size` bytes at a multiple of `alignment`. Uses the place of the plan if the request
  /// follows the plan, the bytes are free, and `may_use(offset, granted bytes)` is true. Otherwise
  /// returns `allocate_in_fallback()`. Throws `bad_argument` if `alignment` is not a power of two,
  /// std::bad_alloc, and what the fallback throws. O(log n) for n allocations of the plan.
  template <std::predicate<bytes, bytes> MayUse, std::invocable AllocateInFallback>
  [[nodiscard]] void* allocate_by_plan(bytes size, bytes alignment, MayUse const& may_use,
                                       AllocateInFallback const& allocate_in_fallback) {
    check_power_of_two(name_, alignment);
    std::uint64_t* count = &counts_.unplanned;
    if (size <= max_bytes_at_once) {
      bytes const granted = (std::max<bytes>(size, 1) + alignment_ - 1) & ~(alignment_ - 1);
      if (auto const number = cursor_.next(granted)) {
        auto const may_use_place = [&](bytes offset) { return may_use(offset, granted); };
        if (void* const place = block_.allocate(*number, granted, size, alignment, may_use_place)) {
          ++counts_.planned;
          count_allocation(size);
          return place;
        }
        count = &counts_.occupied;
      }
    }
    void* const result = allocate_in_fallback();
    ++*count;
    count_allocation(size);
    return result;
  }

  /// Frees an allocation; ignores nullptr. Calls `on_place_freed(offset, granted bytes)` for a
  /// place, or `deallocate_in_fallback()` for an allocation of the fallback. If `pointer` is not
  /// the base address of an allocation in use, returns false, and changes only the count
  /// `invalid_frees`.
  template <std::invocable<bytes, bytes> OnPlaceFreed, std::invocable DeallocateInFallback>
  bool deallocate_by_plan(void* pointer, OnPlaceFreed const& on_place_freed,
                          DeallocateInFallback const& deallocate_in_fallback) noexcept {
    if (pointer == nullptr) return true;
    std::optional<bytes> size;
    if (block_.contains(pointer)) {
      if (auto const freed = block_.deallocate(pointer)) {
        size = freed.requested;
        on_place_freed(block_.offset_of(pointer), freed.granted);
      }
    } else {
      size = fallback_.size_of(pointer);
      if (size) deallocate_in_fallback();
    }
    if (!size) {
      ++counts_.invalid_frees;
      return false;
    }
    counts_.allocated -= *size;
    ++counts_.deallocations;
    return true;
  }

  [[nodiscard]] base_counts count_all() const {
    base_counts result = counts_;
    result.fallback = fallback_.counts();
    result.reserved = block_.size() + result.fallback.reserved;
    result.peak_reserved = block_.size() + result.fallback.peak_reserved;
    result.granted = placed() + result.fallback.granted;
    result.allocations = result.planned + result.unplanned + result.occupied;
    result.allocations_in_use = result.allocations - result.deallocations;
    result.jumps = cursor_.jumps();
    return result;
  }
  /// Bytes of the places in use.
  [[nodiscard]] bytes placed() const { return block_.places().granted(); }
  /// The bytes of bookkeeping outside this object. O(pages + labels), by system calls.
  [[nodiscard]] bytes footprint() const {
    return cursor_.footprint() + block_.footprint() + fallback_.bookkeeping() - sizeof(fallback_);
  }
  [[nodiscard]] Fallback& fallback() { return fallback_; }

 private:
  template <class Options>
  [[nodiscard]] static Options fallback_options(std::string const& pool, plan const& served,
                                                Options options) {
    if (auto const problems = quarry::audit(served); !problems.empty())
      throw bad_argument{pool + ": the plan is wrong: " + problems.front()};
    if (options.alignment > served.alignment)
      throw bad_argument{pool + ": the fallback's alignment is " +
                         std::to_string(options.alignment) + ", that of the plan only " +
                         std::to_string(served.alignment)};
    if (served.size > options.max_bytes)
      throw out_of_memory{
          pool.c_str(), served.size,
          "the plan exceeds max_bytes (" + std::to_string(options.max_bytes) + " bytes)"};
    if (options.max_bytes != no_limit) options.max_bytes -= served.size;
    if (options.first_block == 0)
      options.first_block = options.next_block != 0 ? options.next_block : 8_MiB;
    if (!options.name.empty()) options.name += " fallback";
    return options;
  }
  void count_allocation(bytes size) {
    counts_.allocated += size;
    counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
    counts_.peak_placed = std::max(counts_.peak_placed, placed());
  }

  char const* name_;
  bytes alignment_;
  plan_cursor cursor_;
  Fallback fallback_;
  planned_block<Resource> block_;  // destroyed before the fallback, which has the resource
  base_counts counts_ = {};        // the counts that `count_all` does not compute
};

}  // namespace quarry::inline QUARRY_ABI
