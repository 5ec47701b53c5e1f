// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/size_classes.hpp"
#include "quarry/device/detail/heap_state.hpp"
#include "quarry/simt/indirect_call.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Adjacent slices of one word that are one allocation.
///
/// If a class has no memory, an allocation may get up to 64 adjacent slices of a smaller class. A
/// join is a bit for each slice of at least 32 B: it is 1 if the slice continues the allocation
/// that the slice before it belongs to. The allocation begins `offset` bytes after the start of its
/// first slice. No slice starts at such an address, so `free` detects it on its usual path without
/// another load, and only then reads the joins.
///
/// Problem. Of two frees of one address, one frees all slices, and the other changes nothing.
/// Race. Between a lane's load of the joins and its change of them, another lane frees the same
/// slices, and a third lane joins some of them with others.
/// Re-check. `separate` changes the word by compare-and-swap and derives the number of slices from
/// the word that it replaces. The slices stay allocated until it has succeeded.
/// Price. One RMW for a malloc and one for a free of joined slices; a bit for each 32 bytes of the
/// heap. Not detected, except in the hardened mode: a free of an address at which one of the joined
/// slices starts. It frees that slice. A second free may be so late that the segment has another
/// use, in which slices from the same one on are joined. It separates them, its release fails, and
/// it joins them again (free_path). A free of these by their owner in between is refused.
///
/// Memory order. The joins guard no data: the slices' bits do (slice_word). But a lane that frees
/// must see the joins, and on CUDA it may have the address from a relaxed exchange. So a fence
/// follows (X), and a fence precedes (Y); the exchange orders the two fences. On the CPU the fences
/// do nothing: there, whatever passes the address must also order the owner's accesses before the
/// free.
///
///   label  statement                       partner  guarantee
///   (X)    `join` sets bits, then a fence  (Y)      whoever has the address sees the joins
///   (Y)    a fence, then reads bits        (X)
///   (L)    `separate` changes the word              none; the slices' bits order their bytes
class joined_slices {
 public:
  /// The distance from the start of the first slice to the allocation.
  static constexpr std::uint32_t offset = min_alignment;

  /// The smallest class whose slices can be joined: the offset is less than a slice.
  static constexpr size_class smallest_class = 1;
  static_assert(size_of_class(smallest_class) > offset);

  /// The number of slices of class `id` that hold `size` bytes.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t count_for(std::uint32_t size,
                                                                   size_class id) {
    return (size + offset + size_of_class(id) - 1) / size_of_class(id);
  }

  /// Makes `slices`, which belong to the caller, allocations of `count` adjacent slices each.
  QUARRY_HD static void join(heap_state& state, std::uint32_t segment, std::uint32_t index,
                             word slices, std::uint32_t count) {
    word joins = 0;
    QUARRY_NO_UNROLL
    while (slices != 0) {
      word const run = low_bits(count) << lowest_one(slices);
      joins |= run & (run - 1);
      slices &= ~run;
    }
    (void)state.joins_at(segment, index).fetch_or(joins, simt::relaxed);  // (X)
    simt::fence_before_stores();
  }

  /// Joins again what `separate` returned, if the slices belong to another use of the segment than
  /// `use`.
  QUARRY_SLOW static void restore(heap_state& state, segment_use use, std::uint32_t segment,
                                  std::uint32_t index, word slices) {
    if (!(state.segments[segment].load() == use))
      (void)state.joins_at(segment, index).fetch_or(slices & (slices - 1), simt::relaxed);  // (X)
  }

  /// The first slice of allocation `rank` of those that `join` makes of `slices`.
  [[nodiscard]] QUARRY_HD static std::uint32_t first_of_rank(word slices, std::uint32_t count,
                                                             std::uint32_t rank) {
    QUARRY_NO_UNROLL
    for (; rank != 0; --rank) slices &= ~(low_bits(count) << lowest_one(slices));
    return lowest_one(slices);
  }

  /// The number of slices of the allocation whose first slice is `slice`: 1 if it is not joined, 0
  /// if it continues another allocation.
  [[nodiscard]] QUARRY_HD static std::uint32_t count_at(heap_state const& state, size_class id,
                                                        std::uint32_t segment,
                                                        std::uint32_t slice) {
    if (id < smallest_class) return 1;
    simt::fence_after_loads();
    return count_in(state.joins_at(segment, slice / bits_per_word).load(simt::relaxed),  // (Y)
                    slice % bits_per_word);
  }

  /// The first slice of the allocation that `slice` belongs to.
  [[nodiscard]] QUARRY_HD static std::uint32_t first_of(heap_state const& state, size_class id,
                                                        std::uint32_t segment,
                                                        std::uint32_t slice) {
    while (count_at(state, id, segment, slice) == 0) --slice;
    return slice;
  }

  /// Ends the allocation whose first slice is `slice`. Returns its slices, which then belong to the
  /// caller; 0 if there is no such allocation of several slices.
  QUARRY_SLOW static word separate(heap_state& state, std::uint32_t segment, std::uint32_t slice) {
    auto const joins = state.joins_at(segment, slice / bits_per_word);
    std::uint32_t const bit = slice % bits_per_word;
    word current = joins.load(simt::relaxed);  // (Y) after the fence of `count_at`
    for (;;) {
      std::uint32_t const count = count_in(current, bit);
      if (count < 2) return 0;
      word const slices = low_bits(count) << bit;
      word const rest = current & ~(slices & (slices - 1));
      if (joins.compare_exchange(current, rest, simt::relaxed)) return slices;  // (L)
    }
  }

 private:
  /// The number of slices of the allocation whose first slice has bit `bit`; 0 if that slice
  /// continues another allocation.
  [[nodiscard]] QUARRY_HD static std::uint32_t count_in(word joins, std::uint32_t bit) {
    if ((joins >> bit & 1) != 0) return 0;
    return lowest_one(~(joins >> bit >> 1)) + 1;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
