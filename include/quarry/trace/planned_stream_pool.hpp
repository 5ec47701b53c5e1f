// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/trace/place_owners.hpp"
#include "quarry/trace/plan_cursor.hpp"
#include "quarry/trace/planned_block.hpp"
#include "quarry/trace/planned_pool.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

struct planned_stream_pool_options {
  /// As `planned_pool_options::fallback`
  stream_pool_options fallback = {};
  std::uint32_t lookahead = 64;  ///< see `plan_cursor`
};

struct planned_stream_pool_counts {
  bytes reserved = 0, peak_reserved = 0;    ///< of the resource
  bytes allocated = 0, peak_allocated = 0;  ///< requested bytes in use
  std::uint64_t allocations = 0, deallocations = 0;
  std::size_t allocations_in_use = 0;
  std::uint64_t planned = 0;    ///< allocations that the plan served
  std::uint64_t unplanned = 0;  ///< whose request was not the next one of the plan
  /// Whose place is in use, is not aligned, is not in the plan, or was freed by another stream
  /// without an event
  std::uint64_t occupied = 0;
  std::uint64_t jumps = 0;              ///< of the cursor to another position of the plan
  std::uint64_t events = 0, waits = 0;  ///< for places: recorded, and streams made to wait
  std::uint64_t invalid_frees = 0;
  stream_pool_counts fallback = {};
};

/// Serves a program with streams from the plan of an earlier run, and other requests from a stream
/// pool.
///
/// A plan says nothing about streams: it places allocations of two streams over each other if one
/// is freed before the other is allocated. So a place that another stream freed is used only after
/// the stream has waited for an event of that free (`place_owners`). Without such an event the
/// fallback serves the request. So no stream gets memory that the work of another stream may use,
/// even if the plan is wrong or the program differs from it. A wrong plan costs memory and waits.
///
/// The rules for handles are those of `stream_pool`: a handle is valid only during its call, and a
/// free on a stream comes after the work of all streams that use the memory. Not thread-safe. An
/// allocation takes O(log n) for n allocations of the plan, plus O(segments of its place).
/// `deallocate` never throws.
template <memory_resource Resource, stream_order Order>
class planned_stream_pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;
  using stream = typename Order::stream;

  /// Throws `bad_argument` if the plan violates its invariants, or an option is wrong. Throws
  /// `out_of_memory` if the plan exceeds `max_bytes`, and what the resource throws.
  planned_stream_pool(Resource upstream, Order order, plan const& served,
                      planned_stream_pool_options const& options = {})
      : alignment_{served.alignment},
        cursor_{served, options.lookahead},
        owners_{served},
        fallback_{std::move(upstream), std::move(order),
                  options_of_fallback("planned_stream_pool", served, options.fallback)},
        block_{fallback_.resource(),
               served,
               {.name = options.fallback.name, .is_tracked = options.fallback.is_tracked},
               false} {}
  planned_stream_pool(planned_stream_pool const&) = delete;
  planned_stream_pool& operator=(planned_stream_pool const&) = delete;
  /// Waits for the work of all streams, and returns all blocks. Allocations that are still in use
  /// become invalid.
  ~planned_stream_pool() {
    if (!owners_.synchronize_all(fallback_.order())) owners_.finish_events(fallback_.order());
  }

  /// Allocates `size` bytes for the later work of stream `handle`, with the alignment of the
  /// fallback. Size 0 returns a unique address. Throws std::bad_alloc and what the fallback throws;
  /// then the plan's position has advanced.
  [[nodiscard]] void* allocate(bytes size, stream handle = {}) { return allocate(size, 1, handle); }
  /// The same at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment, stream handle) {
    check_power_of_two("planned_stream_pool", alignment);
    std::uint64_t* count = &counts_.unplanned;
    if (size <= max_bytes_at_once) {
      bytes const granted = (std::max<bytes>(size, 1) + alignment_ - 1) & ~(alignment_ - 1);
      if (auto const number = cursor_.next(granted)) {
        auto const is_ordered = [&](bytes offset) {
          return owners_.order_behind_frees(fallback_.order(), handle, offset, granted);
        };
        if (void* const place = block_.allocate(*number, granted, size, alignment, is_ordered)) {
          ++counts_.planned;
          count_allocation(size);
          return place;
        }
        count = &counts_.occupied;
      }
    }
    void* const result = fallback_.allocate(size, alignment, handle);
    ++*count;
    count_allocation(size);
    return result;
  }

  /// Frees an allocation in the order of stream `handle`, after the stream's present work; ignores
  /// nullptr. Returns false, and changes nothing but the count `invalid_frees`, if `pointer` is not
  /// the base address of an allocation in use.
  bool deallocate(void* pointer, stream handle = {}) noexcept {
    if (pointer == nullptr) return true;
    std::optional<bytes> size;
    if (block_.contains(pointer)) {
      if (auto const freed = block_.deallocate(pointer)) {
        size = freed.requested;
        owners_.record_free(fallback_.order(), handle, block_.offset_of(pointer), freed.granted);
      }
    } else {
      size = fallback_.size_of(pointer);
      if (size) (void)fallback_.deallocate(pointer, handle);
    }
    if (!size) {
      ++counts_.invalid_frees;
      return false;
    }
    counts_.allocated -= *size;
    ++counts_.deallocations;
    return true;
  }

  /// As `planned_pool::restart`.
  void restart() { cursor_.restart(); }
  /// As `stream_pool::share`, for the fallback.
  void share(stream handle) { fallback_.share(handle); }
  /// Waits for the work of all streams. Then each stream may use all free places, and unused blocks
  /// of the fallback return to the resource.
  void release() noexcept {
    (void)owners_.synchronize_all(fallback_.order());
    fallback_.release();
  }

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
  /// As those of `planned_pool`.
  [[nodiscard]] allocator_id id() const { return block_.id(); }
  [[nodiscard]] allocator_id fallback_id() const { return fallback_.id(); }

  [[nodiscard]] planned_stream_pool_counts counts() const {
    planned_stream_pool_counts result = counts_;
    result.fallback = fallback_.counts();
    result.reserved = block_.size() + result.fallback.reserved;
    result.peak_reserved = block_.size() + result.fallback.peak_reserved;
    result.allocations = result.planned + result.unplanned + result.occupied;
    result.allocations_in_use = result.allocations - result.deallocations;
    result.jumps = cursor_.jumps();
    result.events = owners_.events();
    result.waits = owners_.waits();
    return result;
  }
  /// Describes each violated invariant; empty if there are none.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = block_.audit();
    for (auto& problem : fallback_.audit()) problems.push_back(std::move(problem));
    return problems;
  }
  [[nodiscard]] Order& order() { return fallback_.order(); }
  [[nodiscard]] Resource& resource() { return fallback_.resource(); }
  [[nodiscard]] memory_location location() { return location_of(fallback_.resource()); }

 private:
  void count_allocation(bytes size) {
    counts_.allocated += size;
    counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
  }

  bytes alignment_;
  plan_cursor cursor_;
  place_owners<Order> owners_;
  stream_pool<Resource, Order> fallback_;
  planned_block<Resource> block_;  // is destroyed before the fallback, which has the resource
  planned_stream_pool_counts counts_ = {};  // the sums only
};

}  // namespace quarry::inline QUARRY_ABI::trace
