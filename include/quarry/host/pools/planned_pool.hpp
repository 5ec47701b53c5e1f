// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/planned_memory.hpp"
#include "quarry/host/pools/pool.hpp"

#include <utility>

namespace quarry::inline QUARRY_ABI {

struct planned_pool_options {
  /// The options of the pool that serves unplanned requests. `max_bytes` limits both together.
  /// `alignment` may not exceed the plan's alignment. If `first_block` is 0, the first block has
  /// the size of the later blocks, because few requests are unplanned
  pool_options fallback = {};
  std::uint32_t lookahead = 64;  ///< see `plan_cursor`
};

using planned_pool_counts = planned_counts<pool_counts>;

/// Serves a program from the plan of an earlier run. A pool serves the unplanned requests.
///
/// The constructor allocates one block of the plan's size. A request that matches the plan gets its
/// place if no byte of the place is in use. So allocations never overlap, even if the program
/// differs from the plan. All other requests go to the fallback.
///
/// Not thread-safe. O(log n) for n allocations of the plan. An unplanned request also costs the
/// cursor's lookahead and a call of the fallback. `deallocate` never throws and allocates no
/// memory.
template <memory_resource Resource, class Fallback = pool<Resource>>
class QUARRY_POISONS planned_pool : public planned_memory<Resource, Fallback> {
  using memory = planned_memory<Resource, Fallback>;

 public:
  /// Throws `bad_argument` if the plan violates its invariants or an option is outside its range.
  /// Throws `out_of_memory` if the plan exceeds `max_bytes`, and what the resource throws.
  planned_pool(Resource upstream, plan const& served, planned_pool_options const& options = {})
      : memory{"planned_pool",   served, options.fallback,   options.lookahead,
               options.fallback, true,   std::move(upstream)} {}

  /// Allocates `size` bytes with the alignment of the fallback. Size 0 returns a unique address.
  /// Throws std::bad_alloc and what the fallback throws; in this case the plan's position has
  /// advanced.
  [[nodiscard]] void* allocate(bytes size) { return allocate(size, 1); }
  /// Allocates at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return this->allocate_by_plan(
        size, alignment, [](bytes, bytes) { return true; },
        [&] {
          return alignment == 1 ? this->fallback().allocate(size)
                                : this->fallback().allocate(size, alignment);
        });
  }

  /// Frees an allocation; ignores nullptr. If `pointer` is not the base address of an allocation in
  /// use, returns false, and changes only the count `invalid_frees`.
  bool deallocate(void* pointer) noexcept {
    return this->deallocate_by_plan(
        pointer, [](bytes, bytes) {}, [&] { (void)this->fallback().try_deallocate(pointer); });
  }
  /// The interface of a resource, for adaptors and for pools above this pool.
  bool deallocate(void* pointer, bytes, bytes) noexcept { return deallocate(pointer); }

  /// Returns unused blocks of the fallback to the resource. The plan's block stays.
  void release() noexcept { this->fallback().release(); }

  [[nodiscard]] planned_pool_counts counts() const { return this->count_all(); }
  /// Bytes of memory that the pool needs in addition to its blocks: its own size, the plan,
  /// resident pages of its tables, and its labels. O(pages + labels), by system calls.
  [[nodiscard]] bytes bookkeeping() const { return sizeof(*this) + this->footprint(); }
};

}  // namespace quarry::inline QUARRY_ABI
