// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/poison.hpp"
#include "quarry/host/pools/planned_places.hpp"
#include "quarry/host/pools/pool_options.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/resource.hpp"

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// A block of the plan's size. The places of the plan lie in this block. In the registry, the
/// places in use are allocations.
///
/// Not thread-safe. Invariants, checked by `audit`: (1) those of `planned_places`. (2) If the block
/// is tracked, the registry has a record of each place in use, and no other records of the block.
template <memory_resource Resource>
class QUARRY_POISONS planned_block {
 public:
  /// Allocates the block from `upstream`, which must outlive this object. Uses only the options
  /// `name`, `is_tracked` and `keeps_backtraces`. `is_poisoned`: AddressSanitizer reports accesses
  /// to free places. Throws what the resource throws, and std::bad_alloc.
  planned_block(Resource& upstream, plan const& served, pool_options const& options,
                bool is_poisoned)
      : resource_{upstream},
        size_{served.size},
        alignment_{served.alignment},
        is_poisoned_{is_poisoned},
        places_{served} {
    if (size_ == 0) return;
    if (options.is_tracked && !simulated<Resource>)
      registration_.emplace(table_, location_of(resource_), options.name);
    keeps_backtraces_ = options.keeps_backtraces && registration_;
    if (keeps_backtraces_) detail::registration::prepare_backtraces();
    memory_ = resource_.allocate(size_, alignment_);
    try {
      synchronize(resource_);
      if (registration_) registration_->add_block(base(), size_);
    } catch (...) {
      resource_.deallocate(memory_, size_, alignment_);
      throw;
    }
    if (is_poisoned_) detail::poison(memory_, size_);
  }
  planned_block(planned_block const&) = delete;
  planned_block& operator=(planned_block const&) = delete;
  ~planned_block() {
    if (memory_ == nullptr) return;
    if (is_poisoned_) detail::unpoison(memory_, size_);
    if (registration_) registration_->remove_block(base(), size_);
    resource_.deallocate(memory_, size_, alignment_);
  }

  /// Allocates `granted` bytes at the place of planned allocation `number`, for a request of
  /// `requested` bytes. Returns nullptr if the allocation has no place in the plan, or if the
  /// address is not a multiple of `alignment`. Also returns nullptr if some of the bytes are in use
  /// or `may_use(offset)` returns false. Changes nothing if it throws std::bad_alloc. O(log n).
  template <std::predicate<bytes> MayUse>
  [[nodiscard]] void* allocate(std::uint32_t number, bytes granted, bytes requested,
                               bytes alignment, MayUse const& may_use) {
    auto const offset = places_.free_offset(number, granted);
    if (!offset || ((base() + *offset) & (alignment - 1)) != 0) return nullptr;
    if (registration_) table_.reserve();
    if (!may_use(*offset)) return nullptr;
    places_.allocate(number, granted, requested);
    auto* const result = reinterpret_cast<void*>(base() + *offset);
    if (is_poisoned_) detail::unpoison(result, requested);
    if (!registration_) return result;
    table_.add_allocation(base() + *offset, granted, requested);
    if (keeps_backtraces_ && registration_->label_backtrace(base() + *offset))
      table_.set_labelled(table_.find(base() + *offset));
    return result;
  }
  /// Frees a place and returns its sizes. Returns empty sizes and changes nothing if no place in
  /// use begins at `pointer`. O(log n).
  chunk_sizes deallocate(void* pointer) noexcept {
    if (!contains(pointer)) return {};
    auto const freed = places_.deallocate(offset_of(pointer));
    if (!freed) return {};
    if (is_poisoned_) detail::poison(pointer, freed.granted);
    if (!registration_) return freed;
    auto const address = reinterpret_cast<std::uint64_t>(pointer);
    auto const found = table_.find(address);
    if (table_[found.id].is_labelled()) registration_->forget(address);
    table_.remove_allocation(found);
    return freed;
  }

  /// Whether the address lies in the block.
  [[nodiscard]] bool contains(void const* pointer) const {
    return memory_ != nullptr && offset_of(pointer) < size_;
  }
  [[nodiscard]] bytes offset_of(void const* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base();
  }
  /// The requested bytes of the place in use that begins at `pointer`.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    return contains(pointer) ? places_.size_of(offset_of(pointer)) : std::nullopt;
  }
  /// Labels a place in use. Returns false if no place in use begins at `pointer`, or if the block
  /// is not tracked.
  bool label(void* pointer, allocation_label added) {
    if (!registration_ || !size_of(pointer)) return false;
    auto const address = reinterpret_cast<std::uint64_t>(pointer);
    registration_->label(address, std::move(added));
    table_.set_labelled(table_.find(address));
    return true;
  }
  /// The number in the registry; 0 if the block is not tracked.
  [[nodiscard]] allocator_id id() const { return registration_ ? registration_->id() : 0; }

  [[nodiscard]] bytes size() const { return size_; }
  [[nodiscard]] planned_places const& places() const { return places_; }
  /// The bytes of bookkeeping outside this object. O(pages + labels), by system calls.
  [[nodiscard]] bytes footprint() const {
    return places_.footprint() + table_.footprint() +
           (registration_ ? registration_->footprint(size_, 1) : 0);
  }
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = places_.audit(size_);
    if (!registration_) return problems;
    if (table_.in_use() != places_.count())
      problems.push_back("the registry has " + std::to_string(table_.in_use()) + " records of " +
                         std::to_string(places_.count()) + " places in use");
    places_.for_each([&](bytes offset, chunk_sizes place) {
      auto const found = table_.find(base() + offset);
      if (found.id == detail::no_chunk || table_[found.id].requested() != place.requested)
        problems.push_back("the registry does not know the place at offset " +
                           std::to_string(offset));
    });
    return problems;
  }

 private:
  [[nodiscard]] std::uint64_t base() const { return reinterpret_cast<std::uint64_t>(memory_); }

  Resource& resource_;
  bytes size_, alignment_;
  bool is_poisoned_, keeps_backtraces_ = false;
  planned_places places_;
  detail::chunk_table table_;  // the records of the places in use, if the block is tracked
  std::optional<detail::registration> registration_;  // destroyed before the table
  void* memory_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI
