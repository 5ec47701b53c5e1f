// SPDX-License-Identifier: Apache-2.0
// The map of object starts: finds the allocation that contains an interior pointer.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/single_writer.hpp"
#include "quarry/host/detail/type_stable_memory.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// The first word of each level, and the number of all words.
template <std::uint32_t Bits, std::uint32_t Levels>
[[nodiscard]] constexpr std::array<std::uint64_t, Levels + 1> first_words() {
  std::array<std::uint64_t, Levels + 1> offsets{};
  for (std::uint32_t level = 0; level < Levels; ++level) {
    std::uint32_t const shift = (level + 1) * 6;
    offsets[level + 1] = offsets[level] + (shift >= Bits ? 1 : std::uint64_t{1} << (Bits - shift));
  }
  return offsets;
}

/// A set of numbers below 2^Bits. Each number has a bit. For each 64 words, a word of the next
/// level marks the words that are not zero (a van Emde Boas tree of degree 64, as in the heap).
/// Zeroed memory is an empty set. Only pages that were written to cost memory.
///
/// One thread writes while others read. O(Bits / 6).
template <std::uint32_t Bits>
class start_bitmap {
 public:
  static constexpr std::uint32_t levels = (Bits + 5) / 6;
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  void insert(std::uint64_t number) {
    for (std::uint32_t level = 0; level < levels; ++level, number /= bits_per_word) {
      auto& bits = words_[first_of(level) + number / bits_per_word];
      word const old_bits = bits;
      bits = old_bits | word{1} << number % bits_per_word;
      if (old_bits != 0) return;
    }
  }
  void erase(std::uint64_t number) {
    for (std::uint32_t level = 0; level < levels; ++level, number /= bits_per_word) {
      auto& bits = words_[first_of(level) + number / bits_per_word];
      word const new_bits = bits & ~(word{1} << number % bits_per_word);
      bits = new_bits;
      if (new_bits != 0) return;
    }
  }

  /// The largest number in the set up to `number`; `none` if the set has no such number. The result
  /// is correct if no number between it and `number` is inserted or erased during the call. Other
  /// numbers may change.
  [[nodiscard]] std::uint64_t last_until(std::uint64_t number) const {
    word candidates =
        words_[number / bits_per_word].load_acquire() & low_bits(number % bits_per_word + 1);
    for (std::uint32_t level = 0;;) {
      if (candidates != 0) {
        number = number / bits_per_word * bits_per_word + highest_one(candidates);
        if (level == 0) return number;
        --level;
        candidates = words_[first_of(level) + number].load_acquire();
        number *= bits_per_word;
        if (candidates == 0) return none;  // the word changed meanwhile
      } else {
        if (++level == levels) return none;
        number /= bits_per_word;
        candidates = words_[first_of(level) + number / bits_per_word].load_acquire() &
                     low_bits(number % bits_per_word);
      }
    }
  }
  [[nodiscard]] bool is_empty() const { return words_[first_of(levels - 1)] == 0; }

 private:
  static constexpr auto firsts = first_words<Bits, levels>();
  [[nodiscard]] static constexpr std::uint64_t first_of(std::uint32_t level) {
    return firsts[level];
  }

  single_writer<word> words_[firsts[levels]];
};

/// The base addresses of allocations, below 2^48.
///
/// A map page is 64 KiB, and a subpage 4 KiB. There are three sizes of allocations:
///   smaller than a subpage: a map page in which such an allocation has started has a bit for each
///     16 bytes. For each 64 bits, one bit marks the words that are not zero.
///   smaller than a map page: at most one starts in a subpage. A map page in which a smaller
///     allocation has started has a record, with a bit for each subpage and a byte for the offset
///     of the start in it.
///   larger: at most one starts in a map page. Each map page stores the number of that chunk, and a
///     set has the map pages in which a larger allocation starts.
/// An allocation smaller than a map page that contains an address starts in the address's map page
/// or in the page before it. It is the last that starts up to the address.
///
/// One thread writes while others read. The entries that lead to an allocation do not change while
/// it is allocated. Another entry may change between two loads of a reader. It then gives a start
/// behind the address or before the allocation, so the reader still finds the allocation. O(1). The
/// cost is 6 bytes per map page, 32 bytes for a map page in which an allocation smaller than a map
/// page has started, and 512 bytes for one in which an allocation smaller than a subpage has.
class object_starts {
 public:
  static constexpr std::uint64_t end = std::uint64_t{1} << 48;
  static constexpr std::uint64_t unit = 16;
  static constexpr bytes subpage = bytes{1} << 12, map_page = bytes{1} << 16;

