// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/allocation_lookup.hpp"
#include "quarry/device/detail/large_allocations.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The heap's `free`, past the checks of the hardened mode.
class free_path {
 public:
  /// Frees the allocation at `pointer`, or records a fault and changes nothing.
  QUARRY_HD static void free_now(heap_handle const& heap, void* pointer) {
    location const found = locate<entry_source::cache>(heap, pointer);
    if (found.kind == fault_kind::none && !found.is_large && may_be_freed(heap, found)) {
      free_slice(heap, found, pointer);
    } else {  // a large allocation, or the cached entry of the segment is stale or wrong
      free_past_cache(heap, pointer);
    }
  }

 private:
  /// The check of the hardened mode before a free: whether the slice was handed out in this use of
  /// its segment. With a stale entry of the segment the answer may be wrong either way.
  [[nodiscard]] QUARRY_HD static bool may_be_freed([[maybe_unused]] heap_handle const& heap,
                                                   [[maybe_unused]] location const& found) {
    if constexpr (is_on(mitigation::canary))
      return heap.state().was_handed_out(found.use.slices_class(), found.segment, found.slice);
    return true;
  }

  /// Lanes that free slices of one word share one atomic.
  ///
  /// The slice's bit and the state of a free slice block show a double free at no extra cost.
  QUARRY_HD static void free_slice(heap_handle const& heap, location const& found, void* pointer) {
    size_class const id = found.use.slices_class();
    std::uint32_t const index = found.slice / bits_per_word;
    word const own_bit = word{1} << found.slice % bits_per_word;
    // CUDA executes an operation of several groups once for each group. So the groups share the
    // operations of all callers where they can.
    auto const callers = simt::lane_group::coalesced<class free_site>();
    std::uint32_t const word_number = (found.segment << (heap.segment_shift() - 10)) + index;
    // Lanes that read the entry separately may have seen different uses of the segment.
    auto const group =
        callers.match(&heap.state(), std::uint64_t{word_number} << 32 | found.use.key());
    word slices = own_bit;
    bool is_double_free = false;
    if (group.size() > 1) {
      slices = group.or_reduce(own_bit);
      is_double_free = count_ones(slices) != group.size() && !group.match(own_bit).is_leader();
    }
    callers.sync();  // orders every member's writes before the leader's release
    slice_return::result outcome{0, false, false};
    if (group.is_leader()) outcome = release(heap, found, slices);
    bool const is_usual = !outcome.is_stale && outcome.double_freed == 0 && !outcome.ends_segment;
    if (callers.ballot(!is_usual) != 0) {
      simt::lane_mask const returning = callers.ballot(outcome.ends_segment);
      if (returning != 0)
        simt::indirect_call(&slice_return::return_segments, heap.state(), callers, returning, id,
                            found.segment);
      word const double_freed = callers.broadcast(outcome.double_freed, group.leader());
      bool const is_stale = callers.broadcast(outcome.is_stale, group.leader());
      is_double_free = (double_freed & own_bit) != 0 || is_double_free;
      if (is_stale && !is_double_free) free_past_cache(heap, pointer);
    }
    if (is_double_free) heap.report(fault_kind::double_free, 0, pointer);
  }

  /// Frees with the current entry of the segment. A pointer that it rejects is not allocated.
  QUARRY_HD static void free_past_cache(heap_handle const& heap, void* pointer) {
    return simt::indirect_call([heap, pointer] {
      location const found = locate<entry_source::memory>(heap, pointer);
      fault_kind kind = found.kind;
      if (kind == fault_kind::none) {
        bool const is_freed = found.is_large
                                  ? large_allocations::free(heap.state(), found.segment, found.use)
                                  : may_be_freed(heap, found) && free_slices(heap, found);
        if (is_freed) return;
        kind = fault_kind::double_free;
      }
      heap.report(kind, 0, pointer);
    });
  }

  /// Frees the slice that was found, or the allocation of several slices that begins with it.
  [[nodiscard]] QUARRY_HD static bool free_slices(heap_handle const& heap, location const& found) {
    if (found.joined > 1)
      return simt::indirect_call(&free_joined, heap.state(), found.use, found.segment, found.slice);
    return simt::indirect_call(&slice_return::release_alone, heap.state(), found.use, found.segment,
                               found.slice / bits_per_word,
                               word{1} << found.slice % bits_per_word) != 0;
  }

  /// Frees the joined slices that begin with `slice`. A second free may come so late that it
  /// separates slices of a later use; then it joins them again.
  QUARRY_SLOW static bool free_joined(heap_state& state, segment_use use, std::uint32_t segment,
                                      std::uint32_t slice) {
    std::uint32_t const index = slice / bits_per_word;
    word const slices = simt::indirect_call(&joined_slices::separate, state, segment, slice);
    if (slices == 0) return false;
    bool const is_freed =
        simt::indirect_call(&slice_return::release_alone, state, use, segment, index, slices) != 0;
    if (!is_freed) simt::indirect_call(&joined_slices::restore, state, use, segment, index, slices);
    return is_freed;
  }

  /// Releases `slices` of the word with the slice that was found.
  [[nodiscard]] QUARRY_HD static slice_return::result release(heap_handle const& heap,
                                                              location const& found, word slices) {
    std::uint32_t const index = found.slice / bits_per_word;
    return slice_return::release(heap.state(), found.use.slices_class(), found.use.generation(),
                                 heap.block_of(found.segment, found.slices, index), found.segment,
                                 index, slices);
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
