// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/base_table.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/object_starts.hpp"
#include "quarry/host/detail/single_writer.hpp"
#include "quarry/host/detail/type_stable_memory.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

class slice_list;   // slice_list.hpp
class slice_table;  // slice_table.hpp

/// Up to 64 neighbouring slices of a block, for threads that free slices of another thread. Zeroed
/// memory is a group without freed slices (returned_slices.hpp has the protocol).
struct slice_group {
  static constexpr std::uint32_t size = 64;
  using word = std::atomic<std::uint64_t>;
  word freed;          // a bit for each slice that the owner has yet to take
  std::uint64_t next;  // link. Guarded by: the thread that adds the group; the owner
};

/// The state of one map page (64 KiB) that is divided into slices of one size: which slices are in
/// use, and their requested sizes.
///
/// Each slice has 16 bits of state. A slice's number is its offset divided by the slice size. So a
/// pointer is found, checked and freed without a search. The bits of a slice in use hold the
/// requested bytes. The bits of a free slice hold the number of the next free slice. The map page
/// itself holds no bookkeeping. The owner takes slices out of the block before they are in use, and
/// puts them back some time after they are freed.
///
/// The block lies in type-stable memory. One thread writes while others read by `find`. The bits of
/// a slice in use do not change, except for its label flag. Zeroed memory is a block without
/// slices.
///
/// A pool may lend the map page of a block without slices in use to another pool, which lays out a
/// block of its own there. All slices of the lender's block are free meanwhile, so the lender
/// refuses each address of the map page. Readers reach the lender's block by the page map, and
/// continue to the borrower's block (`for_readers`).
class slice_block {
  static constexpr std::uint16_t free_flag = 0x8000, labelled_flag = 0x4000;

 public:
  using group_type = slice_group;
  static constexpr bytes size = 1 << 16;
  static constexpr bytes min_slice = 16, max_slice = 4096;
  static constexpr std::uint32_t none = 0x1fff;  // no slice has this number

  /// A block of up to `capacity` slices, a power of two, uses this many bytes: a part of this
  /// object, and the groups of its slices behind that part. A multiple of 64.
  [[nodiscard]] static constexpr bytes bytes_of(std::uint32_t capacity);
  /// The capacity of a block of `count` slices.
  [[nodiscard]] static constexpr std::uint32_t capacity_for(std::uint32_t count) {
    return std::max<std::uint32_t>(32, std::bit_ceil(count));
  }

