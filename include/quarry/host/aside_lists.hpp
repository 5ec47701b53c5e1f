// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/pieces.hpp"

#include <algorithm>
#include <array>

namespace quarry {

/// Pieces kept whole for the next request of about their size, by size: lists a thirty-second apart, the latest piece first.
///
/// Sizes are in units of the pool's alignment. O(1), and needs no memory after its construction.
class aside_lists {
 public:
  aside_lists() { heads_.fill(no_piece); }

  [[nodiscard]] std::size_t count() const { return count_; }

  /// `one` is piece number `id`.
  void put(piece_table::piece& one, piece_id id, bytes units) {
    std::uint32_t const list = list_of(units);
    one.link_next = heads_[list];
    heads_[list] = id;
    groups_ |= word{1} << list / lists_of_group;
    ++count_;
  }

  /// A piece of at least `units`, and at most an eighth more; `no_piece` if there is none.
  [[nodiscard]] piece_id take(piece_table& table, bytes units) {
    std::uint32_t const first = list_from(units);
    std::uint32_t list = first;
    if (!is_filled(list)) {
      std::uint32_t const last = first + (units >= 16) + (units >= 32);
      do {
        if (++list > last) return no_piece;
      } while (!is_filled(list));
    }
    piece_id const id = heads_[list];
    heads_[list] = table[id].link_next;
    --count_;
    return id;
  }

  /// Empties all lists; calls `each(id)` for what was in them.
  template <class Each>
  void take_all(piece_table& table, Each const& each) {
    for (; groups_ != 0; groups_ &= groups_ - 1) {
      std::uint32_t const first = lowest_one(groups_) * lists_of_group;
      for (std::uint32_t list = first; list < std::min(first + lists_of_group, lists); ++list) {
        for (piece_id id = heads_[list], next = no_piece; id != no_piece; id = next) {
          next = table[id].link_next;
          --count_;
          each(id);
        }
        heads_[list] = no_piece;
      }
    }
  }

 private:
  static constexpr std::uint32_t step_bits = 5;
  static constexpr std::uint32_t lists = ((65 - step_bits) << step_bits) + 1;
  static constexpr std::uint32_t lists_of_group = 32;
  static_assert(lists / lists_of_group < bits_per_word);

  /// The list of a piece: below 64 units one for each size, from there on 32 for each power of two.
  [[nodiscard]] static std::uint32_t list_of(bytes units) {
    std::uint32_t const shift = highest_one(units | 63) - step_bits;
    return (shift << step_bits) + static_cast<std::uint32_t>(units >> shift);
  }
  [[nodiscard]] bool is_filled(std::uint32_t list) const { return heads_[list] != no_piece; }
  /// The first list whose pieces are all large enough.
  [[nodiscard]] static std::uint32_t list_from(bytes units) { return list_of(units - 1) + 1; }

  std::array<piece_id, lists> heads_;
  word groups_ = 0;  // where lists may have any
  std::size_t count_ = 0;
};

}  // namespace quarry
