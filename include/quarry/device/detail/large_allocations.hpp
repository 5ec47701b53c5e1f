// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/run_supply.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Allocations of whole, contiguous segments, from the far end of the region (after Gallatin,
/// algorithm 1). The entry of the first segment is the head: it holds the number of segments. The
/// entry of each other segment is a tail: it holds the distance to the head.
class large_allocations {
 public:
  /// Claims `count` segments and records their use in the table. Returns the first segment, or
  /// `bit_tree::none`. O(segments / 64) for each attempt.
  QUARRY_SLOW static std::uint32_t claim(heap_state& state, std::uint32_t count) {
    std::uint32_t first = state.segment_tree().claim_back(count);
    if (first == bit_tree::none) first = simt::indirect_call(&claim_slowly, state, count);
    if (first == bit_tree::none) return first;
    state.free_segments.add(-static_cast<std::int32_t>(count));
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < count; ++i) state.segments[first + i].store(segment_use::tail(i));
    state.segments[first].store(segment_use::head(count));
    return first;
  }

  /// Frees the allocation that begins at segment `first`, whose entry was `head`. Returns false and
  /// changes nothing if another lane has freed the allocation.
  QUARRY_SLOW static bool free(heap_state& state, std::uint32_t first, segment_use head) {
    if (!state.segments[first].change(head, segment_use::free_use())) return false;
    std::uint32_t const count = head.count();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < count; ++i)
      state.segments[first + i].store(segment_use::free_use());
    state.segment_tree().insert_range(first, count);
    state.free_segments.add(static_cast<std::int32_t>(count));
    return true;
  }

 private:
  /// Tries several times, for two reasons. A claim that fails holds some segments briefly, and
  /// another claim then misses these segments. Other lanes may be returning segments.
  QUARRY_SLOW static std::uint32_t claim_slowly(heap_state& state, std::uint32_t count) {
    simt::patience patience;
    QUARRY_NO_UNROLL
    for (std::uint32_t looks = 4;;) {
      word const previous = state.begin_search();
      std::uint32_t const first = simt::indirect_call(&claim_from_classes, state, count);
      if (first != bit_tree::none) return first;
      bool const saw_all = state.search_saw_all(previous);
      patience.spend();
      if ((saw_all && (--looks == 0 || state.free_segments.count() < count)) ||
          patience.has_lasted(slice_request::microseconds_if_nearly_full))
        return bit_tree::none;
      simt::pause(4);
    }
  }

  /// Claims `count` segments. If there are not enough, reclaims the unused segments of all size
  /// classes first.
  QUARRY_SLOW static std::uint32_t claim_from_classes(heap_state& state, std::uint32_t count) {
    std::uint32_t const first = state.segment_tree().claim_back(count);
    if (first != bit_tree::none || !run_supply::any_has_run(state)) return first;
    (void)simt::indirect_call(&run_supply::reclaim_from_others, state, run_supply::no_class, true);
    return state.segment_tree().claim_back(count);
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
