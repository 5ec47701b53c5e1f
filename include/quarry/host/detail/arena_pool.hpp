// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/returned_addresses.hpp"
#include "quarry/host/detail/returned_slices.hpp"
#include "quarry/host/pools/pool.hpp"

#include <cstdint>
#include <new>
#include <optional>

namespace quarry::inline QUARRY_ABI::detail {

/// The pool of an arena of `thread_arenas`. Threads other than its owner use its memory, too. Only
/// the owner calls functions that do not say «for any thread».
template <memory_resource Resource>
class QUARRY_POISONS arena_pool : public pool<Resource> {
  using base_pool = pool<Resource>;

 public:
  using base_pool::base_pool;
  using base_pool::id;

  /// Frees a group of up to 64 slices that other threads have put into `returned`, and whose memory
  /// they have poisoned. Returns false if there is no such group.
  bool deallocate_returned(returned_slices& returned) noexcept {
    return slices().take_returned(
        returned,
        [this](slice_block& slice_block, std::uint32_t first, std::uint64_t bits) {
          deallocate_slices(slice_block, first, bits);
        },
        [this](slices::freed_elsewhere const& freed) { count(freed); });
  }

  /// @name Memory for slices that pools of several threads lend each other (slice_table).
  /// @{
  /// For any thread: the pool that borrows the memory of an allocation; 0 if no pool does.
  [[nodiscard]] allocator_id borrower_of(void const* pointer) noexcept {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (base >= object_starts::end) return 0;
    auto const* const block = arena().chunks().public_view().slice_block_of(base);
    return block == nullptr ? 0 : static_cast<allocator_id>(block->borrower());
  }
  /// Counts what other threads have done in the pool. Otherwise its peak would include the slices
  /// that they freed.
  void count_freed_elsewhere() noexcept {
    if (memory_.shared().has_work()) [[unlikely]] {
      chunks_held const lock{memory_.shared()};
      if (lock) count_work_of_others();
    }
    if (!slices().has_freed_elsewhere()) [[likely]]
      return;
    slices().count_freed_elsewhere([this](slices::freed_elsewhere const& freed) { count(freed); });
  }
  /// `pool::counts`, with all that other threads have done. Counts that under the same lock: what
  /// others allocate between two locks would be in use, and in no count of allocations.
  [[nodiscard]] pool_counts counts() {
    count_freed_elsewhere();
    chunks_held const lock{memory_.shared()};
    if (lock) count_work_of_others();
    return this->held_counts();
  }
  void share_slices(mutex_held_at_fork& mutex) { slices().share(mutex, id()); }
  /// For any thread: whether `lend_to` may find memory.
  [[nodiscard]] bool may_lend(returned_slices const& returned) const {
    return memory_.slices().may_lend(returned);
  }
  /// Allocates a slice of the pool's blocks; returns nullptr if none is free.
  [[nodiscard]] void* allocate_in_blocks(bytes size) {
    if (!this->has_slices_of(size)) return nullptr;
    auto const base = memory_.find_slice_in_blocks(size);
    return base ? this->record_slice(*base, size) : nullptr;
  }
  /// Whether a new block of slices would lie in memory that the pool has not used before.
  [[nodiscard]] bool needs_map_page(bytes size) const { return memory_.needs_map_page(size); }
  /// Whether the pool has no free memory for a new block of slices.
  [[nodiscard]] bool lacks_map_page() const { return memory_.lacks_map_page(); }
  /// For any thread: lends `borrower`, another pool, a map page for allocations of `size` bytes.
  /// Frees up to `max_groups` groups of this pool's slices for that, and decreases `max_groups` by
  /// at least their number. Returns false if it finds no map page.
  [[nodiscard]] bool lend_to(arena_pool& borrower, bytes size, returned_slices& returned,
                             std::size_t& max_groups) {
    slice_block* const lent = slices().lend(returned, max_groups);
    if (lent == nullptr) return false;
    bool const is_borrowed = borrower.memory_.borrow_map_page(*lent, size);
    if (!is_borrowed) lent->lender->take_back(*lent);
    return is_borrowed;
  }
  /// @}

  /// Whether a call of the owner is in a call of the resource. Then the pool must keep its owner.
  [[nodiscard]] bool is_calling_resource() const { return memory_.shared().is_paused(); }

