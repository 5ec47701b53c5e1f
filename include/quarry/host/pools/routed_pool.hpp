// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/routing.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Several pools over one resource. A routing table chooses the pool of each allocation, so that
/// temporary and permanent allocations share no blocks.
///
/// The pools share the limit `max_bytes`. If a pool gets no memory, the others first return their
/// unused blocks. Not thread-safe. A failed allocation leaves the users' allocations and their
/// counts unchanged.
template <memory_resource Resource, placement Placement = fast_fit>
class routed_pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Each pool has these options. Throws `bad_argument`.
  routed_pool(Resource upstream, routing_table table, pool_options options = {})
      : table_{std::move(table)}, shared_{std::move(upstream), options.max_bytes} {
    options.max_bytes = no_limit;
    std::string const name = options.name;
    for (std::uint32_t i = 0; i < table_.pools(); ++i) {
      if (!name.empty()) options.name = name + ' ' + std::to_string(i);
      pools_.push_back(std::make_unique<pool_type>(borrowed{shared_}, options));
    }
  }
  routed_pool(routed_pool const&) = delete;
  routed_pool& operator=(routed_pool const&) = delete;

  /// Allocates from the pool that the table selects, which takes O(routes). Throws `out_of_memory`.
  [[nodiscard]] void* allocate(bytes size, std::string_view call_site = {}) {
    return allocate_from(table_.pool_for(size, call_site, phase_), size);
  }
  /// Begins a phase of the program, for the routes of later allocations. Throws std::bad_alloc.
  void begin_phase(std::string_view name) { phase_ = name; }
  /// Allocates from pool `number`. Also throws `bad_argument` if there is no such pool.
  [[nodiscard]] void* allocate_from(std::uint32_t number, bytes size) {
    if (number >= pools_.size())
      throw bad_argument{"routed_pool: pool " + std::to_string(number) + " is not below " +
                         std::to_string(pools_.size())};
    void* const result = allocate_or_release(*pools_[number], size);
    allocated_ += size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    return result;
  }

  /// Frees an allocation; ignores nullptr. If `pointer` is not the base address of an allocation in
  /// use, returns false, and changes only the count `invalid_frees`. O(pools).
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    for (auto const& each : pools_) {
      auto const size = each->size_of(pointer);
      if (!size) continue;
      allocated_ -= *size;
      return each->deallocate(pointer);
    }
    ++invalid_frees_;
    return false;
  }

  /// Returns the requested bytes, or nullopt if `pointer` is not the base address of an allocation
  /// in use. O(pools).
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    for (auto const& each : pools_) {
      if (auto const size = each->size_of(pointer)) return size;
    }
    return std::nullopt;
  }

  /// Returns the blocks without allocations to the resource (`pool::release`).
  void release() noexcept {
    for (auto const& each : pools_) each->release();
  }

  [[nodiscard]] routing_table const& table() const { return table_; }
  [[nodiscard]] std::uint32_t pools() const { return table_.pools(); }
  /// The counts of one pool. Throws std::out_of_range.
  [[nodiscard]] pool_counts counts_of(std::uint32_t number) const {
    return pools_.at(number)->counts();
  }
  /// The sums over the pools. Peaks are the peaks of all pools together. `largest_free` is the
  /// maximum over the pools. `peak_granted` is not counted.
  [[nodiscard]] pool_counts counts() const {
    pool_counts result;
    for (auto const& each : pools_) {
      auto const found = each->counts();
      result.reserved += found.reserved;
      result.granted += found.granted;
      result.releasable += found.releasable;
      result.releasable_blocks += found.releasable_blocks;
      result.free_chunks += found.free_chunks;
      result.allocations += found.allocations;
      result.deallocations += found.deallocations;
      result.allocations_in_use += found.allocations_in_use;
      result.blocks_allocated += found.blocks_allocated;
      result.blocks_returned += found.blocks_returned;
      result.coalesces += found.coalesces;
      result.overruns += found.overruns;
      result.largest_free = std::max(result.largest_free, found.largest_free);
    }
    result.allocated = allocated_;
    result.peak_allocated = peak_allocated_;
    result.peak_reserved = shared_.peak;
    result.invalid_frees = invalid_frees_;
    return result;
  }
  /// Describes each violated invariant of a pool. Returns no texts if there are none.
  [[nodiscard]] std::vector<std::string> audit() const {
    std::vector<std::string> problems;
    for (auto const& each : pools_) {
      for (auto& problem : each->audit()) problems.push_back(std::move(problem));
    }
    return problems;
  }
  [[nodiscard]] Resource& resource() { return shared_.resource; }
  [[nodiscard]] memory_location location() { return location_of(shared_.resource); }

 private:
  struct shared_state {
    Resource resource;
    bytes limit;
    bytes reserved = 0, peak = 0;
  };
  /// The resource of each pool: a reference to the common resource.
  class borrowed {
   public:
    static constexpr bool is_simulated = simulated<Resource>;

    explicit borrowed(shared_state& shared) : shared_{&shared} {}
    [[nodiscard]] void* allocate(bytes size, bytes alignment) {
      if (size > shared_->limit || shared_->reserved > shared_->limit - size)
        throw out_of_memory{"routed_pool", size,
                            std::to_string(shared_->reserved) + " of " +
                                std::to_string(shared_->limit) + " bytes are reserved"};
      void* const result = shared_->resource.allocate(size, alignment);
      shared_->reserved += size;
      shared_->peak = std::max(shared_->peak, shared_->reserved);
      return result;
    }
    void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
      shared_->resource.deallocate(pointer, size, alignment);
      shared_->reserved -= size;
    }
    [[nodiscard]] Resource& upstream() { return shared_->resource; }

   private:
    shared_state* shared_;
  };
  using pool_type = pool<borrowed, Placement>;

  [[nodiscard]] void* allocate_or_release(pool_type& owner, bytes size) {
    try {
      return owner.allocate(size);
    } catch (out_of_memory const&) {
      release();
      return owner.allocate(size);
    }
  }

  routing_table table_;
  std::string phase_;
  shared_state shared_;
  std::vector<std::unique_ptr<pool_type>> pools_;
  bytes allocated_ = 0, peak_allocated_ = 0;
  std::uint64_t invalid_frees_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