  /// Divides the map page at `base` into free slices of `slice` bytes. Requires a block without
  /// slices. `borrowed_from`: the lender's block, nullptr if the pool has the map page itself.
  /// `borrower`: the registry's number of the pool; 0 in the latter case.
  void lay_out(std::uint64_t base, bytes slice, slice_list* list,
               slice_block* borrowed_from = nullptr, std::uint64_t borrower = 0) {
    origin_ = borrowed_from;
    borrower_ = borrower;
    use_ = map_page_use::own;
    count_ = static_cast<std::uint32_t>(size / slice);
    for (std::uint32_t i = 0; i < count_; ++i) states_[i] = free_with_next(i + 1);
    states_[count_ - 1] = free_with_next(none);
    states_[count_] = free_flag;  // the remainder of the map page
    first_free_ = 0;
    removed_ = 0;
    list_ = list;
    slice_ = static_cast<std::uint32_t>(slice);
    // Rounded up by e < 1. So an offset of q slices and r bytes, times the inverse, is
    // q * 2^32 + r * 2^32 / slice + e * offset. e * offset is below 2^16, and 2^32 / slice is at
    // least 2^20. So the upper half is q, and the lower half is below the inverse only if r is 0.
    inverse_ = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + slice - 1) / slice);
    tag_ = base | ++layouts_;  // the last store: see find
  }
  /// Detaches the block from its map page.
  void detach() { tag_ = 0; }

  [[nodiscard]] std::uint64_t begin() const { return map_page_of(tag_); }
  [[nodiscard]] bytes slice() const { return slice_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// The number of slices that the owner has taken out.
  [[nodiscard]] std::uint32_t removed() const { return removed_; }
  /// The number of slices in use. O(slices).
  [[nodiscard]] std::uint32_t in_use() const {
    std::uint32_t result = 0;
    for (std::uint32_t number = 0; number < count_; ++number) result += !(*this)[number].is_free();
    return result;
  }
  [[nodiscard]] bool is_full() const { return first_free_ == none; }
  /// The lender's block if the map page is borrowed, otherwise nullptr.
  [[nodiscard]] slice_block* origin() const { return origin_; }
  /// For any thread: the registry's number of the pool that borrows the map page; 0 if the pool to
  /// which the page map leads has it.
  [[nodiscard]] std::uint64_t borrower() const { return borrower_; }
  /// For any thread: the borrower's block if the map page is lent, otherwise nullptr.
  [[nodiscard]] slice_block* loan() const { return loan_.load_acquire(); }
  /// For any thread: the borrower's block if the map page is lent, otherwise this block.
  [[nodiscard]] slice_block* for_readers() {
    slice_block* const lent = loan();
    return lent == nullptr ? this : lent;
  }
  /// Sets the borrower's block; nullptr ends the loan. For the pool that has the map page.
  void set_loan(slice_block* block) { loan_ = block; }
  /// The owner's list of free slices of this size.
  [[nodiscard]] slice_list* list() const { return list_; }

  /// A slice that the owner has taken out: its base address and its bits.
  struct handle {
    std::uint64_t base;
    single_writer<std::uint16_t>* bits;

    /// Marks the slice as in use, or as free. A free slice stays with the owner.
    void set_in_use(bytes requested) const { *bits = static_cast<std::uint16_t>(requested); }
    void set_free() const { *bits = free_with_next(none); }
  };
  /// Takes a free slice out of the block. The slice stays free. Requires that the block is not
  /// full.
  [[nodiscard]] handle remove() {
    std::uint32_t const number = first_free_;
    first_free_ = states_[number] & none;
    states_[number] = free_with_next(none);
    ++removed_;
    return at(number);
  }
  /// Puts a free slice back.
  void put(handle const& slice) {
    *slice.bits = free_with_next(first_free_);
    first_free_ = static_cast<std::uint32_t>(slice.bits - states_);
    --removed_;
  }

  /// The 16 bits of a slice, decoded.
  class state {
   public:
    constexpr explicit state(std::uint16_t bits) : bits_{bits} {}
    [[nodiscard]] bool is_free() const { return (bits_ & free_flag) != 0; }
    [[nodiscard]] bool is_labelled() const { return (bits_ & labelled_flag) != 0; }
    /// Whether it is free or labelled.
    [[nodiscard]] bool has_flags() const { return bits_ > none; }
    [[nodiscard]] bytes requested() const { return bits_ & none; }

   private:
    std::uint16_t bits_;
  };
  [[nodiscard]] state operator[](std::uint32_t number) const { return state{states_[number]}; }

  /// A slice and its state. The state is free if the address is not the base of a slice.
  struct found {
    std::uint32_t number;
    state slice;
  };
  /// The slice whose base address is `base`, an address of this map page.
  [[nodiscard]] found find_base(std::uint64_t base) const {
    std::uint32_t const inverse = inverse_;
    std::uint64_t const product = base % size * inverse;  // see lay_out
    auto const number = static_cast<std::uint32_t>(product >> 32);
    bool const is_base = static_cast<std::uint32_t>(product) < inverse;
    return {number, is_base ? (*this)[number] : state{free_flag}};
  }
  [[nodiscard]] handle at(std::uint32_t number) {
    return {begin() + std::uint64_t{number} * slice_, bits_of(number)};
  }
  [[nodiscard]] single_writer<std::uint16_t>* bits_of(std::uint32_t number) {
    return &states_[number];
  }
  void set_labelled(std::uint32_t number) {
    states_[number] = static_cast<std::uint16_t>(states_[number] | labelled_flag);
  }

  /// For any thread: the slice in use that contains `address`. The slice map led the reader from
  /// `address` to this block.
  ///
  /// The owner may lay a detached block out again during the call. It sets the tag to 0 before any
  /// other field changes. So a reader that has loaded a new value (S) loads 0 or a newer tag when
  /// it loads the tag for the second time. The tags of one map page repeat after 2^16 layouts. A
  /// reader that pauses for exactly 2^16 layouts may find a slice that never existed.
  [[nodiscard]] chunk_record find(std::uint64_t address) const {
    std::uint64_t const tag = tag_.load_acquire(), base = map_page_of(tag);
    if (base == 0 || address - base >= size) return {};
    std::uint32_t const slice = slice_.load_acquire();
    auto const number =
        static_cast<std::uint32_t>((address - base) * inverse_.load_acquire() >> 32);
    if (number >= count_.load_acquire()) return {};
    chunk_record const record = record_of(base, number, slice);
    return record.has(address) && tag_.load_acquire() == tag ? record : chunk_record{};
  }
  /// For any thread: the slice in use whose base address is `address`, and its group. Its state is
  /// free if there is no such slice. The guarantees are those of `find`.
  [[nodiscard]] found look(std::uint64_t address) const {
    constexpr found none_in_use{0, state{free_flag}};
    std::uint64_t const tag = tag_.load_acquire(), base = map_page_of(tag);
    if (base == 0 || address - base >= size) return none_in_use;
    std::uint32_t const inverse = inverse_.load_acquire();
    std::uint64_t const product = (address - base) * inverse;  // see lay_out
    auto const number = static_cast<std::uint32_t>(product >> 32);
    if (static_cast<std::uint32_t>(product) >= inverse || number >= count_.load_acquire())
      return none_in_use;
    state const slice{states_[number].load_acquire()};
    return tag_.load_acquire() == tag ? found{number, slice} : none_in_use;
  }
  /// For any thread: the group of a slice that `look` found.
  [[nodiscard]] slice_group& group_of(std::uint32_t number) {
    auto* const groups =
        reinterpret_cast<std::byte*>(this) + groups_offset(capacity_for(count_.load_acquire()));
    return reinterpret_cast<slice_group*>(groups)[number / slice_group::size];
  }
  /// For any thread: calls `visit(record)` for each slice in use.
  template <class Visit>
  void for_each(Visit const& visit) const {
    std::uint64_t const tag = tag_.load_acquire(), base = map_page_of(tag);
    if (base == 0) return;
    std::uint32_t const slice = slice_.load_acquire(), count = count_.load_acquire();
    for (std::uint32_t number = 0; number < count; ++number) {
      auto const record = record_of(base, number, slice);
      if (record && tag_.load_acquire() == tag) visit(record);
    }
  }

  /// For audits: whether all slices that are not taken out are free and linked.
  [[nodiscard]] bool is_in_order() const {
    std::uint32_t free = 0;
    for (std::uint32_t number = first_free_; number != none; number = states_[number] & none) {
      if (number >= count_ || !(*this)[number].is_free() || ++free > count_) return false;
    }
    return free + removed_ == count_;
  }

  /// Who uses the map page: the pool; nobody, so that the pool may lend it; or another pool.
  enum class map_page_use : std::uint16_t { own, spare, lent };
  /// Guarded by: the mutex of the pool's slice_table.
  [[nodiscard]] map_page_use use() const { return use_; }
  void set_use(map_page_use use) { use_ = use; }

 private:
  [[nodiscard]] static std::uint16_t free_with_next(std::uint32_t next) {
    return static_cast<std::uint16_t>(free_flag | next);
  }
  [[nodiscard]] static constexpr bytes groups_offset(std::uint32_t capacity);
  [[nodiscard]] static std::uint64_t map_page_of(std::uint64_t tag) { return tag / size * size; }
  [[nodiscard]] chunk_record record_of(std::uint64_t base, std::uint32_t number,
                                       std::uint32_t slice) const {
    state const slice_state{states_[number].load_acquire()};
    if (slice_state.is_free()) return {};
    return {base + std::uint64_t{number} * slice, slice_state.requested(),
            slice_state.is_labelled()};
  }

  // Each free by another thread reads these 64 bytes.
  single_writer<std::uint64_t>
      tag_;  // the base address of the map page, with layouts_ in the lowest 16 bits
  single_writer<slice_block*> loan_;
  slice_list* list_ = nullptr;
  single_writer<std::uint32_t> slice_, inverse_, count_;
  std::uint32_t first_free_ = 0, removed_ = 0;
  std::uint16_t layouts_ = 0;  // wraps around
  map_page_use use_ = map_page_use::own;

 public:
  // Links of the owner's list; of a lent block, links of the borrower's list of ended loans.
  slice_block *prev, *next;
  std::size_t position;  // the block's index in the owner's table
  slice_table* lender;   // the table to which a lent block returns

 private:
  slice_block* origin_ = nullptr;
  single_writer<std::uint64_t> borrower_;
  single_writer<std::uint16_t> states_[size / min_slice + 1];
};