 private:
  static constexpr bytes line_bytes = unit * bits_per_word;  // covered by a word of start bits
  /// The start bits of a map page. Zeros are no starts.
  struct start_bits {
    single_writer<word> lines[map_page / line_bytes];
  };
  static_assert(map_page / line_bytes == bits_per_word);
  static constexpr std::uint32_t subpages_of_page = map_page / subpage;

  /// The starts of allocations smaller than a map page in a map page. Zeros are no starts.
  class small_starts {
   public:
    single_writer<word> lines;  // marks the words of the start bits that are not zero
    single_writer<std::uint8_t> offsets[subpages_of_page];  // in units

    /// Marks the subpages in which an allocation starts that has an offset, and has the address of
    /// the start bits: one load gives both.
    class contents {
     public:
      contents(word value) : value_{value} {}
      [[nodiscard]] word subpages() const { return value_ >> address_bits; }
      /// Null: no allocation smaller than a subpage has started there.
      [[nodiscard]] start_bits* bits() const {
        return reinterpret_cast<start_bits*>(value_ & low_bits(address_bits));
      }

     private:
      word value_;
    };
    [[nodiscard]] contents load_contents() const { return contents_.load_acquire(); }
    void set_bits(start_bits* bits) {
      contents_ = contents_ | reinterpret_cast<std::uintptr_t>(bits);
    }
    void insert(std::uint32_t subpage) { contents_ = contents_ | flag(subpage); }
    void erase(std::uint32_t subpage) { contents_ = contents_ & ~flag(subpage); }

   private:
    static constexpr std::uint32_t address_bits = 48;  // the system maps memory below 2^48
    static_assert(address_bits + subpages_of_page == bits_per_word);
    [[nodiscard]] static constexpr word flag(std::uint32_t subpage) {
      return word{1} << address_bits << subpage;
    }

    single_writer<word> contents_;
  };
  static_assert(sizeof(small_starts) == 32);

 public:
  /// The existing leaves and the memory of start bits, for the thread that writes.
  struct made_leaves {
    std::vector<std::uint32_t> leaves;
    std::vector<start_bits*> slabs;
    std::uint32_t unused = 0;  // start bits of the last slab that no map page has yet
  };

  /// Makes the leaves that [base, base + size) needs and that do not exist, and adds them to
  /// `made`. Throws std::bad_alloc.
  void reserve(std::uint64_t base, bytes size, made_leaves& made) {
    std::uint64_t const last = (base + size - 1) / leaf_bytes;
    make_room(made.leaves, made.leaves.size() + (last - base / leaf_bytes + 1));
    for (std::uint64_t index = base / leaf_bytes; index <= last; ++index) {
      if (leaves_[index] != nullptr) continue;
      leaves_[index] =
          static_cast<leaf*>(type_stable_allocate(type_stable_use::starts, sizeof(leaf)));
      made.leaves.push_back(static_cast<std::uint32_t>(index));
    }
  }
  /// Makes room for one `insert`. Throws std::bad_alloc.
  static void reserve_insert(made_leaves& made) {
    if (made.unused == 0) add_slab(made);
  }
  /// Adds an allocation: chunk number `chunk` starts at `base`. Does nothing if `base` has no leaf;
  /// lookups do not find such an allocation. Requires room (`reserve_insert`).
  void insert(std::uint64_t base, bytes size, std::uint32_t chunk, made_leaves& made) {
    leaf* const found = leaves_[base / leaf_bytes];
    if (found == nullptr) return;
    leaf& branch = *found;
    std::uint64_t const offset = base % leaf_bytes;
    std::uint64_t const page = offset / map_page;
    if (size < map_page) {
      if (branch.numbers[page] == 0) branch.numbers[page] = ++branch.records;
      small_starts& small = branch.small[branch.numbers[page] - 1];
      if (size < subpage) {
        if (small.load_contents().bits() == nullptr)
          small.set_bits(made.slabs.back() + (bits_of_slab - made.unused--));
        auto& bits = small.load_contents().bits()->lines[offset / line_bytes % bits_per_word];
        bits = bits | word{1} << offset / unit % bits_per_word;
        small.lines = small.lines | word{1} << offset / line_bytes % bits_per_word;
      } else {
        std::uint32_t const number = offset / subpage % subpages_of_page;
        small.offsets[number] = static_cast<std::uint8_t>(offset % subpage / unit);
        small.insert(number);
      }
      return;
    }
    branch.large[page] = chunk + 1;
    if (branch.with_large.is_empty()) with_large_.insert(base / leaf_bytes);
    branch.with_large.insert(page);
  }
  /// Removes an allocation.
  void erase(std::uint64_t base, bytes size) {
    leaf* const found = leaves_[base / leaf_bytes];
    if (found == nullptr) return;
    leaf& branch = *found;
    std::uint64_t const offset = base % leaf_bytes;
    if (size < map_page) {
      small_starts& small = branch.small[branch.numbers[offset / map_page] - 1];
      if (size < subpage) {
        auto& bits = small.load_contents().bits()->lines[offset / line_bytes % bits_per_word];
        bits = bits & ~(word{1} << offset / unit % bits_per_word);
        small.lines = small.lines & ~(word{bits == 0} << offset / line_bytes % bits_per_word);
      } else {
        small.erase(offset / subpage % subpages_of_page);
      }
      return;
    }
    branch.with_large.erase(offset / map_page);
    if (branch.with_large.is_empty()) with_large_.erase(base / leaf_bytes);
    branch.large[offset / map_page] = 0;
  }

