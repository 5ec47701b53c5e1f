// SPDX-License-Identifier: Apache-2.0
// Which addresses begin an allocation: what finds the allocation that an interior pointer belongs
// to.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/lasting_memory.hpp"
#include "quarry/host/make_room.hpp"
#include "quarry/host/watched.hpp"

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
class start_bits {
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
    word below = words_[number / bits_per_word].seen() & low_bits(number % bits_per_word + 1);
    for (std::uint32_t level = 0;;) {
      if (below != 0) {
        number = number / bits_per_word * bits_per_word + highest_one(below);
        if (level == 0) return number;
        --level;
        below = words_[first_of(level) + number].seen();
        number *= bits_per_word;
        if (below == 0) return none;  // it changed meanwhile
      } else {
        if (++level == levels) return none;
        number /= bits_per_word;
        below = words_[first_of(level) + number / bits_per_word].seen() &
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

  watched<word> words_[firsts[levels]];
};

/// Where allocations begin, below 2^48.
///
/// A granule is 64 KiB. Of allocations smaller than that there is a bit for each 16 bytes, and
/// above each 64 words of these a word that says which are not zero: what an address belongs to
/// begins in its granule or in the one before. Of larger ones at most one begins in a granule: each
/// granule has its piece's number, and a set says which granules have any.
///
/// One thread writes, others may look. What leads to an allocation stays as it is while that lives.
/// O(1). It costs a bit for each 16 bytes, by whole pages: an 128th of the memory at most, and less
/// where allocations are large.
class address_starts {
 public:
  static constexpr std::uint64_t end = std::uint64_t{1} << 48;
  static constexpr std::uint64_t unit = 16;
  static constexpr bytes granule = bytes{1} << 16;

  /// The leaves that there are, for the one thread that writes.
  using made_leaves = std::vector<std::uint32_t>;

  /// Sees to it that [begin, begin + size) has leaves, and adds new ones to `made`. Throws
  /// std::bad_alloc.
  void reserve(std::uint64_t begin, bytes size, made_leaves& made) {
    std::uint64_t const last = (begin + size - 1) / leaf_bytes;
    make_room(made, made.size() + (last - begin / leaf_bytes + 1));
    for (std::uint64_t at = begin / leaf_bytes; at <= last; ++at) {
      if (leaves_[at] != nullptr) continue;
      leaves_[at] = static_cast<leaf*>(lasting_allocate(lasting_use::starts, sizeof(leaf)));
      made.push_back(static_cast<std::uint32_t>(at));
    }
  }
  /// Says that piece number `piece` begins there. Without a leaf it is not found.
  void insert(std::uint64_t begin, bytes size, std::uint32_t piece) {
    leaf* const its = leaves_[begin / leaf_bytes];
    if (its == nullptr) return;
    leaf& here = *its;
    std::uint64_t const at = begin % leaf_bytes;
    if (size < granule) {
      auto& bits = here.starts[at / line_bytes];
      auto& lines = here.lines[at / granule];
      bits = bits | word{1} << at / unit % bits_per_word;
      lines = lines | word{1} << at / line_bytes % bits_per_word;
      return;
    }
    here.large[at / granule] = piece + 1;
    if (here.with_large.is_empty()) with_large_.insert(begin / leaf_bytes);
    here.with_large.insert(at / granule);
  }
  void erase(std::uint64_t begin, bytes size) {
    leaf* const its = leaves_[begin / leaf_bytes];
    if (its == nullptr) return;
    leaf& here = *its;
    std::uint64_t const at = begin % leaf_bytes;
    if (size < granule) {
      auto& bits = here.starts[at / line_bytes];
      bits = bits & ~(word{1} << at / unit % bits_per_word);
      auto& lines = here.lines[at / granule];
      lines = lines & ~(word{bits == 0} << at / line_bytes % bits_per_word);
      return;
    }
    here.with_large.erase(at / granule);
    if (here.with_large.is_empty()) with_large_.erase(begin / leaf_bytes);
    here.large[at / granule] = 0;
  }

  /// Where the last allocation smaller than a granule begins that could have `address`, which is
  /// below `end`; 0 if there is none.
  [[nodiscard]] std::uint64_t last_small(std::uint64_t address) const {
    if (leaf const* const here = leaves_[address / leaf_bytes].seen()) {
      std::uint64_t const at = address % leaf_bytes;
      word const bits =
          here->starts[at / line_bytes].seen() & low_bits(at / unit % bits_per_word + 1);
      if (bits != 0) return address / line_bytes * line_bytes + highest_one(bits) * unit;
      if (std::uint64_t const found =
              last_of(*here, address / granule, low_bits(at / line_bytes % bits_per_word)))
        return found;
    }
    if (address < granule) return 0;
    leaf const* const before = leaves_[(address - granule) / leaf_bytes].seen();
    return before == nullptr ? 0 : last_of(*before, address / granule - 1, ~word{0});
  }
  /// The number of the last larger piece that could have `address`, plus 1; 0 if there is none.
  /// `is_below(piece)`: it begins at `address` or before.
  template <class IsBelow>
  [[nodiscard]] std::uint32_t last_large(std::uint64_t address, IsBelow const& is_below) const {
    leaf const* here = leaves_[address / leaf_bytes].seen();
    std::uint64_t granule_of = address % leaf_bytes / granule;
    if (here != nullptr) {
      std::uint32_t const piece = here->large[granule_of].seen();
      if (piece != 0 && is_below(piece - 1)) return piece;
      std::uint64_t const found = granule_of == 0 ? start_bits<granule_bits>::none
                                                  : here->with_large.last_until(granule_of - 1);
      if (found != start_bits<granule_bits>::none) return here->large[found].seen();
    }
    if (address < leaf_bytes) return 0;
    std::uint64_t const earlier = with_large_.last_until(address / leaf_bytes - 1);
    if (earlier == start_bits<root_bits>::none) return 0;
    here = leaves_[earlier].seen();
    granule_of = here == nullptr ? start_bits<granule_bits>::none
                                 : here->with_large.last_until(granules - 1);
    return granule_of == start_bits<granule_bits>::none ? 0 : here->large[granule_of].seen();
  }

  /// Gives the leaves back.
  void clear(made_leaves& made) noexcept {
    for (std::uint32_t const at : made)
      lasting_deallocate(lasting_use::starts, leaves_[at], sizeof(leaf));
    made.clear();
  }

  /// Bytes of pages that are resident, with those of the leaves. O(pages).
  [[nodiscard]] bytes resident(made_leaves const& made) const {
    bytes sum = lasting_resident(this, sizeof(*this)) + made.capacity() * sizeof(made[0]);
    for (std::uint32_t const at : made) sum += lasting_resident(leaves_[at], sizeof(leaf));
    return sum;
  }

 private:
  static constexpr std::uint32_t granule_bits = 15, root_bits = 17;
  static constexpr std::uint64_t granules = 1 << granule_bits;  // of a leaf
  static constexpr std::uint64_t leaf_bytes = granule * granules;
  static constexpr std::uint64_t leaves = end / leaf_bytes;
  static constexpr bytes line_bytes = unit * bits_per_word;  // that a word is about
  static_assert(granule / line_bytes == bits_per_word && leaves == 1 << root_bits);

  struct leaf {
    watched<word> starts[leaf_bytes / line_bytes];
    watched<word> lines[granules];  // which words of a granule are not zero
    watched<std::uint32_t> large[granules];
    start_bits<granule_bits> with_large;
  };

  [[nodiscard]] static std::uint64_t last_of(leaf const& here, std::uint64_t granule_number,
                                             word lines) {
    lines &= here.lines[granule_number % granules].seen();
    if (lines == 0) return 0;
    std::uint64_t const line = granule_number * bits_per_word + highest_one(lines);
    word const bits = here.starts[line % (leaf_bytes / line_bytes)].seen();
    return bits == 0 ? 0 : line * line_bytes + highest_one(bits) * unit;
  }

  watched<leaf*> leaves_[leaves];
  start_bits<root_bits> with_large_;
};

}  // namespace quarry::inline QUARRY_ABI
