// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/returned_slices.hpp"
#include "quarry/host/detail/slice_block_store.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// The storage of a quick list of slices, in type-stable memory. Most of it is never written to.
struct slice_list_room {
  static constexpr std::uint32_t size = 128;
  slice_block::handle slices[size];
};

/// Free slices of a class, the latest last; together they are at most as large as a block.
class slice_list {
 public:
  slice_list() = default;
  /// `maximum`: of the list's slices. `reports_all`: `reports_free` is always true.
  slice_list(slice_list_room& storage, bytes maximum, bool reports_all)
      : begin_{storage.slices},
        end_{storage.slices},
        reported_{reports_all ? begin_ : begin_ + std::min<bytes>(slice_list_room::size, maximum)} {
  }

  [[nodiscard]] bool is_empty() const { return end_ == begin_; }
  /// Whether the pool has work to do after a slice was put into the list, because the list is full
  /// or because the pool asked for all reports.
  [[nodiscard]] bool reports_free() const { return end_ >= reported_; }
  [[nodiscard]] std::ptrdiff_t count() const { return end_ - begin_; }
  [[nodiscard]] slice_block::handle const* begin() const { return begin_; }
  [[nodiscard]] slice_block::handle const* end() const { return end_; }

  /// Takes the latest slice for `size` bytes and returns its address. Requires a list that is
  /// not empty.
  [[nodiscard]] std::uint64_t take(bytes size) {
    slice_block::handle const& slice = *--end_;
    slice.set_in_use(size);
    return slice.base;
  }
  /// Requires a list that is not full.
  void put(slice_block::handle const& slice) { *end_++ = slice; }
  void remove_first(std::ptrdiff_t removed) { end_ = std::copy(begin_ + removed, end_, begin_); }

 private:
  slice_block::handle *begin_ = nullptr, *end_ = nullptr, *reported_ = nullptr;
};

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
/// Computes with addresses and never touches their memory. Not thread-safe, like its pool. Other
/// threads may look up slices in use through the page map. O(1), except when it lays out a block.
///
/// `MapPages` supplies the memory of blocks: `allocate()` returns the address of a map page, or
/// nullopt; `deallocate(base)` returns the map page to the pool. Neither throws.
///
/// Pools that `share` their slices lend each other map pages. Another thread then puts slices that
/// threads have freed into the blocks, although the owner is in no call (`lend`). A block without
/// slices in use becomes spare, and the other pool borrows its map page. The borrower gives the map
/// page back when its own block there has no slices in use. A spare block returns to the owner's
/// pool when the owner next needs a block or calls `release`.
///
/// A mutex guards the blocks, their lists and the list of returned slices then. The owner alone
/// uses the quick lists, without the mutex. So most of its calls take no lock; the others take it
/// once for half a quick list. No thread holds two of these mutexes, nor one of them while it calls
/// the resource. A thread holds it for at most 16 groups of returned slices, except in `release`.
/// If the mutex is lost in the child of a fork, slices in the blocks stay unused.
class slices {
 public:
  /// `alignment`: of all slices.
  explicit slices(bytes alignment)
      : shift_{static_cast<std::uint32_t>(std::countr_zero(alignment))} {}
  slices(slices const&) = delete;
  slices& operator=(slices const&) = delete;
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
  /// The map for readers; nullptr before `begin`.
  [[nodiscard]] slice_map* map() const { return slice_map_; }

  /// The quick list for allocations of `size` bytes, which is 1 to `maximum`.
  [[nodiscard]] slice_list& list_of(bytes size) { return quick_[class_of(size)]; }
  /// Takes a slice after filling its quick list from blocks. Returns nullopt if no block has a free
  /// slice and the class gets no new block.
  template <class MapPages>
  [[nodiscard]] std::optional<std::uint64_t> allocate_slowly(bytes size, MapPages const& pages) {
    guard const lock{mutex_};
    if (!lock) return std::nullopt;
    std::uint32_t const index = class_of(size);
    slice_list& list = quick_[index];
    std::ptrdiff_t const wanted = capacity_of(index) / 2;
    while (list.count() < wanted) {
      slice_block* const block = partial_[index];
      if (block == nullptr) {
        if (!list.is_empty() || !add_block(index, pages)) break;
        continue;
      }
      for (; list.count() < wanted && !block->is_full(); ++removed_) list.put(block->remove());
      if (block->is_full()) unlink(*block);
    }
    return list.is_empty() ? std::nullopt : std::optional{list.take(size)};
  }

