// SPDX-License-Identifier: Apache-2.0
// Which addresses begin an allocation: what finds the allocation that an interior pointer belongs
// to.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/registry/single_writer.hpp"
#include "quarry/host/registry/type_stable_memory.hpp"
#include "quarry/host/resources/make_room.hpp"

#include <array>
#include <new>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Where the words of each level begin, and their sum.
template <std::uint32_t Bits, std::uint32_t Levels>
[[nodiscard]] constexpr std::array<std::uint64_t, Levels + 1> first_words() {
  std::array<std::uint64_t, Levels + 1> all{};
  for (std::uint32_t level = 0; level < Levels; ++level) {
    std::uint32_t const shift = (level + 1) * 6;
    all[level + 1] = all[level] + (shift >= Bits ? 1 : std::uint64_t{1} << (Bits - shift));
  }
  return all;
}

/// A set of numbers below 2^Bits: a bit for each, and above each 64 words a word that says which of
/// them are not zero (van Emde Boas trees of degree 64, as the heap's). Memory of zeros is an empty
/// set, and only pages that were written to cost memory.
///
/// One thread writes, others may look. O(Bits / 6).
template <std::uint32_t Bits>
class start_bitmap {
 public:
  static constexpr std::uint32_t levels = (Bits + 5) / 6;
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  void insert(std::uint64_t number) {
    for (std::uint32_t level = 0; level < levels; ++level, number /= bits_per_word) {
      auto& here = words_[first_of(level) + number / bits_per_word];
      word const before = here;
      here = before | word{1} << number % bits_per_word;
      if (before != 0) return;
    }
  }
  void erase(std::uint64_t number) {
    for (std::uint32_t level = 0; level < levels; ++level, number /= bits_per_word) {
      auto& here = words_[first_of(level) + number / bits_per_word];
      word const after = here & ~(word{1} << number % bits_per_word);
      here = after;
      if (after != 0) return;
    }
  }

