// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/trace/plan_cursor.hpp"
#include "quarry/trace/planned_places.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

struct planned_pool_options {
  /// Of the pool that serves unplanned requests. `max_bytes` limits both together; `alignment` may
  /// not exceed that of the plan
  pool_options fallback = {};
  std::uint32_t lookahead = 64;  ///< see `plan_cursor`
};

/// What a planned pool counts. `allocations` = `planned` + `unplanned` + `occupied`.
struct planned_pool_counts {
  bytes reserved = 0, peak_reserved = 0;    ///< of the resource
  bytes allocated = 0, peak_allocated = 0;  ///< requested bytes in use
  bytes peak_placed = 0;                    ///< the most bytes of places in use
  bytes granted = 0;                        ///< bytes of the places and chunks that serve them
  std::uint64_t allocations = 0, deallocations = 0;
  std::size_t allocations_in_use = 0;
  std::uint64_t planned = 0;    ///< allocations that the plan served
  std::uint64_t unplanned = 0;  ///< whose request was not the next one of the plan
  std::uint64_t occupied = 0;   ///< whose place is in use, is not aligned, or is not in the plan
  std::uint64_t jumps = 0;      ///< of the cursor to another position of the plan
  std::uint64_t invalid_frees = 0;
  pool_counts fallback = {};
};

