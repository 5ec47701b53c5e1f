// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/base_table.hpp"
#include "quarry/host/registry/object_starts.hpp"
#include "quarry/host/registry/single_writer.hpp"
#include "quarry/host/registry/type_stable_memory.hpp"
#include "quarry/host/resources/make_room.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// A map page of 64 KiB that is cut into slices of one size: what of them is in use, and for how
/// many bytes.
///
/// A slice has 16 bits, so that a pointer is found, checked and freed without a search: its
/// offset divided by the slices' size is its number. Those bits are the bytes that were asked for;
/// or of a free slice the number of the next free one. Nothing lies in the memory itself. The owner
/// takes slices out of the block before they are in use, and puts them back some time after.
///
/// It lies in lasting memory. One thread writes, others may look by `find`: bits of a slice in use
/// do not change, but for its label. Memory of zeros is a block without slices.
class slice_block {
  static constexpr std::uint16_t free_flag = 0x8000, labelled_flag = 0x4000;

 public:
  static constexpr bytes size = 1 << 16;
  static constexpr bytes min_slice = 16, max_slice = 4096;
  static constexpr std::uint32_t none = 0x1fff;  // no slice has this number

  /// Makes slices of `slice` bytes, all free, of a map page that begins at `base`. Requires a
  /// block that has none.
  void lay_out(std::uint64_t base, bytes slice, std::uint32_t its_class) {
    count_ = static_cast<std::uint32_t>(size / slice);
    for (std::uint32_t i = 0; i < count_; ++i) states_[i] = free_with_next(i + 1);
    states_[count_ - 1] = free_with_next(none);
    states_[count_] = free_flag;  // what is left over of the map page
    first_free_ = 0;
    taken_ = 0;
    class_ = its_class;
    slice_ = static_cast<std::uint32_t>(slice);
    inverse_ = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + slice - 1) / slice);
    tag_ = base | ++layouts_;  // the last: see find
  }
  /// It has no map page any more.
  void give_up() { tag_ = 0; }

  [[nodiscard]] std::uint64_t begin() const { return map_page_of(tag_); }
  [[nodiscard]] bytes slice() const { return slice_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Slices that were taken out.
  [[nodiscard]] std::uint32_t taken() const { return taken_; }
  [[nodiscard]] bool is_full() const { return first_free_ == none; }
  [[nodiscard]] std::uint32_t size_class() const { return class_; }

  /// A slice that its owner has: where it begins, and its bits.
  struct handle {
    std::uint64_t base;
    single_writer<std::uint16_t>* bits;

    /// It is in use from now on; or free, and still its owner's.
    void set_in_use(bytes requested) const { *bits = static_cast<std::uint16_t>(requested); }
    void set_free() const { *bits = free_with_next(none); }
  };
  /// Takes a free slice out, which stays free. Requires that the block is not full.
  [[nodiscard]] handle take() {
    std::uint32_t const number = first_free_;
    first_free_ = states_[number] & none;
    states_[number] = free_with_next(none);
    ++taken_;
    return at(number);
  }
  /// Puts a free slice back.
  void put(handle const& one) {
    *one.bits = free_with_next(first_free_);
    first_free_ = static_cast<std::uint32_t>(one.bits - states_);
    --taken_;
  }

  /// What its 16 bits say of a slice.
  class state {
   public:
    explicit state(std::uint16_t bits) : bits_{bits} {}
    [[nodiscard]] bool is_free() const { return (bits_ & free_flag) != 0; }
    [[nodiscard]] bool is_labelled() const { return (bits_ & labelled_flag) != 0; }
    [[nodiscard]] bytes requested() const { return bits_ & none; }

   private:
    std::uint16_t bits_;
  };
  [[nodiscard]] state operator[](std::uint32_t number) const { return state{states_[number]}; }

  /// A slice, and its state. If none begins at the address that was asked about, a free one.
  struct found {
    std::uint32_t number;
    state what;
  };
  /// The slice that begins at an address of this map page.
  [[nodiscard]] found find_base(std::uint64_t base) const {
    auto const offset = static_cast<std::uint32_t>(base % size);
    std::uint32_t const number = quotient(offset);
    return {number, number * slice_ == offset ? (*this)[number] : state{free_flag}};
  }
  [[nodiscard]] handle at(std::uint32_t number) {
    return {begin() + std::uint64_t{number} * slice_, &states_[number]};
  }
  void set_labelled(std::uint32_t number) {
    states_[number] = static_cast<std::uint16_t>(states_[number] | labelled_flag);
  }

  /// For any thread: what is in use at an address, whose map page was this one just now.
  ///
  /// A block that is given up may be laid out anew while somebody looks. Its tag is 0 before
  /// anything else of it changes, so who has seen any of what is new (S) sees that, or a later tag,
  /// by the look at it that comes last. Tags of one map page differ until 2^16 layouts later: who
  /// pauses for just as many may be told of a slice that never was.
  [[nodiscard]] chunk_record find(std::uint64_t address) const {
    std::uint64_t const tag = tag_.load_acquire(), base = map_page_of(tag);
    if (base == 0 || address - base >= size) return {};
    std::uint32_t const slice = slice_.load_acquire();
    auto const number =
        static_cast<std::uint32_t>((address - base) * inverse_.load_acquire() >> 32);
    if (number >= count_.load_acquire()) return {};
    chunk_record const there = record_of(base, number, slice);
    return there.has(address) && tag_.load_acquire() == tag ? there : chunk_record{};
  }
  /// For any thread: calls `visit(record)` for each slice in use.
  template <class Visit>
  void for_each(Visit const& visit) const {
    std::uint64_t const tag = tag_.load_acquire(), base = map_page_of(tag);
    if (base == 0) return;
    std::uint32_t const slice = slice_.load_acquire(), count = count_.load_acquire();
    for (std::uint32_t number = 0; number < count; ++number) {
      auto const there = record_of(base, number, slice);
      if (there && tag_.load_acquire() == tag) visit(there);
    }
  }

  /// For audits: the slices that are not taken are free, and linked.
  [[nodiscard]] bool is_in_order() const {
    std::uint32_t free = 0;
    for (std::uint32_t at = first_free_; at != none; at = states_[at] & none) {
      if (at >= count_ || !(*this)[at].is_free() || ++free > count_) return false;
    }
    return free + taken_ == count_;
  }

  slice_block *before, *behind;  // links of its owner's list
  std::size_t position;          // in its owner's table

 private:
  [[nodiscard]] static std::uint16_t free_with_next(std::uint32_t next) {
    return static_cast<std::uint16_t>(free_flag | next);
  }
  /// offset / slice: exact, since the inverse is rounded up by less than 2^12 / 2^32, and 2^12
  /// times 2^16 is less than 2^32.
  [[nodiscard]] std::uint32_t quotient(std::uint32_t offset) const {
    return static_cast<std::uint32_t>(std::uint64_t{offset} * inverse_ >> 32);
  }
  [[nodiscard]] static std::uint64_t map_page_of(std::uint64_t tag) { return tag / size * size; }
  [[nodiscard]] chunk_record record_of(std::uint64_t base, std::uint32_t number,
                                       std::uint32_t slice) const {
    state const what{states_[number].load_acquire()};
    if (what.is_free()) return {};
    return {base + std::uint64_t{number} * slice, what.requested(), what.is_labelled()};
  }

  single_writer<std::uint64_t>
      tag_;  // where the map page begins, and layouts_ in the lowest 16 bits
  single_writer<std::uint32_t> slice_, inverse_, count_;
  std::uint32_t first_free_ = 0, taken_ = 0, class_ = 0;
  std::uint16_t layouts_ = 0;  // wraps
  single_writer<std::uint16_t> states_[size / min_slice + 1];
};

