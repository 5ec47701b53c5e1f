// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/slice_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// Small allocations of a pool, as slices of slice blocks. Slices are neither searched for, nor
/// split, nor merged.
///
/// Each multiple of the pool's alignment, up to 16 times it, has a class; above that each doubling
/// has 8 classes, up to 4 KiB. A class has a quick list of free slices. Blocks fill it and take
/// slices back, half a list at a time, so most calls touch no block. A class gets a block after as
/// many requests as the block has slices, so rare sizes cost no block. Blocks lie in the pool's
/// free memory, and the pool does not grow for them. Without a block the pool serves the request
/// as any other. A block returns to the pool when all its slices are back in it, unless it is the
/// only block of its class with free slices.
///
/// Computes with addresses and never touches their memory. Not thread-safe, like its pool, except
/// for the functions that say so. Other threads may look up slices in use through the page map.
/// O(1), except when it lays out a block.
///
/// `MapPages` supplies the memory of blocks: `allocate()` returns the address of a map page, or
/// nullopt; `deallocate(base)` returns the map page to the pool. Neither throws.
class slices : public slice_table {
 public:
  /// `alignment`: of all slices.
  explicit slices(bytes alignment)
      : slice_table{static_cast<std::uint32_t>(std::countr_zero(alignment))} {}
  /// No other thread may still look up addresses.
  ~slices() {
    for (slice_block* const block : blocks_) block->detach();
    if (rooms_ != nullptr) type_stable_deallocate(type_stable_use::slice_lists, rooms_, rooms_size);
    if (slice_map_ == nullptr) return;
    slice_map_->clear(leaves_);
    type_stable_deallocate(type_stable_use::slice_roots, slice_map_, sizeof(slice_map));
  }

  /// Allows slice blocks from now on. Does nothing if the alignment is so large that a block has
  /// too few slices. `reports_all`: `deallocate` returns true for each free. Throws std::bad_alloc.
  void begin(bool reports_all = false) {
    if (slice_map_ != nullptr || shift_ > largest_shift) return;
    guard const lock{mutex_};
    if (rooms_ == nullptr)
      rooms_ = static_cast<slice_list_room*>(
          type_stable_allocate(type_stable_use::slice_lists, rooms_size));
    slice_map_ = static_cast<slice_map*>(
        type_stable_allocate(type_stable_use::slice_roots, sizeof(slice_map)));
    for (std::uint32_t index = 0; index < classes; ++index)
      quick_[index] = slice_list{rooms_[index], slice_block::size / slice_of(index), reports_all};
    maximum_ = slice_block::max_slice;
    end_of_map_ = object_starts::end;
  }
  /// The largest size that this class serves; 0 before `begin`.
  [[nodiscard]] bytes maximum() const { return maximum_; }

