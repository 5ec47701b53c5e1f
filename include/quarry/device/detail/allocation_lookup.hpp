// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_handle.hpp"
#include "quarry/device/detail/joined_slices.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// What lies at an address of the heap, by the entry of its segment.
struct location {
  fault_kind kind;  // `none` if an allocation can start at the address
  bool is_large;    // not in a segment of slices
  std::uint32_t segment, slice;
  segment_use use;
  std::uint32_t size, slices;  // the bytes of each slice of the segment, and how many it has
  std::uint32_t joined;        // how many slices the allocation has
};

/// The source of a segment's entry: the nearest cache, which may have an earlier entry, or memory
/// (segment_entry).
enum class entry_source { cache, memory };

/// Whether a slice of a segment of class `id` is free. Exact for a slice that other lanes do not
/// change.
[[nodiscard]] QUARRY_HD inline bool is_free(heap_state const& state, size_class id,
                                            std::uint32_t segment, std::uint32_t slice) {
  block const target = state.block_at(id, segment, slice / slices_per_block);
  word const bits = target.word_at(slice / bits_per_word % words_per_block).peek();
  return (bits >> slice % bits_per_word & 1) != 0 || target.peek().is_free();
}

/// Whether a slice is not free and was allocated in this use of its segment. Exact for a slice that
/// other lanes do not change.
[[nodiscard]] QUARRY_SLOW inline bool is_allocated(heap_state& state, size_class id,
                                                   std::uint32_t segment, std::uint32_t slice) {
  return !is_free(state, id, segment, slice) && state.was_handed_out(id, segment, slice);
}

/// A number of slices that stands for slices that are free.
inline constexpr std::uint32_t freed_slices = ~0u;

/// The number of slices of the allocation that begins `distance` bytes after the start of a slice;
/// 0 if none does, `freed_slices` if the slice is free.
[[nodiscard]] QUARRY_SLOW inline std::uint32_t slices_of_allocation(heap_state const& state,
                                                                    size_class id,
                                                                    std::uint32_t segment,
                                                                    std::uint32_t slice,
                                                                    std::uint32_t distance) {
  std::uint32_t const joined = joined_slices::count_at(state, id, segment, slice);
  if (distance == 0) return joined == 1 ? 1 : 0;
  if (distance != joined_slices::offset) return 0;
  if (joined > 1) return joined;
  return is_free(state, id, segment, slice) ? freed_slices : 0;
}

template <entry_source Source>
[[nodiscard]] QUARRY_HD location locate(heap_handle const& heap, void const* pointer) {
  std::uint64_t const offset = heap.offset_of(pointer);
  auto const segment = static_cast<std::uint32_t>(offset >> heap.segment_shift());
  location found{fault_kind::foreign_pointer, true, segment, 0, segment_use{}, 0, 0, 1};
  if (offset >> heap.segment_shift() >= heap.entries()) return found;
  auto const segment_offset =
      static_cast<std::uint32_t>(offset) & (static_cast<std::uint32_t>(heap.segment_bytes()) - 1);
  segment_entry& entry = heap.state().segments[segment];
  segment_entry::view const view =
      Source == entry_source::cache ? entry.look() : entry.look_past_cache();
  found.use = view.use;
  if (found.use.is_slices()) {
    found.is_large = false;
    found.size = size_of_class(found.use.slices_class());
    found.slices = view.layout.slices();
    found.slice = view.layout.by_size().quotient(segment_offset);
    bool const is_start = found.slice * found.size == segment_offset && found.slice < found.slices;
    found.kind = is_start ? fault_kind::none : fault_kind::interior_pointer;
    if constexpr (Source == entry_source::memory) {
      if (found.slice < found.slices && (!is_start || is_on(mitigation::canary))) {
        found.joined =
            simt::indirect_call(&slices_of_allocation, heap.state(), found.use.slices_class(),
                                segment, found.slice, segment_offset - found.slice * found.size);
        found.kind = found.joined == 0              ? fault_kind::interior_pointer
                     : found.joined == freed_slices ? fault_kind::double_free
                                                    : fault_kind::none;
      }
    }
  } else if (found.use.is_head()) {
    found.kind = segment_offset == 0 ? fault_kind::none : fault_kind::interior_pointer;
  } else if (found.use.is_tail()) {
    found.kind = fault_kind::interior_pointer;
  }
  return found;
}

/// Locates an address, and records a fault if no allocation can start there.
[[nodiscard]] QUARRY_HD inline location locate_or_report(heap_handle const& heap,
                                                         void const* pointer) {
  location const found = locate<entry_source::memory>(heap, pointer);
  if (found.kind != fault_kind::none) heap.report(found.kind, 0, pointer);
  return found;
}

/// The bytes of the allocation that starts at the location, with the canary; 0 if none starts.
[[nodiscard]] QUARRY_HD inline bytes size_of(heap_handle const& heap, location const& found) {
  if (found.kind != fault_kind::none) return 0;
  if (found.is_large) return bytes{found.use.count()} << heap.segment_shift();
  return bytes{found.joined} * found.size - (found.joined > 1 ? joined_slices::offset : 0);
}

/// Returns the base address of the allocation that contains `pointer`, or nullptr if the address is
/// free. An allocation in the quarantine is not free. Does not check `is_in_present_use`: a
/// function that does both needs two registers more, and all kernels of its file with it.
[[nodiscard]] QUARRY_HD inline void* base_of(heap_handle const& heap, void const* pointer) {
  location const found = locate<entry_source::memory>(heap, pointer);
  if (found.is_large) {
    if (found.use.is_head()) return heap.address(found.segment, 0);
    return found.use.is_tail() ? heap.address(found.segment - found.use.count(), 0) : nullptr;
  }
  if (found.slice >= found.slices) return nullptr;
  size_class const id = found.use.slices_class();
  std::uint32_t const first = joined_slices::first_of(heap.state(), id, found.segment, found.slice);
  bool const is_joined = joined_slices::count_at(heap.state(), id, found.segment, first) > 1;
  if (is_free(heap.state(), id, found.segment, first)) return nullptr;
  void* const base = heap.address(
      found.segment, bytes{first} * found.size + (is_joined ? joined_slices::offset : 0));
  return pointer < base ? nullptr : base;
}

/// Whether an address that `base_of` returned was allocated in this use of its segment.
[[nodiscard]] QUARRY_SLOW inline bool is_in_present_use(heap_handle const& heap, void* base) {
  std::uint64_t const offset = heap.offset_of(base);
  auto const segment = static_cast<std::uint32_t>(offset >> heap.segment_shift());
  segment_entry::view const view = heap.state().segments[segment].look_past_cache();
  if (!view.use.is_slices()) return true;
  std::uint32_t const slice = view.layout.by_size().quotient(
      static_cast<std::uint32_t>(offset) & (static_cast<std::uint32_t>(heap.segment_bytes()) - 1));
  return heap.state().was_handed_out(view.use.slices_class(), segment, slice);
}

}  // namespace quarry::inline QUARRY_ABI::detail
