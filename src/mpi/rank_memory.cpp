// SPDX-License-Identifier: Apache-2.0
#include "rank_memory.hpp"

#include "quarry/device/coalescing/dynamic_coalescing.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Larger sizes get allocations of their own: sharing saves little, and one rank that keeps its
/// part would keep 32 times as much.
constexpr bytes max_shared = 16 * 1024;

/// Segments of a superblock are aligned to 16 bytes if their sizes are multiples of 16.
[[nodiscard]] QUARRY_HD bytes rounded(bytes size) {
  return size == 0 ? min_alignment : (size + min_alignment - 1) & ~bytes{min_alignment - 1};
}

[[nodiscard]] QUARRY_HD bool has_own_warp() { return std::uint32_t{1} << layout().shift == 32; }

/// The usable size of the allocation. Returns 0 if `memory` is not allocated.
[[nodiscard]] QUARRY_HD bytes room_of(heap_ref const& heap, void* memory) {
  void* const base = heap.allocation_of(memory);
  if (base == nullptr) return 0;
  if (base == memory) return heap.usable_size(memory);
  detail::segment_header const header{memory};
  return header.size(header.load());
}

}  // namespace

QUARRY_SLOW void* allocate_for_program(bytes size) {
  heap_ref const heap = layout().heap();
  bytes const padded = rounded(size);
  if (padded < size) return nullptr;
  if (padded > max_shared || has_own_warp()) return heap.malloc(padded);
  auto const group = simt::lane_group::coalesced<class program_malloc_site>();
  if (group.all_equal(size_class_of(static_cast<std::uint32_t>(padded))))
    return heap.malloc_all(padded);
  void* const part = dynamic_coalescing::malloc(heap, padded);
  return part != nullptr ? part : heap.malloc(padded);  // the superblock may not fit, a slice may
}

QUARRY_SLOW void free_for_program(void* memory) {
  heap_ref const heap = layout().heap();
  void* const base = has_own_warp() ? memory : heap.allocation_of(memory);
  if (base == memory || base == nullptr) {
    heap.free(memory);  // records a fault if it is not allocated
  } else {
    (void)dynamic_coalescing::free(heap, memory);
  }
  note_activity();  // a rank may wait for memory
}

QUARRY_SLOW void* resize_for_program(void* memory, bytes size) {
  if (memory == nullptr) return allocate_for_program(size);
  bytes const room = room_of(layout().heap(), memory);
  if (room == 0) return nullptr;
  if (size <= room && size >= room / 2) return memory;
  void* const result = allocate_for_program(size);
  if (result == nullptr) return size <= room ? memory : nullptr;
  std::memcpy(result, memory, room < size ? room : size);
  free_for_program(memory);
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
