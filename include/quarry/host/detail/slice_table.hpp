// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/returned_slices.hpp"
#include "quarry/host/detail/slice_block_store.hpp"
#include "quarry/host/detail/slice_list.hpp"

#include <array>
#include <bit>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// The slice blocks of a pool, and the map pages that pools lend each other.
///
/// Pools that `share` their slices lend map pages. Another thread puts slices that threads have
/// freed into the blocks, although the owner is in no call (`lend`). A block without slices in use
/// becomes spare, and the other pool borrows its map page. When the borrower's own block there has
/// no slices in use, the map page returns to the lender's spare blocks, or the next borrower gets
/// it. A spare block returns to the memory of its pool when the owner next needs a block or calls
/// `release`.
///
/// Guarded by: the mutex of shared slices, except where a member says otherwise. Slices that are
/// not shared need no mutex. A mutex suffices, because most calls of the owner use quick lists
/// only, and the others hold it once for half a quick list. Rejected: blocks that threads take
/// without a lock. Each group would need a state beside its bits, each block a state with a
/// version, and the counts would have two writers. No thread holds two of these mutexes, or holds
/// one while it calls the resource. A thread that lends holds it for at most 16 groups. If the
/// mutex is lost in the child of a fork, the slices in the blocks stay unused there.
class slice_table {
 public:
  slice_table(slice_table const&) = delete;
  slice_table& operator=(slice_table const&) = delete;

  /// The slice block that contains `address`; nullptr if no slice block does.
  [[nodiscard]] slice_block* find_block(std::uint64_t address) const {
    // Most pools have all their blocks in the addresses of one leaf, which needs one load.
    std::uint64_t const offset = address - recent_begin_;
    if (offset < recent_bytes_) [[likely]]
      return recent_leaf_->at(offset);
    return address < end_of_map_ ? slice_map_->at(address) : nullptr;
  }
  /// The map for readers; nullptr before there may be blocks.
  [[nodiscard]] slice_map* map() const { return slice_map_; }
  /// The pool's map pages that are slice blocks, with those that are spare or lent.
  [[nodiscard]] std::size_t blocks() const {
    guard const lock{mutex_};
    return own_blocks();
  }

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
  /// For the owner: whether there are such slices that it has not counted. May miss the latest.
  [[nodiscard]] bool has_freed_elsewhere() const { return has_freed_elsewhere_; }
  /// For the owner: whether one of its blocks is spare.
  [[nodiscard]] bool has_spare() const { return spare_ != nullptr; }
  /// For any thread: whether `lend` may find a map page. May be wrong, because the owner works
  /// meanwhile.
  [[nodiscard]] bool may_lend(returned_slices const& returned) const {
    return spare_ != nullptr || ended_loans_ != nullptr || !returned.is_empty();
  }
  /// For any thread: a block whose map page the caller may borrow (`borrow`) until it calls
  /// `take_back`. Puts up to `max_groups` groups of `returned` into the blocks until a block has no
  /// slices in use; decreases `max_groups` by at least their number. Returns nullptr if no block is
  /// spare.
  [[nodiscard]] slice_block* lend(returned_slices& returned, std::size_t& max_groups) {
    constexpr std::size_t groups_at_once = 16;
    while (may_lend(returned) && max_groups != 0) {
      guard const lock{mutex_};
      if (!lock) return nullptr;
      for (std::size_t i = 0; i < groups_at_once && max_groups != 0; ++i, --max_groups) {
        if (spare_ != nullptr || ended_loans_ != nullptr) break;
        bool const has_taken =
            returned.take([this](slice_block const& block) { return owns(block); },
                          [this](slice_block& block, std::uint32_t first, std::uint64_t bits) {
                            put_returned(block, first, bits);
                            has_freed_elsewhere_ = true;
                          });
        if (!has_taken) break;
      }
      if (max_groups != 0) --max_groups;  // so that the loop ends, whatever the list has
      if (slice_block* const ended = ended_loans_) {
        ended_loans_ = ended->next;
        return ended;
      }
      if (slice_block* const lent = take_spare()) {
        lent->set_use(slice_block::map_page_use::lent);
        lent->lender = this;
        return lent;
      }
    }
    return nullptr;
  }
  /// For any thread: ends the loan of a block that `lend` returned.
  void take_back(slice_block& block) noexcept {
    guard const lock{mutex_};
    block.set_loan(nullptr);
    if (lock) add_spare(block);
  }

