// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_supply.hpp"

namespace quarry::inline QUARRY_ABI {

/// Allocations of whole segments: contiguous ones, from the far end of the region (seed: Gallatin,
/// algorithm 1). The first one's entry is the head, which says how many there are; the others are
/// tails, which say where the head is.
class large_allocations {
 public:
  /// Claims `count` segments, and says in the table what they are used for. Returns the first, or
  /// `bit_tree::none`. O(segments / 64) for each try.
  QUARRY_SLOW static std::uint32_t claim(heap_state& state, std::uint32_t count) {
    std::uint32_t first = state.segment_tree().claim_back(count);
    if (first == bit_tree::none) first = simt::indirect_call(&claim_slowly, state, count);
    if (first == bit_tree::none) return first;
    state.change_free_segments(-static_cast<std::int32_t>(count));
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < count; ++i) state.segments[first + i].store(segment_use::tail(i));
    state.segments[first].store(segment_use::head(count));
    return first;
  }

  /// Frees the allocation that begins at segment `first`, whose entry was `head`. False, with
  /// nothing changed, if another lane did.
  QUARRY_SLOW static bool free(heap_state& state, std::uint32_t first, segment_use head) {
    if (!state.segments[first].change(head, segment_use::nothing())) return false;
    std::uint32_t const count = head.count();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < count; ++i)
      state.segments[first + i].store(segment_use::nothing());
    state.segment_tree().insert_run(first, count);
    state.change_free_segments(static_cast<std::int32_t>(count));
    return true;
  }

 private:
  /// Looks again and again, since a claim that fails holds some segments for a moment, which
  /// another one then misses, and since others may be giving segments back.
  QUARRY_SLOW static std::uint32_t claim_slowly(heap_state& state, std::uint32_t count) {
    simt::patience patience;
    QUARRY_NO_UNROLL
    for (std::uint32_t looks = 4;;) {
      word const before = state.begin_look();
      std::uint32_t const first = simt::indirect_call(&claim_from_classes, state, count);
      if (first != bit_tree::none) return first;
      bool const is_all = state.missed_none(before);
      if ((is_all && (--looks == 0 || state.count_free_segments() < count)) ||
          patience.ends_after(slice_supply::microseconds_for_returns))
        return bit_tree::none;
      simt::pause();
    }
  }

  /// What classes hold and have not handed out is taken back; while they go on taking more, there
  /// is hope, but not for ever.
  QUARRY_SLOW static std::uint32_t claim_from_classes(heap_state& state, std::uint32_t count) {
    std::uint32_t first = state.segment_tree().claim_back(count);
    simt::patience patience;
    QUARRY_NO_UNROLL
    while (first == bit_tree::none && slice_supply::any_has_run(state) &&
           !patience.ends_after(slice_supply::microseconds_without_hope)) {
      (void)simt::indirect_call(&slice_supply::take_back_from_others, state, slice_supply::no_class,
                                true, patience);
      first = state.segment_tree().claim_back(count);
    }
    return first;
  }
};

}  // namespace quarry::inline QUARRY_ABI