  /// The quick list for allocations of `size` bytes, which is 1 to `maximum`.
  [[nodiscard]] slice_list& list_of(bytes size) { return quick_[class_of(size)]; }
  /// Takes a slice after filling its quick list from blocks. Returns nullopt if no block has a free
  /// slice and the class gets no new block.
  template <class MapPages>
  [[nodiscard]] std::optional<std::uint64_t> allocate_slowly(bytes size, MapPages const& pages) {
    guard const lock{mutex_};
    if (!lock) return std::nullopt;
    std::uint32_t const index = class_of(size);
    if (!fill(index) && add_block(index, pages)) fill(index);
    return take(quick_[index], size);
  }
  /// The same without a new block.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_blocks(bytes size) {
    guard const lock{mutex_};
    std::uint32_t const index = class_of(size);
    if (lock) fill(index);
    return take(quick_[index], size);
  }

  /// Frees slice `number` of `block`, which is in use and has the address `base`. `find_block`
  /// returned the block. Returns true if `flush` must be called before another slice of the block
  /// is freed.
  [[nodiscard]] bool deallocate(slice_block& block, std::uint64_t base, std::uint32_t number) {
    slice_block::handle const slice{base, block.bits_of(number)};
    slice.set_free();
    slice_list& list = *block.list();
    list.put(slice);
    return list.reports_free();
  }
  /// Which slices were freed, the bytes that had been requested for them, and whether `flush` must
  /// be called.
  struct freed_slices {
    std::uint64_t bits;
    bytes requested;
    bool has_work;
  };
  /// Frees slice `first + i` of `block` for each bit i, from the lowest bit on. Stops before a
  /// slice that is free, and once the pool has work to do. `bits` is not 0, and the slices have no
  /// labels.
  [[nodiscard]] freed_slices deallocate(slice_block& block, std::uint32_t first,
                                        std::uint64_t bits) {
    std::uint64_t const begin = block.begin(), size = block.slice(), all = bits;
    std::uint32_t const count = block.count();
    slice_list list = *block.list();  // a copy, because it stays in registers
    bytes requested = 0;
    for (; bits != 0 && (bits == all || !list.reports_free()); bits &= bits - 1) {
      auto const number = first + static_cast<std::uint32_t>(std::countr_zero(bits));
      auto const state = block[number];
      if (state.has_flags() || number >= count) break;
      slice_block::handle const slice{begin + number * size, block.bits_of(number)};
      slice.set_free();
      list.put(slice);
      requested += state.requested();
    }
    *block.list() = list;
    return {all & ~bits, requested, bits != all && list.reports_free()};
  }
  /// If the quick list of a block's class is full, returns its older half to the blocks. If
  /// `has_pages` is false, because `pages` must not be used, nobody gets these slices.
  template <class MapPages>
  void flush(slice_block const& block, MapPages const& pages, bool has_pages = true) {
    std::uint32_t const index = class_of(block);
    std::ptrdiff_t const count = quick_[index].count();
    if (count != capacity_of(index)) return;
    slice_block* ended = nullptr;
    {
      guard const lock{mutex_};
      flush(index, count / 2, lock && has_pages ? &pages : nullptr);
      ended = take_ended_loans();
    }
    give_back(ended);
  }
  /// Returns all blocks without slices in use to the pool, and map pages that it borrowed to their
  /// pools. Returns false if no map page returned to the pool.
  template <class MapPages>
  bool release(MapPages const& pages) {
    std::size_t old_count = 0, count = 0;
    slice_block* ended = nullptr;
    {
      guard const lock{mutex_};
      if (!lock) return false;
      old_count = own_blocks();
      return_spares(pages, old_count);
      for (std::uint32_t index = 0; !blocks_.empty() && index < classes; ++index) {
        flush(index, quick_[index].count(), &pages);
        if (slice_block* const last = partial_[index]; last != nullptr && last->removed() == 0)
          return_block(*last, pages);
      }
      store_.release();
      count = own_blocks();
      ended = take_ended_loans();
    }
    give_back(ended);
    return count != old_count;
  }

  /// @name Slices that pools share.
  /// @{

  /// For the owner: takes the freed slices of a group. Calls `work(block, first, bits)` without the
  /// mutex for as many as their quick list has room for, and puts the others into the block. So no
  /// list is full afterwards, and the mutex is taken once. Returns false if there are none. Also
  /// calls `count(freed_elsewhere)`.
  template <class Work, class Count>
  bool take_returned(returned_slices& returned, Work const& work, Count const& count) {
    slice_block* found = nullptr;
    std::uint32_t number = 0;
    std::uint64_t taken = 0;
    bool has_taken = false;
    {
      guard const lock{mutex_};
      if (!lock) return false;
      has_taken = returned.take([this](slice_block const& block) { return owns(block); },
                                [&](slice_block& block, std::uint32_t first, std::uint64_t bits) {
                                  found = &block;
                                  number = first;
                                  taken = bits_for_list(block, bits);
                                  if (taken != bits) put_returned(block, first, bits & ~taken);
                                });
      count(take_freed_elsewhere());
    }
    if (taken != 0) work(*found, number, taken);
    return has_taken;
  }
  /// For the owner: calls `count(freed_elsewhere)`.
  template <class Count>
  void count_freed_elsewhere(Count const& count) {
    guard const lock{mutex_};
    if (lock) count(take_freed_elsewhere());
  }
  /// Whether the class of `size` had as many requests as a block has slices.
  [[nodiscard]] bool is_due(bytes size) const {
    guard const lock{mutex_};
    std::uint32_t const index = class_of(size);
    return wanted_[index] >= slice_block::size / slice_of(index);
  }
  /// Lays out a block for allocations of `size` bytes in the map page of `origin`, which `lend` of
  /// another pool returned. If this pool itself is the lender, because a borrower passed the loan
  /// on, only ends the loan. Throws std::bad_alloc; then the caller ends the loan.
  void borrow(slice_block& origin, bytes size) {
    if (origin.lender == this) return take_back(origin);
    guard const lock{mutex_};
    if (!lock) throw std::bad_alloc{};
    std::uint32_t const index = class_of(size);
    reserve_block(origin.begin(), index);
    origin.set_loan(&make_block(origin.begin(), index, quick_[index], &origin));
    ++borrowed_;
  }
  /// @}

  /// O(classes), so that no allocation and no free counts.
  [[nodiscard]] std::size_t in_use() const {
    guard const lock{mutex_};
    return count_in_use();
  }
  /// Bytes of bookkeeping: resident pages and lists. O(pages), by system calls. Needs no mutex,
  /// because threads that lend change none of these sizes.
  [[nodiscard]] bytes footprint() const {
    if (slice_map_ == nullptr) return 0;
    return blocks_.capacity() * sizeof(void*) + type_stable_resident(rooms_, rooms_size) +
           slice_map_->resident(leaves_) + store_.footprint();
  }
  /// Describes each violated invariant; empty if there is none.
  [[nodiscard]] std::vector<std::string> audit() const {
    guard const lock{mutex_};
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* problem, std::uint64_t address) {
      if (!holds) problems.push_back(std::string{problem} + " at " + std::to_string(address));
    };
    auto const is_own = [](slice_block const& block) {
      return block.use() == slice_block::map_page_use::own;
    };
    std::size_t removed = 0, with_free = 0, listed = 0, allocated = 0, spare = 0, borrowed = 0;
    for (slice_block const* const block : blocks_) {
      expect(block->is_in_order(), "slices are linked wrongly", block->begin());
      expect(slice_map_->at(block->begin()) == block, "a slice block is not found", block->begin());
      expect(blocks_[block->position] == block, "a slice block has a wrong position",
             block->begin());
      removed += block->removed();
      allocated += block->in_use();
      with_free += !block->is_full() && is_own(*block);
      spare += block->use() == slice_block::map_page_use::spare;
      borrowed += block->origin() != nullptr;
      expect(is_own(*block) || block->removed() == 0, "a spare or lent block has slices in use",
             block->begin());
    }
    for (slice_block const* block = spare_; block != nullptr && spare != 0; block = block->next)
      --spare;
    expect(spare == 0 && borrowed == borrowed_, "blocks are counted wrongly", borrowed);
    for (std::uint32_t index = 0; index < classes; ++index) {
      for (slice_block const* block = partial_[index]; block != nullptr && listed <= blocks_.size();
           block = block->next, ++listed) {
        expect(!block->is_full() && is_own(*block) && class_of(*block) == index,
               "a slice block is in a wrong list", block->begin());
      }
      for (slice_block::handle const& slice : quick_[index]) {
        slice_block* const block = find_block(slice.base);
        expect(block != nullptr && class_of(*block) == index &&
                   block->find_base(slice.base).slice.is_free(),
               "a quick list has a slice that is not free", slice.base);
      }
    }
    expect(listed == with_free, "lists lack slice blocks with free slices", with_free);
    for (slice_block const* const block : blocks_) {
      if (!is_own(*block)) continue;
      bool const is_alone = block->prev == nullptr && block->next == nullptr;
      expect(block->removed() != 0 || is_alone, "an unused slice block is still in the pool",
             block->begin());
    }
    expect(removed == removed_ && allocated == count_in_use(), "slices are counted wrongly",
           removed);
    return problems;
  }

 private:
  static constexpr bytes rooms_size = classes * sizeof(slice_list_room);

  [[nodiscard]] std::ptrdiff_t capacity_of(std::uint32_t index) const {
    return static_cast<std::ptrdiff_t>(
        std::min<bytes>(slice_list_room::size, slice_block::size / slice_of(index)));
  }
  [[nodiscard]] std::size_t count_in_use() const {
    std::size_t result = removed_;
    for (slice_list const& list : quick_) result -= static_cast<std::size_t>(list.count());
    return result;
  }
  [[nodiscard]] static std::optional<std::uint64_t> take(slice_list& list, bytes size) {
    return list.is_empty() ? std::nullopt : std::optional{list.take(size)};
  }
  /// Fills half of a quick list from blocks. Returns false if it stays empty.
  bool fill(std::uint32_t index) {
    slice_list& list = quick_[index];
    std::ptrdiff_t const wanted = capacity_of(index) / 2;
    while (list.count() < wanted && partial_[index] != nullptr) {
      slice_block& block = *partial_[index];
      for (; list.count() < wanted && !block.is_full(); ++removed_) list.put(block.remove());
      if (block.is_full()) unlink(block);
    }
    return !list.is_empty();
  }
  [[nodiscard]] freed_elsewhere take_freed_elsewhere() {
    has_freed_elsewhere_ = false;
    return std::exchange(freed_elsewhere_, {});
  }
  /// The lowest of the freed slices `bits`, without those that would fill the quick list. A pool
  /// that asked for all reports gets all.
  [[nodiscard]] std::uint64_t bits_for_list(slice_block const& block, std::uint64_t bits) const {
    slice_list const& list = *block.list();
    auto const room = capacity_of(class_of(block)) - list.count() - 1;
    auto excess = list.reports_free() ? 0 : std::popcount(bits) - room;
    for (; excess > 0; --excess) bits &= ~std::bit_floor(bits);
    return bits;
  }
  /// Lays out a new block for a class. Returns false if the class is not due for a block, or if
  /// there is no memory.
  template <class MapPages>
  [[nodiscard]] bool add_block(std::uint32_t index, MapPages const& pages) {
    bytes const slice = slice_of(index);
    auto const count = static_cast<std::uint32_t>(slice_block::size / slice);
    if (wanted_[index] < count) {
      ++wanted_[index];
      return false;
    }
    constexpr std::size_t spares_at_once = 16;
    return_spares(pages, spares_at_once);
    auto const base = pages.allocate();
    if (!base) {  // starts to count again, so that the pool is not asked soon
      wanted_[index] = 0;
      return false;
    }
    try {
      reserve_block(*base, index);
    } catch (std::bad_alloc const&) {
      pages.deallocate(*base);
      return false;
    }
    make_block(*base, index, quick_[index]);
    return true;
  }
  /// Takes the first `count` slices out of a quick list and returns them to the blocks. If `pages`
  /// is nullptr, because the mutex is lost, nobody gets them.
  template <class MapPages>
  void flush(std::uint32_t index, std::ptrdiff_t count, MapPages const* pages) {
    slice_list& list = quick_[index];
    for (auto const* slice = list.begin(); pages != nullptr && slice != list.begin() + count;
         ++slice)
      put_back(*slice, *pages);
    list.remove_first(count);
    removed_ -= static_cast<std::size_t>(count);
  }
  template <class MapPages>
  void put_back(slice_block::handle const& slice, MapPages const& pages) {
    slice_block& block = *slice_map_->at(slice.base);
    if (block.is_full())
      link_first_used(block, [&](slice_block& unused) { return_block(unused, pages); });
    block.put(slice);
    bool const has_others = block.prev != nullptr || block.next != nullptr;
    if (block.removed() == 0 && has_others) return_block(block, pages);
  }

  bytes maximum_ = 0;
  // Guarded by: the owner
  std::array<slice_list, classes> quick_{};
  slice_list_room* rooms_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::detail