constexpr bytes slice_block::groups_offset(std::uint32_t capacity) {
  bytes const unused = (size / min_slice - capacity) * sizeof(std::uint16_t);
  return (sizeof(slice_block) - unused) / alignof(slice_group) * alignof(slice_group);
}
constexpr bytes slice_block::bytes_of(std::uint32_t capacity) {
  std::uint32_t const groups = (capacity + slice_group::size - 1) / slice_group::size;
  return (groups_offset(capacity) + groups * sizeof(slice_group) + 63) / 64 * 64;
}

/// Maps map pages of 64 KiB to their slice blocks, for addresses below 2^48.
///
/// One thread writes while others read. A lookup takes two loads. The map lies in type-stable
/// memory. Zeros are a map without blocks. Costs 8 bytes per map page; only system pages that were
/// written to are resident.
class slice_map {
 public:
  static constexpr std::uint32_t root_bits = 15;  // the root and a leaf have 1.25 MiB together
  static constexpr std::uint64_t leaves = std::uint64_t{1} << root_bits;
  static constexpr std::uint64_t leaf_bytes = object_starts::end / leaves;

  struct leaf {
    /// The block at an offset from the leaf's first address. For the thread that writes.
    [[nodiscard]] slice_block* at(std::uint64_t offset) const {
      return blocks[offset / slice_block::size];
    }
    single_writer<slice_block*> blocks[leaf_bytes / slice_block::size];
  };
  /// The existing leaves, for the thread that writes.
  using made_leaves = std::vector<std::uint32_t>;