  /// The slice block that contains `address`; nullptr if no slice block does.
  [[nodiscard]] slice_block* find_block(std::uint64_t address) const {
    // Most pools have all their blocks in the addresses of one leaf, which needs one load.
    std::uint64_t const offset = address - recent_begin_;
    if (offset < recent_bytes_) [[likely]]
      return recent_leaf_->at(offset);
    return address < end_of_map_ ? slice_map_->at(address) : nullptr;
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
  /// If the quick list of a block's class is full, returns its older half to the blocks.
  template <class MapPages>
  void flush(slice_block const& block, MapPages const& pages) {
    std::uint32_t const index = class_of(block);
    std::ptrdiff_t const count = quick_[index].count();
    if (count != capacity_of(index)) return;
    slice_block* ended = nullptr;
    {
      guard const lock{mutex_};
      flush(index, count / 2, lock ? &pages : nullptr);
      ended = std::exchange(ended_loans_, nullptr);
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
      ended = std::exchange(ended_loans_, nullptr);
    }
    give_back(ended);
    return count != old_count;
  }

  /// @name Slices that pools share.
  /// @{

  /// Lets other threads call `lend`. Requires a pool without slice blocks. `number`: the pool's
  /// number in the registry.
  void share(mutex_held_at_fork& mutex, std::uint64_t number) {
    mutex_ = &mutex;
    number_ = number;
  }
  /// Bytes that had been requested for slices that other threads put into the blocks, and how many
  /// slices they refused because these were free.
  struct freed_elsewhere {
    bytes requested = 0;
    std::uint64_t refused = 0;
  };
  /// For the owner: takes the freed slices of a group, and calls `work(block, first, bits)` without
  /// the mutex. Returns false if there are none. Also calls `count(freed_elsewhere)`.
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
                                  taken = bits;
                                });
      count(std::exchange(freed_elsewhere_, {}));
    }
    if (taken != 0) work(*found, number, taken);
    return has_taken;
  }
  /// For any thread: whether `lend` may find a map page. May be wrong, because the owner works
  /// meanwhile.
  [[nodiscard]] bool may_lend(returned_slices const& returned) const {
    return spare_ != nullptr || !returned.is_empty();
  }
  /// For any thread: a block whose map page the caller may borrow (`borrow`) until it calls
  /// `take_back`. Puts up to `max_groups` groups of `returned` into the blocks until a block has no
  /// slices in use; decreases `max_groups` by their number. Returns nullptr if no block is spare.
  [[nodiscard]] slice_block* lend(returned_slices& returned, std::size_t& max_groups) {
    constexpr std::size_t groups_at_once = 16;
    while (may_lend(returned)) {
      guard const lock{mutex_};
      if (!lock) return nullptr;
      for (std::size_t i = 0; i < groups_at_once && max_groups != 0; ++i, --max_groups) {
        if (spare_ != nullptr || ended_loans_ != nullptr) break;
        bool const has_taken = returned.take(
            [this](slice_block const& block) { return owns(block); },
            [this](slice_block& block, std::uint32_t first, std::uint64_t bits) {
              put_returned(block, first, bits);
            });
        if (!has_taken) break;
      }
      if (ended_loans_ != nullptr) return std::exchange(ended_loans_, ended_loans_->next);
      if (slice_block* const lent = take_spare()) {
        lent->set_use(slice_block::map_page_use::lent);
        lent->lender = this;
        return lent;
      }
      if (max_groups == 0) return nullptr;
    }
    return nullptr;
  }
  /// For any thread: ends the loan of a block that `lend` returned.
  void take_back(slice_block& block) noexcept {
    guard const lock{mutex_};
    block.set_loan(nullptr);
    if (lock) add_spare(block);
  }
  /// Whether the next allocation of `size` bytes needs a new block. `at_once`: although the class
  /// had fewer requests than a block has slices.
  [[nodiscard]] bool needs_block(bytes size, bool at_once) const {
    guard const lock{mutex_};
    std::uint32_t const index = class_of(size);
    return lock && quick_[index].is_empty() && partial_[index] == nullptr &&
           (at_once || wanted_[index] >= slice_block::size / slice_of(index));
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
    origin.set_loan(&make_block(origin.begin(), index, &origin));
    ++borrowed_;
  }
  /// @}

  /// O(classes), so that no allocation and no free counts.
  [[nodiscard]] std::size_t in_use() const {
    guard const lock{mutex_};
    return count_in_use();
  }
  /// The pool's map pages that are slice blocks, with those that are spare or lent.
  [[nodiscard]] std::size_t blocks() const {
    guard const lock{mutex_};
    return own_blocks();
  }
  /// Bytes of bookkeeping: resident pages and lists. O(pages), by system calls.
  [[nodiscard]] bytes footprint() const {
    guard const lock{mutex_};
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
    expect(removed == removed_ && allocated == count_in_use(), "slices are counted wrongly", removed);
    return problems;
  }

 private:
  static constexpr std::uint32_t step_bits = 3;
  static constexpr std::uint32_t classes = 48;        // with alignment 16; else fewer
  static constexpr std::uint32_t largest_shift = 10;  // 4 classes
  static_assert(slice_block::max_slice == slice_block::min_slice << 2 * (step_bits + 1));
  static constexpr bytes rooms_size = classes * sizeof(slice_list_room);

  /// The classes of 1, 2, ... units. Each number of units up to 16 has a class; above, each
  /// doubling has 8 classes.
  static constexpr std::size_t max_units = slice_block::max_slice / slice_block::min_slice;
  static constexpr auto class_of_units = [] {
    std::array<std::uint8_t, max_units> result{};
    for (std::uint32_t last = 0; last < max_units; ++last) {
      auto const doubling = static_cast<std::uint32_t>(std::bit_width(last | 15)) - step_bits - 1;
      result[last] = static_cast<std::uint8_t>((doubling << step_bits) + (last >> doubling));
    }
    return result;
  }();
  [[nodiscard]] std::uint32_t class_of(bytes size) const {
    return class_of_units[(size - 1) >> shift_];
  }
  [[nodiscard]] std::uint32_t class_of(slice_block const& block) const {
    return static_cast<std::uint32_t>(block.list() - quick_.data());
  }
  [[nodiscard]] std::ptrdiff_t capacity_of(std::uint32_t index) const {
    return static_cast<std::ptrdiff_t>(
        std::min<bytes>(slice_list_room::size, slice_block::size / slice_of(index)));
  }
  [[nodiscard]] bytes slice_of(std::uint32_t index) const {
    std::uint32_t const doubling = index < 16 ? 0 : (index >> step_bits) - 1;
    return bytes{index - (doubling << step_bits) + 1} << doubling << shift_;
  }

  /// Holds the mutex of shared slices. False if it is lost. Does nothing if they are not shared.
  class guard {
   public:
    explicit guard(mutex_held_at_fork* mutex)
        : mutex_{mutex}, is_locked_{mutex != nullptr && mutex->lock_unless_lost()} {}
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() {
      if (is_locked_) mutex_->unlock();
    }
    explicit operator bool() const { return is_locked_ || mutex_ == nullptr; }

   private:
    mutex_held_at_fork* mutex_;
    bool is_locked_;
  };

  [[nodiscard]] std::size_t count_in_use() const {
    std::size_t result = removed_;
    for (slice_list const& list : quick_) result -= static_cast<std::size_t>(list.count());
    return result;
  }
  [[nodiscard]] std::size_t own_blocks() const { return blocks_.size() - borrowed_; }
  [[nodiscard]] bool owns(slice_block const& block) const {
    std::uint64_t const base = block.begin();
    return base < object_starts::end && slice_map_->at(base) == &block;
  }
  /// Puts slice `first + i` into its block for each bit i. No quick list has these slices.
  void put_returned(slice_block& block, std::uint32_t first, std::uint64_t bits) {
    bool has_put = false;
    for (; bits != 0; bits &= bits - 1) {
      auto const number = first + static_cast<std::uint32_t>(std::countr_zero(bits));
      auto const state = block[number];
      if (state.has_flags() || number >= block.count()) {
        ++freed_elsewhere_.refused;
        continue;
      }
      freed_elsewhere_.requested += state.requested();
      if (block.is_full())
        link_first_used(block, [this](slice_block& unused) { retire(unused); });
      block.put(block.at(number));
      --removed_;
      has_put = true;
    }
    if (has_put && block.removed() == 0) retire(block);
  }
  /// Makes a block without slices in use spare, or ends its loan.
  void retire(slice_block& block) {
    unlink(block);
    forget_block_of(class_of(block));
    block.origin() == nullptr ? add_spare(block) : end_loan(block);
  }
  /// Removes a block, which is in no list, from a map page that another pool lends.
  void end_loan(slice_block& block) {
    slice_block* const origin = block.origin();
    remove_block(block);
    --borrowed_;
    origin->next = ended_loans_;
    ended_loans_ = origin;
  }
  void add_spare(slice_block& block) {
    block.set_use(slice_block::map_page_use::spare);
    block.next = spare_;
    spare_ = &block;
  }
  /// nullptr if no block is spare.
  [[nodiscard]] slice_block* take_spare() {
    slice_block* const block = spare_;
    if (block != nullptr) spare_ = block->next;
    return block;
  }
  /// Returns the map pages of up to `maximum` spare blocks to the pool.
  template <class MapPages>
  void return_spares(MapPages const& pages, std::size_t maximum) {
    for (; spare_ != nullptr && maximum != 0; --maximum) {
      slice_block& block = *take_spare();
      std::uint64_t const base = block.begin();
      remove_block(block);
      pages.deallocate(base);
    }
  }
  /// Gives lenders their map pages back. Must not be called with the mutex, because it takes those
  /// of the lenders.
  static void give_back(slice_block* ended_loans) noexcept {
    while (ended_loans != nullptr) {
      slice_block& origin = *std::exchange(ended_loans, ended_loans->next);
      origin.lender->take_back(origin);
    }
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
    make_block(*base, index, nullptr);
    return true;
  }
  /// Makes room for `make_block`. Throws std::bad_alloc.
  void reserve_block(std::uint64_t base, std::uint32_t index) {
    slice_map_->reserve(base, leaves_);
    make_room(blocks_, blocks_.size() + 1);
    store_.reserve(static_cast<std::uint32_t>(slice_block::size / slice_of(index)));
  }
  /// Lays out a block for a class in the map page at `base`, which `origin` lends unless it is
  /// nullptr.
  slice_block& make_block(std::uint64_t base, std::uint32_t index, slice_block* origin) {
    bytes const slice = slice_of(index);
    slice_block& fresh = store_.take(static_cast<std::uint32_t>(slice_block::size / slice));
    fresh.lay_out(base, slice, &quick_[index], origin, origin == nullptr ? 0 : number_);
    fresh.position = blocks_.size();
    blocks_.push_back(&fresh);
    ++block_counts_[index];
    link(fresh);
    slice_map_->set(base, &fresh);
    recent_leaf_ = &slice_map_->leaf_of(base);
    recent_begin_ = base / slice_map::leaf_bytes * slice_map::leaf_bytes;
    recent_bytes_ = slice_map::leaf_bytes;
    return fresh;
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
  /// Requires that all slices of the block are in it.
  template <class MapPages>
  void return_block(slice_block& block, MapPages const& pages) {
    unlink(block);
    forget_block_of(class_of(block));
    if (block.origin() != nullptr) return end_loan(block);
    std::uint64_t const base = block.begin();
    remove_block(block);
    pages.deallocate(base);
  }
  void forget_block_of(std::uint32_t index) {
    if (--block_counts_[index] == 0) wanted_[index] = 0;
  }
  /// Removes a block, which is in no list, from the map, and keeps its bookkeeping for another.
  void remove_block(slice_block& block) {
    slice_map_->set(block.begin(), nullptr);
    blocks_[block.position] = blocks_.back();
    blocks_[block.position]->position = block.position;
    blocks_.pop_back();
    store_.keep(block);
  }

  /// Links a block that gets its first free slice. Calls `remove(unused)` for a block without slices
  /// in use: it stays only while no other block of its class has free slices.
  template <class Remove>
  void link_first_used(slice_block& block, Remove const& remove) {
    slice_block* const first = partial_[class_of(block)];
    if (first != nullptr && first->removed() == 0) remove(*first);
    link(block);
  }
  void link(slice_block& block) {
    slice_block*& first = partial_[class_of(block)];
    block.prev = nullptr;
    block.next = first;
    if (first != nullptr) first->prev = &block;
    first = &block;
  }
  void unlink(slice_block& block) {
    if (block.next != nullptr) block.next->prev = block.prev;
    (block.prev != nullptr ? block.prev->next : partial_[class_of(block)]) = block.next;
  }

  std::uint32_t shift_;
  bytes maximum_ = 0;
  std::uint64_t end_of_map_ = 0;  // addresses that the map can have are smaller; 0 before `begin`
  // The leaf of the latest block and its addresses; no addresses before the first block.
  std::uint64_t recent_begin_ = 0;
  bytes recent_bytes_ = 0;
  slice_map::leaf const* recent_leaf_ = nullptr;
  slice_map* slice_map_ = nullptr;
  slice_map::made_leaves leaves_;
  std::array<slice_list, classes> quick_{};
  slice_list_room* rooms_ = nullptr;
  std::size_t removed_ = 0;                            // slices in use and in quick lists
  std::array<slice_block*, classes> partial_{};        // the blocks with free slices
  std::array<std::uint32_t, classes> block_counts_{};  // the number of blocks
  std::array<std::uint32_t, classes> wanted_{};  // requests without a block, up to a block's slices
  std::vector<slice_block*> blocks_;
  slice_block_store store_;
  mutex_held_at_fork* mutex_ = nullptr;   // of shared slices
  std::uint64_t number_ = 0;              // the pool's number in the registry
  single_writer<slice_block*> spare_;     // linked by `next`
  std::size_t borrowed_ = 0;              // blocks in map pages of other pools
  slice_block* ended_loans_ = nullptr;    // lenders' blocks, linked by `next`, in a call
  freed_elsewhere freed_elsewhere_;       // since the owner took the counts last
};

}  // namespace quarry::inline QUARRY_ABI::detail