/// From map pages of 64 KiB to their slice blocks, for addresses below 2^48.
///
/// One thread writes, others may look: two loads. It lies in lasting memory; zeros have no blocks.
/// Costs 8 bytes a map page, by pages that were written to.
class slice_map {
 public:
  /// The leaves that there are, for the one thread that writes.
  using made_leaves = std::vector<std::uint32_t>;

  /// Sees to it that [begin, begin + slice_block::size) can have a block, and adds a new leaf to
  /// `made`. Throws std::bad_alloc.
  void reserve(std::uint64_t base, made_leaves& made) {
    auto& its = leaves_[base / leaf_bytes];
    if (its != nullptr) return;
    make_room(made, made.size() + 1);
    its = static_cast<leaf*>(type_stable_allocate(type_stable_use::slice_leaves, sizeof(leaf)));
    made.push_back(static_cast<std::uint32_t>(base / leaf_bytes));
  }
  /// Requires that the address was reserved. nullptr: no block is there any more.
  void set(std::uint64_t base, slice_block* block) {
    leaf* const its = leaves_[base / leaf_bytes];
    its->blocks[base % leaf_bytes / slice_block::size] = block;
  }

  /// The block that has `address`, below 2^48; nullptr if none has. For its writer.
  [[nodiscard]] slice_block* at(std::uint64_t address) const {
    leaf const* const its = leaves_[address / leaf_bytes];
    return its == nullptr
               ? nullptr
               : static_cast<slice_block*>(its->blocks[address % leaf_bytes / slice_block::size]);
  }
  /// The same for any thread.
  [[nodiscard]] slice_block const* look(std::uint64_t address) const {
    leaf const* const its = leaves_[address / leaf_bytes].load_acquire();
    return its == nullptr ? nullptr
                          : its->blocks[address % leaf_bytes / slice_block::size].load_acquire();
  }

  /// Gives the leaves back.
  void clear(made_leaves& made) noexcept {
    for (std::uint32_t const at : made) {
      type_stable_deallocate(type_stable_use::slice_leaves, leaves_[at], sizeof(leaf));
      leaves_[at] = nullptr;
    }
    made.clear();
  }
  /// Bytes of pages that are resident, with those of the leaves. O(pages).
  [[nodiscard]] bytes resident(made_leaves const& made) const {
    bytes sum = type_stable_resident(this, sizeof(*this)) + made.capacity() * sizeof(made[0]);
    for (std::uint32_t const at : made) sum += type_stable_resident(leaves_[at], sizeof(leaf));
    return sum;
  }

 private:
  static constexpr std::uint32_t root_bits = 17;
  static constexpr std::uint64_t leaves = std::uint64_t{1} << root_bits;
  static constexpr std::uint64_t leaf_bytes = object_starts::end / leaves;

  struct leaf {
    single_writer<slice_block*> blocks[leaf_bytes / slice_block::size];
  };

  single_writer<leaf*> leaves_[leaves];
};

}  // namespace quarry::inline QUARRY_ABI