  /// Makes the leaf that [base, base + slice_block::size) needs, unless it exists, and adds it to
  /// `made`. Throws std::bad_alloc.
  void reserve(std::uint64_t base, made_leaves& made) {
    auto& root_entry = leaves_[base / leaf_bytes];
    if (root_entry != nullptr) return;
    make_room(made, made.size() + 1);
    root_entry =
        static_cast<leaf*>(type_stable_allocate(type_stable_use::slice_leaves, sizeof(leaf)));
    made.push_back(static_cast<std::uint32_t>(base / leaf_bytes));
  }
  /// Sets the block at `base`. nullptr removes it. Requires that `base` was reserved.
  void set(std::uint64_t base, slice_block* block) {
    leaf* const branch = leaves_[base / leaf_bytes];
    branch->blocks[base % leaf_bytes / slice_block::size] = block;
  }

  /// The block that contains `address`, which is below 2^48; nullptr if no block does. For the
  /// thread that writes.
  [[nodiscard]] slice_block* at(std::uint64_t address) const {
    leaf const* const branch = leaves_[address / leaf_bytes];
    return branch == nullptr ? nullptr : branch->at(address % leaf_bytes);
  }
  /// The same, for any thread.
  [[nodiscard]] slice_block* look(std::uint64_t address) const {
    leaf const* const branch = leaves_[address / leaf_bytes].load_acquire();
    return branch == nullptr
               ? nullptr
               : branch->blocks[address % leaf_bytes / slice_block::size].load_acquire();
  }
  /// The leaf of an address that was reserved.
  [[nodiscard]] leaf const& leaf_of(std::uint64_t address) const {
    return *static_cast<leaf*>(leaves_[address / leaf_bytes]);
  }

  /// Frees the leaves.
  void clear(made_leaves& made) noexcept {
    for (std::uint32_t const index : made) {
      type_stable_deallocate(type_stable_use::slice_leaves, leaves_[index], sizeof(leaf));
      leaves_[index] = nullptr;
    }
    made.clear();
  }
  /// Bytes of resident pages, with those of the leaves. O(pages).
  [[nodiscard]] bytes resident(made_leaves const& made) const {
    bytes sum = type_stable_resident(this, sizeof(*this)) + made.capacity() * sizeof(made[0]);
    for (std::uint32_t const index : made)
      sum += type_stable_resident(leaves_[index], sizeof(leaf));
    return sum;
  }

 private:
  single_writer<leaf*> leaves_[leaves];
};

}  // namespace quarry::inline QUARRY_ABI::detail
