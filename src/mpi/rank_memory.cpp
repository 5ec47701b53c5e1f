// SPDX-License-Identifier: Apache-2.0
#include "rank_memory.hpp"

#include "compared_malloc.hpp"

#include "quarry/device/coalescing/dynamic_coalescing.hpp"
#include "quarry/device/coalescing/reserved_coalescing.hpp"

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

/// What the ranks of the calling lane's warp share for allocate_collectively; null if nothing.
[[nodiscard]] QUARRY_HD reserved_coalescing::ring* own_ring() {
  std::uint32_t const index = reserved_coalescing::ring_of_this_lane();
  return index < the_world().ring_count ? the_world().rings + index : nullptr;
}

/// The usable size of the allocation. Returns 0 if `memory` is not allocated.
[[nodiscard]] QUARRY_HD bytes room_of(heap_ref const& heap, void* memory) {
  void* const base = heap.allocation_of(memory);
  if (base == nullptr) return 0;
  if (base == memory) return heap.usable_size(memory);
  if (!detail::segment_header::begins_at(base))
    return static_cast<detail::superblock*>(base)->part_bytes();
  detail::segment_header const header{memory};
  return header.size(header.load());
}

}  // namespace

QUARRY_SLOW void* allocate_for_program(bytes size) {
  if (compares_malloc()) return allocate_compared(size, false);
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

QUARRY_SLOW void* allocate_collectively(bytes size) {
  if (compares_malloc()) return allocate_compared(size, true);
  reserved_coalescing::ring* const ring = own_ring();
  bytes const padded = rounded(size);
  if (ring == nullptr || padded < size || padded > max_shared) return allocate_for_program(size);
  heap_ref const heap = layout().heap();
  std::uint32_t const call = ++self().collective_allocations;
  auto const group = simt::lane_group::coalesced<class program_collective_site>();
  // All ranks of a warp at the same call need no reservation; none of them uses the ring.
  if (group.size() == simt::warp_size && group.all_equal(call) && group.all_equal(padded))
    return heap.malloc_all(padded);
  auto const granted = reserved_coalescing::malloc(heap, *ring, padded);
  return granted.status == reserved_coalescing::outcome::done ? granted.pointer
                                                              : allocate_for_program(size);
}

QUARRY_SLOW void leave_collective_allocations() {
  if (reserved_coalescing::ring* const ring = own_ring())
    reserved_coalescing::leave(layout().heap(), *ring);
}

QUARRY_SLOW void free_for_program(void* memory) {
  if (compares_malloc()) return free_compared(memory);
  heap_ref const heap = layout().heap();
  void* const base = has_own_warp() ? memory : heap.allocation_of(memory);
  if (base == memory || base == nullptr) {
    heap.free(memory);  // records a fault if it is not allocated
  } else if (detail::segment_header::begins_at(base)) {
    (void)dynamic_coalescing::free(heap, memory);
  } else {
    (void)static_coalescing::free_part(heap, static_cast<detail::superblock*>(base), memory);
  }
  note_activity();  // a rank may wait for memory
}

QUARRY_SLOW void* resize_for_program(void* memory, bytes size) {
  if (memory == nullptr) return allocate_for_program(size);
  if (compares_malloc()) return nullptr;  // their allocations do not tell their sizes
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