  /// The base address of the last allocation smaller than a map page that may contain `address`; 0
  /// if there is none. `address` is below `end`.
  [[nodiscard]] std::uint64_t last_small(std::uint64_t address) const {
    if (leaf const* const branch = leaves_[address / leaf_bytes].load_acquire()) {
      if (std::uint64_t const found = last_of(*branch, address / map_page, address % map_page))
        return found;
    }
    if (address < map_page) return 0;
    leaf const* const previous = leaves_[(address - map_page) / leaf_bytes].load_acquire();
    return previous == nullptr ? 0 : last_of(*previous, address / map_page - 1, map_page - 1);
  }
  /// The number of the last larger chunk that may contain `address`, plus 1; 0 if there is none.
  /// `is_below(chunk)` returns whether the chunk starts at `address` or before.
  template <class IsBelow>
  [[nodiscard]] std::uint32_t last_large(std::uint64_t address, IsBelow const& is_below) const {
    leaf const* branch = leaves_[address / leaf_bytes].load_acquire();
    std::uint64_t page = address % leaf_bytes / map_page;
    if (branch != nullptr) {
      std::uint32_t const chunk = branch->large[page].load_acquire();
      if (chunk != 0 && is_below(chunk - 1)) return chunk;
      std::uint64_t const found =
          page == 0 ? start_bitmap<map_page_bits>::none : branch->with_large.last_until(page - 1);
      if (found != start_bitmap<map_page_bits>::none) return branch->large[found].load_acquire();
    }
    if (address < leaf_bytes) return 0;
    std::uint64_t const last_root = with_large_.last_until(address / leaf_bytes - 1);
    if (last_root == start_bitmap<root_bits>::none) return 0;
    branch = leaves_[last_root].load_acquire();
    page = branch == nullptr ? start_bitmap<map_page_bits>::none
                             : branch->with_large.last_until(map_pages - 1);
    return page == start_bitmap<map_page_bits>::none ? 0 : branch->large[page].load_acquire();
  }

  /// Frees the leaves and the start bits.
  void clear(made_leaves& made) noexcept {
    for (std::uint32_t const index : made.leaves)
      type_stable_deallocate(type_stable_use::starts, leaves_[index], sizeof(leaf));
    for (start_bits* const slab : made.slabs)
      type_stable_deallocate(type_stable_use::start_bits, slab, slab_bytes);
    made.leaves.clear();
    made.slabs.clear();
    made.unused = 0;
  }

