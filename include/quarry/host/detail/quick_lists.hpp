// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/detail/chunk_table.hpp"

#include <array>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// Deferred coalescing: lists of freed chunks, each kept whole for the next request of about its
/// size. The lists' sizes are a thirty-second apart; a list has its latest chunk first.
///
/// Sizes are multiples of a unit. O(1); needs no memory after its construction.
class quick_lists {
 public:
  /// `unit_shift`: the logarithm of the unit.
  explicit quick_lists(std::uint32_t unit_shift) : unit_shift_{unit_shift} {
    heads_.fill(no_chunk);
  }

  [[nodiscard]] std::size_t count() const { return put_ - popped_; }
  /// Whether requests took at least half as many chunks as are left, since all lists were last
  /// empty. If sizes do not repeat, keeping chunks whole saves little time and scatters the free
  /// memory.
  [[nodiscard]] bool pays() const { return 2 * popped_ >= count(); }

  /// Adds the chunk `freed` of `size` bytes. Its number is `id`.
  void put(chunk_table::chunk& freed, chunk_id id, bytes size) {
    std::uint32_t const list = list_of(size >> unit_shift_);
    freed.set_next_cached(heads_[list]);
    heads_[list] = id;
    ++put_;
  }

  /// The smallest size of a list that is at least `size`: at most a thirty-second more. `pop` finds
  /// a chunk of that size for a request of `size`.
  [[nodiscard]] static bytes whole(bytes size, std::uint32_t unit_shift) {
    bytes const units = size >> unit_shift;
    bytes const step = bytes{1} << (highest_one(units | 63) - step_bits);
    return ((units + step - 1) & ~(step - 1)) << unit_shift;
  }

  /// Removes and returns a chunk of at least `size` bytes, at most an eighth more, at a multiple of
  /// `alignment`. Returns `no_chunk` if the lists of these sizes are empty, or if the latest chunk
  /// of the first list is not aligned. A list that may also have smaller chunks is not searched:
  /// see `whole`.
  [[nodiscard]] chunk_id pop(chunk_table& table, bytes size, bytes alignment = 1) {
    if (put_ == popped_) return no_chunk;
    bytes const units = size >> unit_shift_;
    std::uint32_t list = list_of(units - 1) + 1;
    if (heads_[list] == no_chunk) {
      std::uint32_t const last = list + (units >= 16) + (units >= 32);
      do {
        if (++list > last) return no_chunk;
      } while (heads_[list] == no_chunk);
    }
    chunk_id const id = heads_[list];
    if (table[id].base % alignment != 0) return no_chunk;
    heads_[list] = table[id].next_cached();
    ++popped_;
    return id;
  }

  /// Empties all lists; calls `visit(id)` for every chunk in them. O(lists); O(1) if all are empty.
  template <class Visit>
  void pop_all(chunk_table& table, Visit const& visit) {
    std::size_t left = count();
    for (std::uint32_t list = 0; left != 0; ++list) {
      for (chunk_id id = std::exchange(heads_[list], no_chunk); id != no_chunk; --left) {
        chunk_id const next = table[id].next_cached();
        visit(id);
        id = next;
      }
    }
    put_ = popped_ = 0;
  }

 private:
  static constexpr std::uint32_t step_bits = 5;
  static constexpr std::uint32_t size_bits = 48;  // of chunks
  static constexpr std::uint32_t lists = ((size_bits + 1 - step_bits) << step_bits) + 1;

  /// The list of a chunk. Each size below 64 units has a list; above, each power of two has 32
  /// lists.
  [[nodiscard]] static std::uint32_t list_of(bytes units) {
    std::uint32_t const shift = highest_one(units | 63) - step_bits;
    return (shift << step_bits) + static_cast<std::uint32_t>(units >> shift);
  }
  std::array<chunk_id, lists> heads_;
  std::size_t put_ = 0, popped_ = 0;  // since `pop_all` last emptied the lists
  std::uint32_t unit_shift_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