  /// The largest number up to `number`; `none` if there is none. It is right if nothing between it
  /// and `number` changes meanwhile, whatever else does.
  [[nodiscard]] std::uint64_t last_until(std::uint64_t number) const {
    word below =
        words_[number / bits_per_word].load_acquire() & low_bits(number % bits_per_word + 1);
    for (std::uint32_t level = 0;;) {
      if (below != 0) {
        number = number / bits_per_word * bits_per_word + highest_one(below);
        if (level == 0) return number;
        --level;
        below = words_[first_of(level) + number].load_acquire();
        number *= bits_per_word;
        if (below == 0) return none;  // it changed meanwhile
      } else {
        if (++level == levels) return none;
        number /= bits_per_word;
        below = words_[first_of(level) + number / bits_per_word].load_acquire() &
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

/// Where allocations begin, below 2^48.
///
/// A map page is 64 KiB. Of allocations smaller than that there is a bit for each 16 bytes, and
/// above each 64 words of these a word that says which are not zero: what an address belongs to
/// begins in its map page or in the one before. Of larger ones at most one begins in a map page:
/// each map page has its chunk's number, and a set says which map pages have any.
///
/// One thread writes, others may look. What leads to an allocation stays as it is while that lives.
/// O(1). It costs a bit for each 16 bytes, by whole pages: an 128th of the memory at most, and less
/// where allocations are large.
class object_starts {
 public:
  static constexpr std::uint64_t end = std::uint64_t{1} << 48;
  static constexpr std::uint64_t unit = 16;
  static constexpr bytes map_page = bytes{1} << 16;

  /// The leaves that there are, for the one thread that writes.
  using made_leaves = std::vector<std::uint32_t>;

  /// Sees to it that [begin, begin + size) has leaves, and adds new ones to `made`. Throws
  /// std::bad_alloc.
  void reserve(std::uint64_t base, bytes size, made_leaves& made) {
    std::uint64_t const last = (base + size - 1) / leaf_bytes;
    make_room(made, made.size() + (last - base / leaf_bytes + 1));
    for (std::uint64_t at = base / leaf_bytes; at <= last; ++at) {
      if (leaves_[at] != nullptr) continue;
      leaves_[at] = static_cast<leaf*>(type_stable_allocate(type_stable_use::starts, sizeof(leaf)));
      made.push_back(static_cast<std::uint32_t>(at));
    }
  }
  /// Says that chunk number `chunk` begins there. Without a leaf it is not found.
  void insert(std::uint64_t base, bytes size, std::uint32_t chunk) {
    leaf* const its = leaves_[base / leaf_bytes];
    if (its == nullptr) return;
    leaf& here = *its;
    std::uint64_t const at = base % leaf_bytes;
    if (size < map_page) {
      auto& bits = here.starts[at / line_bytes];
      auto& lines = here.lines[at / map_page];
      bits = bits | word{1} << at / unit % bits_per_word;
      lines = lines | word{1} << at / line_bytes % bits_per_word;
      return;
    }
    here.large[at / map_page] = chunk + 1;
    if (here.with_large.is_empty()) with_large_.insert(base / leaf_bytes);
    here.with_large.insert(at / map_page);
  }
  void erase(std::uint64_t base, bytes size) {
    leaf* const its = leaves_[base / leaf_bytes];
    if (its == nullptr) return;
    leaf& here = *its;
    std::uint64_t const at = base % leaf_bytes;
    if (size < map_page) {
      auto& bits = here.starts[at / line_bytes];
      bits = bits & ~(word{1} << at / unit % bits_per_word);
      auto& lines = here.lines[at / map_page];
      lines = lines & ~(word{bits == 0} << at / line_bytes % bits_per_word);
      return;
    }
    here.with_large.erase(at / map_page);
    if (here.with_large.is_empty()) with_large_.erase(base / leaf_bytes);
    here.large[at / map_page] = 0;
  }

  /// Where the last allocation smaller than a map page begins that could have `address`, which is
  /// below `end`; 0 if there is none.
  [[nodiscard]] std::uint64_t last_small(std::uint64_t address) const {
    if (leaf const* const here = leaves_[address / leaf_bytes].load_acquire()) {
      std::uint64_t const at = address % leaf_bytes;
      word const bits =
          here->starts[at / line_bytes].load_acquire() & low_bits(at / unit % bits_per_word + 1);
      if (bits != 0) return address / line_bytes * line_bytes + highest_one(bits) * unit;
      if (std::uint64_t const found =
              last_of(*here, address / map_page, low_bits(at / line_bytes % bits_per_word)))
        return found;
    }
    if (address < map_page) return 0;
    leaf const* const before = leaves_[(address - map_page) / leaf_bytes].load_acquire();
    return before == nullptr ? 0 : last_of(*before, address / map_page - 1, ~word{0});
  }
  /// The number of the last larger chunk that could have `address`, plus 1; 0 if there is none.
  /// `is_below(chunk)`: it begins at `address` or before.
  template <class IsBelow>
  [[nodiscard]] std::uint32_t last_large(std::uint64_t address, IsBelow const& is_below) const {
    leaf const* here = leaves_[address / leaf_bytes].load_acquire();
    std::uint64_t map_page_of = address % leaf_bytes / map_page;
    if (here != nullptr) {
      std::uint32_t const chunk = here->large[map_page_of].load_acquire();
      if (chunk != 0 && is_below(chunk - 1)) return chunk;
      std::uint64_t const found = map_page_of == 0 ? start_bitmap<map_page_bits>::none
                                                   : here->with_large.last_until(map_page_of - 1);
      if (found != start_bitmap<map_page_bits>::none) return here->large[found].load_acquire();
    }
    if (address < leaf_bytes) return 0;
    std::uint64_t const earlier = with_large_.last_until(address / leaf_bytes - 1);
    if (earlier == start_bitmap<root_bits>::none) return 0;
    here = leaves_[earlier].load_acquire();
    map_page_of = here == nullptr ? start_bitmap<map_page_bits>::none
                                  : here->with_large.last_until(map_pages - 1);
    return map_page_of == start_bitmap<map_page_bits>::none
               ? 0
               : here->large[map_page_of].load_acquire();
  }

  /// Gives the leaves back.
  void clear(made_leaves& made) noexcept {
    for (std::uint32_t const at : made)
      type_stable_deallocate(type_stable_use::starts, leaves_[at], sizeof(leaf));
    made.clear();
  }

  /// Bytes of pages that are resident, with those of the leaves. O(pages).
  [[nodiscard]] bytes resident(made_leaves const& made) const {
    bytes sum = type_stable_resident(this, sizeof(*this)) + made.capacity() * sizeof(made[0]);
    for (std::uint32_t const at : made) sum += type_stable_resident(leaves_[at], sizeof(leaf));
    return sum;
  }

 private:
  static constexpr std::uint32_t map_page_bits = 15, root_bits = 17;
  static constexpr std::uint64_t map_pages = 1 << map_page_bits;  // of a leaf
  static constexpr std::uint64_t leaf_bytes = map_page * map_pages;
  static constexpr std::uint64_t leaves = end / leaf_bytes;
  static constexpr bytes line_bytes = unit * bits_per_word;  // that a word is about
  static_assert(map_page / line_bytes == bits_per_word && leaves == 1 << root_bits);

  struct leaf {
    single_writer<word> starts[leaf_bytes / line_bytes];
    single_writer<word> lines[map_pages];  // which words of a map page are not zero
    single_writer<std::uint32_t> large[map_pages];
    start_bitmap<map_page_bits> with_large;
  };

  [[nodiscard, gnu::always_inline]] static std::uint64_t last_of(leaf const& here,
                                                                 std::uint64_t map_page_number,
                                                                 word lines) {
    lines &= here.lines[map_page_number % map_pages].load_acquire();
    if (lines == 0) return 0;
    std::uint64_t const line = map_page_number * bits_per_word + highest_one(lines);
    word const bits = here.starts[line % (leaf_bytes / line_bytes)].load_acquire();
    return bits == 0 ? 0 : line * line_bytes + highest_one(bits) * unit;
  }

  single_writer<leaf*> leaves_[leaves];
  start_bitmap<root_bits> with_large_;
};

}  // namespace quarry::inline QUARRY_ABI