 protected:
  static constexpr std::uint32_t step_bits = 3;
  static constexpr std::uint32_t classes = 48;        // with alignment 16; else fewer
  static constexpr std::uint32_t largest_shift = 10;  // 4 classes
  static_assert(slice_block::max_slice == slice_block::min_slice << 2 * (step_bits + 1));

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
    return class_of(block.slice());
  }
  [[nodiscard]] bytes slice_of(std::uint32_t index) const {
    std::uint32_t const doubling = index < 16 ? 0 : (index >> step_bits) - 1;
    return bytes{index - (doubling << step_bits) + 1} << doubling << shift_;
  }

  /// Holds the mutex of shared slices. False if it is lost. Does nothing if they are not shared.
  class [[nodiscard]] guard {
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

  explicit slice_table(std::uint32_t shift) : shift_{shift} {}
  ~slice_table() = default;

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
      if (block.is_full()) link_first_used(block, [this](slice_block& unused) { retire(unused); });
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
  [[nodiscard]] slice_block* take_ended_loans() {
    slice_block* const ended = ended_loans_;
    ended_loans_ = nullptr;
    return ended;
  }

  /// Makes room for `make_block`. Throws std::bad_alloc.
  void reserve_block(std::uint64_t base, std::uint32_t index) {
    slice_map_->reserve(base, leaves_);
    make_room(blocks_, blocks_.size() + 1);
    store_.reserve(static_cast<std::uint32_t>(slice_block::size / slice_of(index)));
  }
  /// Lays out a block for a class and its quick list in the map page at `base`, which `origin`
  /// lends unless it is nullptr.
  slice_block& make_block(std::uint64_t base, std::uint32_t index, slice_list& list,
                          slice_block* origin = nullptr) {
    bytes const slice = slice_of(index);
    slice_block& fresh = store_.take(static_cast<std::uint32_t>(slice_block::size / slice));
    fresh.lay_out(base, slice, &list, origin, origin == nullptr ? 0 : number_);
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

  /// Links a block that gets its first free slice. Calls `remove(unused)` for a block without
  /// slices in use: it stays only while no other block of its class has free slices.
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
  std::uint64_t end_of_map_ = 0;  // addresses that the map can have are smaller; 0 before `begin`
  // The leaf of the latest block and its addresses; no addresses before the first block. Guarded
  // by: the owner
  std::uint64_t recent_begin_ = 0;
  bytes recent_bytes_ = 0;
  slice_map::leaf const* recent_leaf_ = nullptr;
  slice_map* slice_map_ = nullptr;
  // Threads that lend write the members from here to `partial_`. Members that few calls write keep
  // them away from the cache lines that the owner reads in each call.
  slice_map::made_leaves leaves_;
  std::vector<slice_block*> blocks_;
  slice_block_store store_;
  std::size_t borrowed_ = 0;                 // blocks in map pages of other pools
  single_writer<slice_block*> ended_loans_;  // lenders' blocks, linked by `next`
  single_writer<slice_block*> spare_;        // linked by `next`
  freed_elsewhere freed_elsewhere_;          // since the owner took the counts last
  single_writer<bool> has_freed_elsewhere_;
  std::size_t removed_ = 0;                            // slices in use and in quick lists
  std::array<std::uint32_t, classes> block_counts_{};  // the number of blocks
  std::array<slice_block*, classes> partial_{};        // the blocks with free slices
  std::array<std::uint32_t, classes> wanted_{};  // requests without a block, up to a block's slices
  mutex_held_at_fork* mutex_ = nullptr;          // of shared slices
  std::uint64_t number_ = 0;                     // the pool's number in the registry
};

}  // namespace quarry::inline QUARRY_ABI::detail