  /// Bytes of resident pages, with those of the leaves. O(pages).
  [[nodiscard]] bytes resident(made_leaves const& made) const {
    bytes sum = type_stable_resident(this, sizeof(*this)) +
                made.leaves.capacity() * sizeof(made.leaves[0]) +
                made.slabs.capacity() * sizeof(made.slabs[0]);
    for (std::uint32_t const index : made.leaves)
      sum += type_stable_resident(leaves_[index], sizeof(leaf));
    for (start_bits const* const slab : made.slabs) sum += type_stable_resident(slab, slab_bytes);
    return sum;
  }

 private:
  static constexpr std::uint32_t map_page_bits = 15, root_bits = 17;
  static constexpr std::uint64_t map_pages = 1 << map_page_bits;  // per leaf
  static constexpr std::uint64_t leaf_bytes = map_page * map_pages;
  static constexpr std::uint64_t leaves = end / leaf_bytes;
  static constexpr bytes slab_bytes = 16 << 10;
  static constexpr std::uint32_t bits_of_slab = slab_bytes / sizeof(start_bits);
  static_assert(subpages_of_page == 16 && leaves == 1 << root_bits);

  friend struct process_layout;

  struct leaf {
    single_writer<std::uint16_t> numbers[map_pages];  // of the record, plus 1; 0: it has none
    single_writer<std::uint32_t> large[map_pages];
    start_bitmap<map_page_bits> with_large;
    alignas(32) small_starts small[map_pages];  // in the order in which map pages needed one
    std::uint16_t records;                      // of these, for the thread that writes
  };

  [[gnu::noinline]] static void add_slab(made_leaves& made) {
    make_room(made.slabs, made.slabs.size() + 1);
    made.slabs.push_back(
        static_cast<start_bits*>(type_stable_allocate(type_stable_use::start_bits, slab_bytes)));
    made.unused = bits_of_slab;
  }

  /// The last start of an allocation smaller than a map page in a map page, up to the offset
  /// `limit`; 0 if there is none.
  [[nodiscard, gnu::always_inline]] static std::uint64_t last_of(leaf const& branch,
                                                                 std::uint64_t map_page_number,
                                                                 bytes limit) {
    // Hardly any branches: where the last start lies cannot be predicted.
    std::uint16_t const number = branch.numbers[map_page_number % map_pages].load_acquire();
    if (number == 0) return 0;
    small_starts const& small = branch.small[number - 1];
    std::uint64_t const base = map_page_number * map_page;
    auto const own_subpage = static_cast<std::uint32_t>(limit / subpage);
    auto const contents = small.load_contents();
    word subpages = contents.subpages() & low_bits(own_subpage + 1);
    // The order matters. If the subpage of `limit` has its bit, the offset is that of its start or
    // of a later one. While an allocation covers `limit`, both are behind `limit`, or are its own.
    bool const is_behind = small.offsets[own_subpage].load_acquire() > limit % subpage / unit;
    subpages &= ~(word{is_behind} << own_subpage);
    std::uint32_t const last = highest_one(subpages | 1);
    bytes const offset = small.offsets[last].load_acquire() * unit;
    std::uint64_t const found = subpages == 0 ? 0 : base + last * subpage + offset;
    auto const own_line = static_cast<std::uint32_t>(limit / line_bytes);
    if (contents.bits() == nullptr) return found;
    word const lines = small.lines.load_acquire() & low_bits(own_line + 1);
    return lines == 0 ? found
                      : std::max(found, last_small_of(*contents.bits(), lines, base, limit));
  }
  /// The last start of an allocation smaller than a subpage in the map page at `base`, up to the
  /// offset `limit`; 0 if there is none. `lines` marks the words that are not zero up to `limit`.
  [[nodiscard, gnu::always_inline]] static std::uint64_t last_small_of(start_bits const& small,
                                                                       word lines,
                                                                       std::uint64_t base,
                                                                       bytes limit) {
    auto const own_line = static_cast<std::uint32_t>(limit / line_bytes);
    word const own_bits =
        small.lines[own_line].load_acquire() & low_bits(limit / unit % bits_per_word + 1);
    lines &= ~(word{own_bits == 0} << own_line);
    std::uint32_t const line = highest_one(lines | 1);
    word const bits = line == own_line ? own_bits : word{small.lines[line].load_acquire()};
    return lines == 0 || bits == 0 ? 0 : base + line * line_bytes + highest_one(bits) * unit;
  }

  single_writer<leaf*> leaves_[leaves];
  start_bitmap<root_bits> with_large_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
