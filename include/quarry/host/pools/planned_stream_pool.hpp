// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/place_owners.hpp"
#include "quarry/host/pools/planned_memory.hpp"
#include "quarry/host/pools/stream_pool.hpp"

#include <utility>

namespace quarry::inline QUARRY_ABI {

struct planned_stream_pool_options {
  /// The options of the pool that serves other requests; see `planned_pool_options::fallback`
  stream_pool_options fallback = {};
  std::uint32_t lookahead = 64;  ///< see `plan_cursor`
};

struct planned_stream_pool_counts : planned_counts<stream_pool_counts> {
  std::uint64_t events = 0, waits = 0;  ///< events recorded for places, and waits for these events
};

/// Serves a program with streams from the plan of an earlier run. A stream pool serves all other
/// requests.
///
/// A plan has no information about streams. It may place allocations of two streams over each other
/// if one of them is freed before the other is allocated. So a stream uses a place that another
/// stream freed only after it has waited for an event of that free (`place_owners`). Without such
/// an event the fallback serves the request. So no stream gets memory that the work of another
/// stream may use, even if the plan is wrong or the program differs from the plan. A wrong plan
/// costs memory and waits.
///
/// The rules for handles are those of `stream_pool`. A handle is valid only during its call. A free
/// on a stream comes after the work of all streams that use the memory. Not thread-safe. An
/// allocation takes O(log n) for n allocations of the plan, plus O(segments of its place).
/// `deallocate` never throws.
template <memory_resource Resource, stream_order Order>
class planned_stream_pool : public planned_memory<Resource, stream_pool<Resource, Order>> {
  using memory = planned_memory<Resource, stream_pool<Resource, Order>>;

 public:
  using stream = typename Order::stream;

  /// Throws `bad_argument` if the plan violates its invariants or an option is outside its range.
  /// Throws `out_of_memory` if the plan exceeds `max_bytes`, and what the resource throws.
  planned_stream_pool(Resource upstream, Order order, plan const& served,
                      planned_stream_pool_options const& options = {})
      : memory{"planned_stream_pool",
               served,
               options.fallback,
               options.lookahead,
               {.name = options.fallback.name, .is_tracked = options.fallback.is_tracked},
               false,
               std::move(upstream),
               std::move(order)},
        owners_{served} {}
  /// Waits for the work of all streams, and returns all blocks. Allocations that are still in use
  /// become invalid.
  ~planned_stream_pool() {
    if (!owners_.synchronize_all(order())) owners_.finish_events(order());
  }

  /// Allocates `size` bytes for the later work of stream `handle`, with the alignment of the
  /// fallback. Size 0 returns a unique address. Throws std::bad_alloc and what the fallback throws;
  /// in this case the plan's position has advanced.
  [[nodiscard]] void* allocate(bytes size, stream handle = {}) { return allocate(size, 1, handle); }
  /// Allocates at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment, stream handle) {
    return this->allocate_by_plan(
        size, alignment,
        [&](bytes offset, bytes granted) {
          return owners_.order_behind_frees(order(), handle, offset, granted);
        },
        [&] { return this->fallback().allocate(size, alignment, handle); });
  }

  /// Frees an allocation in stream order: after the present work of stream `handle`. Ignores
  /// nullptr. If `pointer` is not the base address of an allocation in use, returns false, and
  /// changes only the count `invalid_frees`.
  bool deallocate(void* pointer, stream handle = {}) noexcept {
    return this->deallocate_by_plan(
        pointer,
        [&](bytes offset, bytes granted) { owners_.record_free(order(), handle, offset, granted); },
        [&] { (void)this->fallback().deallocate(pointer, handle); });
  }

  /// Calls `stream_pool::share` of the fallback.
  void share(stream handle) { this->fallback().share(handle); }
  /// Waits for the work of all streams. Then each stream may use all free places, and unused blocks
  /// of the fallback return to the resource.
  void release() noexcept {
    (void)owners_.synchronize_all(order());
    this->fallback().release();
  }

  [[nodiscard]] planned_stream_pool_counts counts() const {
    planned_stream_pool_counts result{this->count_all()};
    result.events = owners_.events();
    result.waits = owners_.waits();
    return result;
  }
  [[nodiscard]] Order& order() { return this->fallback().order(); }

 private:
  place_owners<Order> owners_;
};

}  // namespace quarry::inline QUARRY_ABI
