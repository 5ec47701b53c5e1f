// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_handle.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// What lies at an address of the heap, by the entry of its segment.
struct location {
  fault_kind kind;  // `none` if an allocation can start at the address
  bool is_large;    // not in a segment of slices
  std::uint32_t segment, slice;
  segment_use use;
  std::uint32_t size, slices;  // the bytes of each slice of the segment, and how many it has
};

/// The source of a segment's entry: the nearest cache, which may have an earlier entry, or memory
/// (segment_entry).
enum class entry_source { cache, memory };

template <entry_source Source>
[[nodiscard]] QUARRY_HD location locate(heap_handle const& heap, void const* pointer) {
  std::uint64_t const offset = heap.offset_of(pointer);
  auto const segment = static_cast<std::uint32_t>(offset >> heap.segment_shift());
  location found{fault_kind::foreign_pointer, true, segment, 0, segment_use{}, 0, 0};
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
  return found.is_large ? bytes{found.use.count()} << heap.segment_shift() : found.size;
}

/// Returns the base address of the allocation that contains `pointer`, or nullptr if the address is
/// free. An allocation in the quarantine is not free.
[[nodiscard]] QUARRY_HD inline void* base_of(heap_handle const& heap, void const* pointer) {
  location const found = locate<entry_source::memory>(heap, pointer);
  if (found.is_large) {
    if (found.use.is_head()) return heap.address(found.segment, 0);
    return found.use.is_tail() ? heap.address(found.segment - found.use.count(), 0) : nullptr;
  }
  if (found.slice >= found.slices) return nullptr;
  std::uint32_t const index = found.slice / bits_per_word;
  block const target = heap.block_of(found.segment, found.slices, index);
  bool const is_free_slice =
      (target.word_at(index % words_per_block).peek() >> found.slice % bits_per_word & 1) != 0;
  if (is_free_slice || target.peek().is_free()) return nullptr;
  return heap.address(found.segment, bytes{found.slice} * found.size);
}

}  // namespace quarry::inline QUARRY_ABI::detail