/// Serves a program from the plan of an earlier run, and unplanned requests from a pool.
///
/// Takes one block of the plan's size when it is constructed. A request that matches the plan gets
/// its place, if no byte of the place is in use. So allocations never overlap, however the program
/// differs from the plan. All other requests go to the fallback.
///
/// Not thread-safe. O(log n) for n allocations of the plan; an unplanned request also costs the
/// cursor's lookahead and a call of the fallback. `deallocate` never throws, and needs no memory.
/// The registry does not know planned allocations, and they are not poisoned.
template <memory_resource Resource, class Fallback = pool<Resource>>
class planned_pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Throws `bad_argument` if the plan violates its invariants, or an option is wrong. Throws
  /// `out_of_memory` if the plan exceeds `max_bytes`, and what the resource throws.
  planned_pool(Resource upstream, plan const& served, planned_pool_options const& options = {})
      : size_{checked(served, options)},
        alignment_{served.alignment},
        cursor_{served, options.lookahead},
        places_{served},
        fallback_{std::move(upstream), fallback_options(served, options)} {
    if (size_ == 0) return;
    block_ = fallback_.resource().allocate(size_, alignment_);
    try {
      synchronize(fallback_.resource());
    } catch (...) {
      fallback_.resource().deallocate(block_, size_, alignment_);
      throw;
    }
  }
  planned_pool(planned_pool const&) = delete;
  planned_pool& operator=(planned_pool const&) = delete;
  /// Returns all blocks. Allocations that are still in use become invalid.
  ~planned_pool() {
    if (block_ != nullptr) fallback_.resource().deallocate(block_, size_, alignment_);
  }

  /// Allocates `size` bytes with the alignment of the fallback. Size 0 returns a unique address.
  /// Throws what the fallback throws; then the plan's position has advanced.
  [[nodiscard]] void* allocate(bytes size) { return allocate(size, 1); }
  /// The same at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("planned_pool", alignment);
    std::uint64_t* count = &counts_.unplanned;
    if (size <= max_bytes_at_once) {
      bytes const granted = (std::max<bytes>(size, 1) + alignment_ - 1) & ~(alignment_ - 1);
      if (auto const number = cursor_.next(granted)) {
        if (auto const offset = allocate_place(*number, granted, size, alignment)) {
          ++counts_.planned;
          count_allocation(size);
          return reinterpret_cast<void*>(base() + *offset);
        }
        count = &counts_.occupied;
      }
    }
    void* const result =
        alignment == 1 ? fallback_.allocate(size) : fallback_.allocate(size, alignment);
    ++*count;
    count_allocation(size);
    return result;
  }

  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `invalid_frees`, if `pointer` is not the base address of an allocation in use.
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const size = is_in_block(pointer) ? places_.deallocate(offset_of(pointer))
                                           : deallocate_in_fallback(pointer);
    if (!size) {
      ++counts_.invalid_frees;
      return false;
    }
    counts_.allocated -= *size;
    ++counts_.deallocations;
    return true;
  }
  /// As a resource, for adaptors and pools on top of this pool.
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// The next request is the first one of the plan's period, or of the plan if it has no period.
  /// Programs may call it when an iteration begins. Allocations in use stay valid.
  void restart() { cursor_.restart(); }

  /// Returns unused blocks of the fallback to the resource. The plan's block stays.
  void release() noexcept { fallback_.release(); }

  /// The requested bytes; nullopt if `pointer` is not the base address of an allocation in use.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    return is_in_block(pointer) ? places_.size_of(offset_of(pointer)) : fallback_.size_of(pointer);
  }
  [[nodiscard]] planned_pool_counts counts() const {
    planned_pool_counts result = counts_;
    result.fallback = fallback_.counts();
    result.reserved = size_ + result.fallback.reserved;
    result.peak_reserved = size_ + result.fallback.peak_reserved;
    result.allocations = result.planned + result.unplanned + result.occupied;
    result.allocations_in_use = result.allocations - result.deallocations;
    result.granted = places_.granted() + result.fallback.granted;
    result.jumps = cursor_.jumps();
    return result;
  }
  /// Describes each violated invariant; empty if there are none.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = places_.audit(size_);
    for (auto& problem : fallback_.audit()) problems.push_back(std::move(problem));
    return problems;
  }
  [[nodiscard]] Resource& resource() { return fallback_.resource(); }
  [[nodiscard]] memory_location location() { return location_of(fallback_.resource()); }

 private:
  [[nodiscard]] static bytes checked(plan const& served, planned_pool_options const& options) {
    if (auto const problems = trace::audit(served); !problems.empty())
      throw bad_argument{"planned_pool: the plan is wrong: " + problems.front()};
    if (options.fallback.alignment > served.alignment)
      throw bad_argument{"planned_pool: the fallback's alignment is " +
                         std::to_string(options.fallback.alignment) + ", that of the plan only " +
                         std::to_string(served.alignment)};
    if (served.size > options.fallback.max_bytes)
      throw out_of_memory{
          "planned_pool", served.size,
          "the plan exceeds max_bytes (" + std::to_string(options.fallback.max_bytes) + " bytes)"};
    return served.size;
  }
  [[nodiscard]] static pool_options fallback_options(plan const& served,
                                                     planned_pool_options const& options) {
    pool_options result = options.fallback;
    if (result.max_bytes != no_limit) result.max_bytes -= served.size;
    return result;
  }

  [[nodiscard]] std::uint64_t base() const { return reinterpret_cast<std::uint64_t>(block_); }
  [[nodiscard]] bytes offset_of(void const* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base();
  }
  [[nodiscard]] bool is_in_block(void const* pointer) const {
    return block_ != nullptr && offset_of(pointer) < size_;
  }
  [[nodiscard]] std::optional<bytes> allocate_place(std::uint32_t number, bytes granted,
                                                    bytes requested, bytes alignment) {
    auto const offset = places_.allocate(number, granted, requested);
    if (!offset || ((base() + *offset) & (alignment - 1)) == 0) return offset;
    (void)places_.deallocate(*offset);
    return std::nullopt;
  }
  [[nodiscard]] std::optional<bytes> deallocate_in_fallback(void* pointer) noexcept {
    auto const size = fallback_.size_of(pointer);
    if (size) (void)fallback_.try_deallocate(pointer);
    return size;
  }
  void count_allocation(bytes size) {
    counts_.allocated += size;
    counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
    counts_.peak_placed = std::max(counts_.peak_placed, places_.granted());
  }

  bytes size_, alignment_;
  plan_cursor cursor_;
  planned_places places_;
  Fallback fallback_;
  void* block_ = nullptr;
  planned_pool_counts counts_ = {};  // the sums only
};

}  // namespace quarry::inline QUARRY_ABI::trace
