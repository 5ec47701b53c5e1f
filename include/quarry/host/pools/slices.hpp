// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/slice_block.hpp"
#include "quarry/host/resources/make_room.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// Small allocations of a pool, as slices of slice blocks: neither searched for, nor split, nor
/// merged.
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
class slices {
 public:
  /// `alignment`: of all slices.
  explicit slices(bytes alignment)
      : shift_{static_cast<std::uint32_t>(std::countr_zero(alignment))} {}
  slices(slices const&) = delete;
  slices& operator=(slices const&) = delete;
  /// Requires that nobody looks any more.
  ~slices() {
    for (slice_block* const block : blocks_) keep_spare(*block);
    drop_spares(0);
    if (rooms_ != nullptr) type_stable_deallocate(type_stable_use::slice_lists, rooms_, rooms_size);
    if (slice_map_ == nullptr) return;
    slice_map_->clear(leaves_);
    type_stable_deallocate(type_stable_use::slice_roots, slice_map_, sizeof(slice_map));
  }

  /// From now on there may be blocks, unless the alignment leaves too few slices to a block. Throws
  /// std::bad_alloc.
  void begin() {
    if (slice_map_ != nullptr || shift_ > largest_shift) return;
    if (rooms_ == nullptr)
      rooms_ = static_cast<room*>(type_stable_allocate(type_stable_use::slice_lists, rooms_size));
    slice_map_ = static_cast<slice_map*>(
        type_stable_allocate(type_stable_use::slice_roots, sizeof(slice_map)));
    for (std::uint32_t index = 0; index < classes; ++index) {
      quick_[index].slices = rooms_[index].slices;
      quick_[index].maximum = static_cast<std::uint32_t>(
          std::min<bytes>(room::size, slice_block::size / slice_of(index)));
    }
    maximum_ = slice_block::max_slice;
  }
  /// The largest size that this class serves; 0 before `begin`.
  [[nodiscard]] bytes maximum() const { return maximum_; }
  /// The map for readers; nullptr before `begin`.
  [[nodiscard]] slice_map* map() const { return slice_map_; }

  /// Where a slice of 1 to `maximum` bytes begins, or nothing: `allocate_slowly`, then.
  [[nodiscard]] std::optional<std::uint64_t> allocate(bytes size) {
    quick_list& list = quick_[class_of(size)];
    if (list.count == 0) return std::nullopt;
    auto const& slice = list.slices[--list.count];
    slice.set_in_use(size);
    ++in_use_;
    return slice.base;
  }
  /// The same, from a block. Nothing, if there is none.
  template <class MapPages>
  [[nodiscard]] std::optional<std::uint64_t> allocate_slowly(bytes size, MapPages const& pages) {
    std::uint32_t const index = class_of(size);
    quick_list& list = quick_[index];
    while (list.count < list.maximum / 2) {
      slice_block* const block = partial_[index];
      if (block == nullptr) {
        if (list.count != 0 || !fresh_block(index, pages)) break;
        continue;
      }
      while (list.count < list.maximum / 2 && !block->is_full())
        list.slices[list.count++] = block->remove();
      if (block->is_full()) unlink(*block);
    }
    return list.count == 0 ? std::nullopt : allocate(size);
  }

