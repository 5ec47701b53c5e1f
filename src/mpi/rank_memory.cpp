// SPDX-License-Identifier: Apache-2.0
#include "rank_memory.hpp"

#include "c_layouts.hpp"
#include "compared_malloc.hpp"
#include "progress.hpp"

#include "quarry/device/coalescing/dynamic_coalescing.hpp"
#include "quarry/device/coalescing/packed_coalescing.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Larger sizes get allocations of their own: sharing saves little, and one rank that keeps its
/// part would keep 32 times as much.
constexpr bytes max_shared = 16 * 1024;

/// Segments of a superblock are aligned to 16 bytes if their sizes are multiples of 16.
[[nodiscard]] QUARRY_HD bytes rounded(bytes size) {
  return size == 0 ? min_alignment : (size + min_alignment - 1) & ~bytes{min_alignment - 1};
}

/// The distance of parts of `size` bytes, a multiple of 16. A cache of the GPU has 32 banks of four
/// bytes: lanes at a distance of a multiple of 64 bytes would use at most two of them at a time.
[[nodiscard]] QUARRY_HD bytes distance_of(bytes size) {
  return size % 64 == 0 ? size + min_alignment : size;
}

/// The usable size of the allocation. Returns 0 if `memory` is not allocated.
[[nodiscard]] QUARRY_HD bytes room_of(heap_ref const& heap, void* memory) {
  void* const base = heap.allocation_of(memory);
  if (base == nullptr) return 0;
  if (base == memory) return heap.usable_size(memory);
  auto* const superblock = static_cast<detail::superblock*>(base);
  if (superblock->index_of(memory) != detail::superblock::no_part) return superblock->part_bytes();
  detail::segment_header const header{memory};
  return header.size(header.load());
}

/// The heap that dynamic superblocks come from, up to their limit. Then ranks get slices of their
/// own, which takes the same time.
class superblock_heap {
 public:
  QUARRY_HD explicit superblock_heap(heap_ref const& heap) : heap_{heap} {}

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (in_use().load(simt::relaxed) + size > the_world().max_superblock_bytes) return nullptr;
    void* const base = heap_.malloc(size);
    if (base != nullptr) (void)in_use().fetch_add(heap_.usable_size(base), simt::relaxed);
    return base;
  }
  QUARRY_HD void free(void* base) const {
    (void)in_use().fetch_add(~heap_.usable_size(base) + 1, simt::relaxed);
    heap_.free(base);
  }

 private:
  [[nodiscard]] QUARRY_HD static simt::atomic_ref<std::uint64_t> in_use() {
    return simt::atomic_ref<std::uint64_t>{the_world().superblock_bytes};
  }
  heap_ref heap_;
};

/// For a free or a resize of an address that is not allocated, unless the heap counts it.
QUARRY_SLOW void note_wrong_address() {
  // relaxed: the host reads the sum when the ranks have ended
  (void)simt::atomic_ref<std::uint64_t>{the_world().wrong_addresses}.fetch_add(1, simt::relaxed);
}

[[nodiscard]] QUARRY_HD void* allocate_padded(bytes padded) {
  heap_ref const heap = layout().heap();
  if (padded > max_shared || has_own_warp()) return heap.malloc(padded);
  auto const group = simt::lane_group::coalesced<class program_malloc_site>();
  if (group.all_equal(size_class_of(static_cast<std::uint32_t>(padded))))
    return heap.malloc_all(padded);
  void* const part = dynamic_coalescing::malloc(superblock_heap{heap}, padded);
  return part != nullptr ? part : heap.malloc(padded);  // the superblock may not fit, a slice may
}

}  // namespace

QUARRY_SLOW void* allocate_for_program(bytes size) {
  if (compares_malloc()) return allocate_compared(size, false);
  bytes const padded = rounded(size);
  if (padded < size) return nullptr;
  void* const memory = allocate_padded(padded);
  return memory != nullptr ? memory : allocate_despite_shortage(padded);
}

QUARRY_SLOW void* allocate_collectively(bytes size) {
  if (compares_malloc()) return allocate_compared(size, true);
  bytes const padded = rounded(size);
  if (the_world().malloc == malloc_kind::dynamic || padded < size || padded > max_shared ||
      has_own_warp())
    return allocate_for_program(size);
  heap_ref const heap = layout().heap();
  auto const group = simt::lane_group::coalesced<class program_collective_site>();
  bool const is_one_size = group.all_equal(padded);
  bytes const distance = distance_of(padded);
  bool const is_class =
      size_of_class(size_class_of(static_cast<std::uint32_t>(distance))) == distance;
  if (!is_one_size || group.size() == 1) return allocate_for_program(size);
  if (is_class) return heap.malloc_all(distance);
  void* const part = packed_coalescing::malloc(heap, distance);
  return part != nullptr ? part : heap.malloc(padded);  // a slice may fit where 32 parts do not
}

/// Memory order. Relaxed (R): the host reads the record after the program has failed, and the sums
/// order nothing. A rank that counts later may store first. So each rank stores until it has stored
/// the newest sum; `count` is too low only if a store passes a later one. (F) comes after the size,
/// so whoever sees the first rank sees the size, too.
QUARRY_SLOW void note_refusal(bytes size) {
  self().error_number = error_no_memory;
  if (compares_malloc()) return;  // --heap has no effect on it
  refused_memory& refused = *the_world().refused;
  simt::atomic_ref<std::uint64_t> const refusals{the_world().refusals};
  auto const before = refusals.fetch_add(1, simt::relaxed);  // (R)
  if (before == 0) {
    refused.first_size = size;
    simt::atomic_ref<std::uint32_t>{refused.first}.store(own_rank() + 1, simt::release);  // (F)
  }
  std::uint64_t stored = 0;
  for (auto sum = before + 1; sum != stored; sum = refusals.load(simt::relaxed)) {  // (R)
    simt::atomic_ref<std::uint64_t>{refused.count}.store(sum, simt::relaxed);       // (R)
    stored = sum;
  }
}

QUARRY_SLOW void free_for_program(void* memory) {
  if (compares_malloc()) return free_compared(memory);
  heap_ref const heap = heap_of(memory);
  void* const base = has_own_warp() ? memory : heap.allocation_of(memory);
  if (base == memory || base == nullptr) {
    heap.free(memory);  // records a fault if it is not allocated
  } else if (auto const index = static_cast<detail::superblock*>(base)->index_of(memory);
             index != detail::superblock::no_part) {
    if (!packed_coalescing::free(heap, static_cast<detail::superblock*>(base), index))
      note_wrong_address();
  } else if (!dynamic_coalescing::free(superblock_heap{heap}, memory)) {
    note_wrong_address();
  }
  note_activity();  // a rank may wait for memory
}

QUARRY_SLOW void* resize_for_program(void* memory, bytes size) {
  if (memory == nullptr) return noted(allocate_for_program(size), size);
  bool const is_compared = compares_malloc();  // such allocations do not tell their sizes
  bytes const room = is_compared ? 0 : room_of(heap_of(memory), memory);
  if (room == 0) {
    if (!is_compared) note_wrong_address();
    self().error_number = error_invalid;
    return nullptr;
  }
  if (size <= room && size >= room / 2) return memory;
  void* const result = allocate_for_program(size);
  if (result == nullptr) return size <= room ? memory : noted(nullptr, size);
  std::memcpy(result, memory, room < size ? room : size);
  free_for_program(memory);
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