  /// @name Larger allocations of other threads (shared_chunks).
  /// @{
  /// Requires a pool without allocations. Returns false if the options or the system
  /// forbid it: then other threads get no chunks.
  bool share_chunks(mutex_held_at_fork& mutex) {
    return memory_.may_share() && memory_.shared().share(mutex);
  }
  /// For any thread: a hint whether `allocate_for_another` may serve `size` bytes, although nothing
  /// was returned lately.
  [[nodiscard]] bool may_serve_another(bytes size) const {
    return memory_.shared().lendable() >= size;
  }
  /// For any thread: frees the addresses in `returned`, then allocates in what threads other than
  /// the owner have freed since the owner last looked (`lendable`). Slices in `returned` go into
  /// `marked`. Returns nullptr if no chunk fits, if the allocation would exceed `lendable`, or if
  /// another thread holds the lock.
  [[nodiscard]] void* allocate_for_another(bytes size, bytes alignment,
                                           returned_addresses& returned,
                                           returned_slices& marked) noexcept {
    shared_chunks& shared = memory_.shared();
    shared_chunks::brief_hold const lock{shared};
    if (!lock) return nullptr;
    (void)returned.take([&](void* pointer) { deallocate_for_another(pointer, marked); });
    bytes const room = room_for(size, alignment);
    chunk_sizes const needed = memory_.sizes_for(size);
    if (needed.granted + room > shared.lendable()) return nullptr;
    try {
      auto base = find_chunk_at_hand(needed, alignment, room);
      if (!base) return nullptr;
      shared.count_allocation(size, memory_.arena().size_of(*base)->granted);
      if (memory_.is_poisoned()) unpoison(reinterpret_cast<void*>(*base), size);
      return reinterpret_cast<void*>(*base);
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
  }
  /// For the owner: frees the addresses in `returned`. Slices among them go into `marked`.
  /// Returns what `returned.take` returns.
  bool deallocate_returned(returned_addresses& returned, returned_slices& marked) noexcept {
    chunks_held const lock{memory_.shared()};
    if (!lock) return true;
    memory_.shared().keep_freed();
    return returned.take([&](void* pointer) {
      auto const base = reinterpret_cast<std::uint64_t>(pointer);
      if (slice_block* const block = block_of(base)) {
        this->invalid_frees_ += !free_later(*block, base, marked);
      } else {
        (void)this->deallocate_held_chunk(base);
      }
    });
  }
  /// Allocates `size` bytes, more than `max_slice`, without a block of the resource; nullptr if no
  /// free chunk fits. Throws std::bad_alloc.
  [[nodiscard]] void* allocate_at_hand(bytes size, bytes alignment = 1) {
    bytes const room = room_for(size, alignment);
    chunk_sizes const needed = memory_.sizes_for(size);
    chunks_held const lock{memory_.shared()};
    lock.require();
    auto const base = find_chunk_at_hand(needed, alignment, room);
    return base ? this->record_allocation(*base, size) : nullptr;
  }
  /// @}

 private:
  using base_pool::arena;
  using base_pool::memory_;
  using base_pool::slices;
  using typename base_pool::chunks_held;

  /// For any thread: the pool's slice block that has the address; nullptr if there is none.
  [[nodiscard]] slice_block* block_of(std::uint64_t base) {
    if (base >= object_starts::end) return nullptr;
    return arena().chunks().public_view().own_slice_block_of(base);
  }
  /// For any thread: lets the owner free a slice. Returns false if the slice is not in use.
  static bool free_later(slice_block& block, std::uint64_t base, returned_slices& freed) noexcept {
    auto const [number, slice] = block.look(base);
    return !slice.has_flags() && freed.add(block, number);
  }

  /// The bytes that a chunk needs beyond its size, so that it can be cut at a multiple of
  /// `alignment`. Throws `bad_argument`.
  [[nodiscard]] bytes room_for(bytes size, bytes alignment) const {
    if (alignment == 1) return 0;
    return room_to_align("pool", size, alignment, memory_.options().alignment);
  }

  // --- With the lock of shared chunks.

  [[nodiscard]] std::optional<std::uint64_t> find_chunk_at_hand(chunk_sizes needed, bytes alignment,
                                                                bytes room) {
    auto base = arena().allocate_from_cached(needed, alignment);
    if (base) return base;
    base = arena().allocate_from_free({needed.requested, needed.granted + room});
    if (base && room != 0) base = arena().trim(*base, needed, alignment);
    return base;
  }
  void deallocate_for_another(void* pointer, returned_slices& marked) noexcept {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (slice_block* const block = block_of(base)) {
      if (!free_later(*block, base, marked)) memory_.shared().count_refused();
      return;
    }
    auto const size =
        arena().deallocate(base, [&] { this->registered().tracking()->forget(base); });
    size ? memory_.shared().count_free(size.requested, size.granted)
         : memory_.shared().count_refused();
  }
  void count_work_of_others() noexcept {
    auto const work = memory_.shared().take_work();
    this->allocations_ += work.allocations;
    this->invalid_frees_ += work.refused;
    memory_.count_free(work.freed);  // first, so that the peak has no allocation twice
    memory_.count_allocation(work.allocated);
  }

  // --- Slices.

  /// Frees slice `first + i` for each bit i. The last free may dissolve the block.
  void deallocate_slices(slice_block& slice_block, std::uint32_t first,
                         std::uint64_t bits) noexcept {
    while (bits != 0) {
      auto const freed = slices().deallocate(slice_block, first, bits);
      memory_.count_free(freed.requested);
      bits &= ~freed.bits;
      if (freed.has_work) {
        this->finish_slice_free(slice_block);
      } else if (bits != 0) {  // the lowest slice is free already
        ++this->invalid_frees_;
        bits &= bits - 1;
      }
    }
  }
  void count(slices::freed_elsewhere const& freed) noexcept {
    memory_.count_free(freed.requested);
    this->invalid_frees_ += freed.refused;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