  /// The block that has `address`; nullptr if none has.
  [[nodiscard]] slice_block* find_block(std::uint64_t address) const {
    if (slice_map_ == nullptr || address >= object_starts::end) return nullptr;
    return slice_map_->at(address);
  }
  /// Frees a slice in use, which begins at `base`, of a block that `find_block` returned. True if
  /// `flush` must be called for its class before another one is freed.
  [[nodiscard]] bool deallocate(slice_block& block, std::uint64_t base, std::uint32_t number) {
    slice_block::handle const slice{base, block.at(number).bits};
    slice.set_free();
    quick_list& list = quick_[block.size_class()];
    list.slices[list.count++] = slice;
    --in_use_;
    return list.count == list.maximum;
  }
  /// Puts the older half of a class's quick list back into blocks.
  template <class MapPages>
  void flush(std::uint32_t index, MapPages const& pages) {
    flush(index, quick_[index].count / 2, pages);
  }
  /// Gives up all blocks in which nothing is in use. False if there are none.
  template <class MapPages>
  bool release(MapPages const& pages) {
    std::size_t const before = blocks_.size();
    for (std::uint32_t index = 0; before != 0 && index < classes; ++index) {
      flush(index, quick_[index].count, pages);
      if (slice_block* const last = partial_[index]; last != nullptr && last->removed() == 0)
        return_block(*last, pages);
    }
    drop_spares(max_spares_after_release);
    return blocks_.size() != before;
  }

  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  /// Bytes of bookkeeping: of pages that are resident, and of lists. O(pages), by calls of the
  /// system.
  [[nodiscard]] bytes footprint() const {
    if (slice_map_ == nullptr) return 0;
    bytes sum = blocks_.capacity() * sizeof(void*) + type_stable_resident(rooms_, rooms_size) +
                slice_map_->resident(leaves_);
    for (slice_block const* const block : blocks_)
      sum += type_stable_resident(block, sizeof(slice_block));
    for (slice_block const* block = spares_; block != nullptr; block = block->behind)
      sum += type_stable_resident(block, sizeof(slice_block));
    return sum;
  }
  /// What is wrong; empty if nothing is.
  [[nodiscard]] std::vector<std::string> audit() const {
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* otherwise, std::uint64_t at) {
      if (!holds) problems.push_back(std::string{otherwise} + " at " + std::to_string(at));
    };
    std::size_t removed = 0, with_free = 0, listed = 0, quick = 0;
    for (slice_block const* const block : blocks_) {
      expect(block->is_in_order(), "slices are linked wrongly", block->begin());
      expect(slice_map_->at(block->begin()) == block, "a slice block is not found", block->begin());
      expect(blocks_[block->position] == block, "a slice block is elsewhere", block->begin());
      removed += block->removed();
      with_free += !block->is_full();
    }
    for (std::uint32_t index = 0; index < classes; ++index) {
      for (slice_block const* at = partial_[index]; at != nullptr && listed <= blocks_.size();
           at = at->behind, ++listed) {
        expect(!at->is_full() && at->size_class() == index, "a slice block is listed wrongly",
               at->begin());
      }
      for (std::uint32_t i = 0; i < quick_[index].count; ++i, ++quick) {
        auto const& slice = quick_[index].slices[i];
        slice_block* const block = find_block(slice.base);
        expect(block != nullptr && block->size_class() == index &&
                   block->find_base(slice.base).slice.is_free(),
               "what is in a quick list is no free slice", slice.base);
      }
    }
    expect(listed == with_free, "slice blocks are missing in lists", with_free);
    for (slice_block const* const block : blocks_) {
      bool const is_alone = block->before == nullptr && block->behind == nullptr;
      expect(block->removed() != 0 || is_alone, "a slice block is kept for nothing",
             block->begin());
    }
    expect(removed == in_use_ + quick, "slices are counted wrongly", removed);
    return problems;
  }

 private:
  static constexpr std::uint32_t step_bits = 3;
  static constexpr std::uint32_t classes = 48;        // with alignment 16; else fewer
  static constexpr std::uint32_t largest_shift = 10;  // 4 classes
  /// Slice blocks without a map page, of 12 KiB at most, so that blocks that come and go cost no
  /// calls of the system.
  static constexpr std::size_t max_spares = 4096, max_spares_after_release = 16;
  static_assert(slice_block::max_slice == slice_block::min_slice << 2 * (step_bits + 1));

  /// Free slices of a class, the latest last: of a block's bytes at most.
  struct quick_list {
    std::uint32_t count = 0, maximum = 0;
    slice_block::handle* slices = nullptr;
  };
  /// What a quick list has its slices in: lasting memory, of which little is ever written to.
  struct room {
    static constexpr std::uint32_t size = 128;
    slice_block::handle slices[size];
  };
  static constexpr bytes rooms_size = classes * sizeof(room);

  /// Up to 16 units each has its class, and then 8 to each doubling.
  [[nodiscard]] std::uint32_t class_of(bytes size) const {
    bytes const last = (size - 1) >> shift_;
    std::uint32_t const doubling = highest_one(last | 15) - step_bits;
    return (doubling << step_bits) + static_cast<std::uint32_t>(last >> doubling);
  }
  [[nodiscard]] bytes slice_of(std::uint32_t index) const {
    std::uint32_t const doubling = index < 16 ? 0 : (index >> step_bits) - 1;
    return bytes{index - (doubling << step_bits) + 1} << doubling << shift_;
  }

  /// Lays out another block of a class. False if there is none.
  template <class MapPages>
  [[nodiscard]] bool fresh_block(std::uint32_t index, MapPages const& pages) {
    bytes const slice = slice_of(index);
    if (wanted_[index] < slice_block::size / slice) {
      ++wanted_[index];
      return false;
    }
    auto const base = pages.allocate();
    if (!base) {  // and it is not asked again soon
      wanted_[index] = 0;
      return false;
    }
    try {
      slice_map_->reserve(*base, leaves_);
      make_room(blocks_, blocks_.size() + 1);
      if (spares_ == nullptr)
        keep_spare(*static_cast<slice_block*>(
            type_stable_allocate(type_stable_use::slice_blocks, sizeof(slice_block))));
    } catch (std::bad_alloc const&) {
      pages.deallocate(*base);
      return false;
    }
    slice_block& fresh = *std::exchange(spares_, spares_->behind);
    --spare_count_;
    fresh.lay_out(*base, slice, index);
    fresh.position = blocks_.size();
    blocks_.push_back(&fresh);
    ++blocks_of_[index];
    link(fresh);
    slice_map_->set(*base, &fresh);
    return true;
  }

  template <class MapPages>
  void flush(std::uint32_t index, std::uint32_t count, MapPages const& pages) {
    quick_list& list = quick_[index];
    for (std::uint32_t i = 0; i < count; ++i) put_back(list.slices[i], pages);
    std::copy(list.slices + count, list.slices + list.count, list.slices);
    list.count -= count;
  }
  template <class MapPages>
  void put_back(slice_block::handle const& slice, MapPages const& pages) {
    slice_block& block = *slice_map_->at(slice.base);
    if (block.is_full()) {
      // one of which nothing is taken stays only while it is alone
      if (slice_block* const other = partial_[block.size_class()]; other && other->removed() == 0)
        return_block(*other, pages);
      link(block);
    }
    block.put(slice);
    bool const has_others = block.before != nullptr || block.behind != nullptr;
    if (block.removed() == 0 && has_others) return_block(block, pages);
  }
  /// Requires that nothing of it is taken.
  template <class MapPages>
  void return_block(slice_block& block, MapPages const& pages) {
    unlink(block);
    std::uint64_t const base = block.begin();
    slice_map_->set(base, nullptr);
    blocks_[block.position] = blocks_.back();
    blocks_[block.position]->position = block.position;
    blocks_.pop_back();
    if (--blocks_of_[block.size_class()] == 0) wanted_[block.size_class()] = 0;
    if (spare_count_ < max_spares) {
      keep_spare(block);
    } else {
      type_stable_deallocate(type_stable_use::slice_blocks, &block, sizeof(slice_block));
    }
    pages.deallocate(base);
  }
  void keep_spare(slice_block& block) {
    block.detach();
    block.behind = std::exchange(spares_, &block);
    ++spare_count_;
  }

  void drop_spares(std::size_t max_kept) {
    for (; spare_count_ > max_kept; --spare_count_) {
      slice_block* const block = std::exchange(spares_, spares_->behind);
      type_stable_deallocate(type_stable_use::slice_blocks, block, sizeof(slice_block));
    }
  }

  void link(slice_block& block) {
    slice_block*& first = partial_[block.size_class()];
    block.before = nullptr;
    block.behind = first;
    if (first != nullptr) first->before = &block;
    first = &block;
  }
  void unlink(slice_block& block) {
    if (block.behind != nullptr) block.behind->before = block.before;
    (block.before != nullptr ? block.before->behind : partial_[block.size_class()]) = block.behind;
  }

  std::uint32_t shift_;
  bytes maximum_ = 0;
  slice_map* slice_map_ = nullptr;
  slice_map::made_leaves leaves_;
  std::array<quick_list, classes> quick_{};
  room* rooms_ = nullptr;
  std::size_t in_use_ = 0;
  std::array<slice_block*, classes> partial_{};     // the blocks with free slices
  std::array<std::uint32_t, classes> blocks_of_{};  // blocks that there are
  std::array<std::uint32_t, classes> wanted_{};     // requests without a block, up to one's slices
  std::vector<slice_block*> blocks_;
  slice_block* spares_ = nullptr;
  std::size_t spare_count_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail
