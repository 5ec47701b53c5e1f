// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/trace/plan_cursor.hpp"
#include "quarry/trace/planned_block.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The options of a planned pool's fallback. Throws `bad_argument` if the plan violates its
/// invariants, or if the alignment exceeds that of the plan, and `out_of_memory` if the plan
/// exceeds `max_bytes`. The messages name `pool`.
template <class Options>
[[nodiscard]] Options options_of_fallback(std::string const& pool, plan const& served,
                                          Options options) {
  if (auto const problems = trace::audit(served); !problems.empty())
    throw bad_argument{pool + ": the plan is wrong: " + problems.front()};
  if (options.alignment > served.alignment)
    throw bad_argument{pool + ": the fallback's alignment is " + std::to_string(options.alignment) +
                       ", that of the plan only " + std::to_string(served.alignment)};
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

struct planned_pool_options {
  /// Of the pool that serves unplanned requests. `max_bytes` limits both together; `alignment` may
  /// not exceed that of the plan. If `first_block` is 0, the first block has the size of the later
  /// blocks, because few requests are unplanned
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
/// In the registry the plan's block and the fallback are two allocators. The second one has the
/// pool's name and " fallback". Places have no red zones.
template <memory_resource Resource, class Fallback = pool<Resource>>
class QUARRY_POISONS planned_pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Throws `bad_argument` if the plan violates its invariants, or an option is wrong. Throws
  /// `out_of_memory` if the plan exceeds `max_bytes`, and what the resource throws.
  planned_pool(Resource upstream, plan const& served, planned_pool_options const& options = {})
      : alignment_{served.alignment},
        cursor_{served, options.lookahead},
        fallback_{std::move(upstream),
                  options_of_fallback("planned_pool", served, options.fallback)},
        block_{fallback_.resource(), served, options.fallback,
               detail::is_poisoned(fallback_.resource())} {}
  planned_pool(planned_pool const&) = delete;
  planned_pool& operator=(planned_pool const&) = delete;

  /// Allocates `size` bytes with the alignment of the fallback. Size 0 returns a unique address.
  /// Throws std::bad_alloc and what the fallback throws; then the plan's position has advanced.
  [[nodiscard]] void* allocate(bytes size) { return allocate(size, 1); }
  /// The same at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("planned_pool", alignment);
    std::uint64_t* count = &counts_.unplanned;
    if (size <= max_bytes_at_once) {
      bytes const granted = (std::max<bytes>(size, 1) + alignment_ - 1) & ~(alignment_ - 1);
      if (auto const number = cursor_.next(granted)) {
        if (void* const place =
                block_.allocate(*number, granted, size, alignment, [](bytes) { return true; })) {
          ++counts_.planned;
          count_allocation(size);
          return place;
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
    auto const size =
        block_.contains(pointer) ? deallocate_place(pointer) : deallocate_in_fallback(pointer);
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
    return block_.contains(pointer) ? block_.size_of(pointer) : fallback_.size_of(pointer);
  }
  /// Labels an allocation for reports. False if `pointer` is not allocated, or the pool is not
  /// tracked.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) {
    return block_.contains(pointer) ? block_.label(pointer, {std::move(name), call_site})
                                    : fallback_.label(pointer, std::move(name), call_site);
  }
  /// The number in the registry of the plan's block; 0 if it is not tracked. `fallback_id`: that of
  /// the fallback.
  [[nodiscard]] allocator_id id() const { return block_.id(); }
  [[nodiscard]] allocator_id fallback_id() const { return fallback_.id(); }
  [[nodiscard]] planned_pool_counts counts() const {
    planned_pool_counts result = counts_;
    result.fallback = fallback_.counts();
    result.reserved = block_.size() + result.fallback.reserved;
    result.peak_reserved = block_.size() + result.fallback.peak_reserved;
    result.allocations = result.planned + result.unplanned + result.occupied;
    result.allocations_in_use = result.allocations - result.deallocations;
    result.granted = block_.places().granted() + result.fallback.granted;
    result.jumps = cursor_.jumps();
    return result;
  }
  /// Bytes of memory that the pool needs beside its blocks: its own size, the plan, resident pages
  /// of its tables, and its labels. O(pages + labels), by system calls.
  [[nodiscard]] bytes bookkeeping() const {
    return sizeof(*this) - sizeof(fallback_) + cursor_.footprint() + block_.footprint() +
           fallback_.bookkeeping();
  }
  /// Describes each violated invariant; empty if there are none.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = block_.audit();
    for (auto& problem : fallback_.audit()) problems.push_back(std::move(problem));
    return problems;
  }
  [[nodiscard]] Resource& resource() { return fallback_.resource(); }
  [[nodiscard]] memory_location location() { return location_of(fallback_.resource()); }

 private:
  [[nodiscard]] std::optional<bytes> deallocate_place(void* pointer) noexcept {
    auto const freed = block_.deallocate(pointer);
    return freed ? std::optional{freed.requested} : std::nullopt;
  }
  [[nodiscard]] std::optional<bytes> deallocate_in_fallback(void* pointer) noexcept {
    auto const size = fallback_.size_of(pointer);
    if (size) (void)fallback_.try_deallocate(pointer);
    return size;
  }
  void count_allocation(bytes size) {
    counts_.allocated += size;
    counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
    counts_.peak_placed = std::max(counts_.peak_placed, block_.places().granted());
  }

  bytes alignment_;
  plan_cursor cursor_;
  Fallback fallback_;
  planned_block<Resource> block_;    // is destroyed before the fallback, which has the resource
  planned_pool_counts counts_ = {};  // the sums only
};

}  // namespace quarry::inline QUARRY_ABI::trace
