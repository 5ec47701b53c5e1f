// SPDX-License-Identifier: Apache-2.0
#include "rank_arrays.hpp"

#include "c_library.hpp"
#include "rank_memory.hpp"

#include "quarry/device/detail/superblock.hpp"

using namespace quarry::mpi;

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

using detail::superblock;

constexpr bytes line_bytes = 128;

/// The superblock of the upstream allocation at `base`: right before the first boundary of a line
/// that leaves room for it.
[[nodiscard]] QUARRY_HD superblock* rows_in(void* base) {
  auto const address = reinterpret_cast<std::uint64_t>(base);
  auto const first_row = (address + sizeof(superblock) + line_bytes - 1) / line_bytes * line_bytes;
  return reinterpret_cast<superblock*>(first_row) - 1;
}

/// Memory for the rows of a group of ranks; null if the heap has no room.
[[nodiscard]] QUARRY_HD superblock* allocate_rows(heap_ref const& heap, bytes size,
                                                  std::uint32_t lanes) {
  void* const base = heap.malloc((line_bytes + size * lanes + 15) / 16 * 16);
  if (base == nullptr) return nullptr;
  superblock* const shared = rows_in(base);
  shared->open_rows(lanes,
                    static_cast<bytes>(reinterpret_cast<char*>(shared) - static_cast<char*>(base)));
  return shared;
}

[[nodiscard]] QUARRY_HD bool may_interleave(bytes size) {
  return size <= max_interleaved && the_world().malloc == malloc_kind::collective &&
         !has_own_warp();
}

QUARRY_HD void clear(rank_array const& array, bytes size, std::uint32_t width) {
  auto* element = static_cast<unsigned char*>(array.first);
  if (array.distance == width) return fill_bytes(element, 0, size);
  for (bytes done = 0; done < size; done += width, element += array.distance) {
    if (width == 8) {
      *reinterpret_cast<std::uint64_t*>(element) = 0;
    } else if (width == 4) {
      *reinterpret_cast<std::uint32_t*>(element) = 0;
    } else {
      for (std::uint32_t i = 0; i < width; ++i) element[i] = 0;
    }
  }
}

}  // namespace

QUARRY_SLOW rank_array allocate_rank_array(bytes size, std::uint32_t width) {
  if (may_interleave(size)) {
    // an element at least: without one, the addresses of the ranks would lie past the superblock
    bytes const whole = size == 0 ? width : (size + width - 1) / width * width;
    auto const group =
        simt::lane_group::coalesced<class rank_array_site>().match(whole << 5 | width);
    if (group.size() > 1) {
      superblock* shared = nullptr;
      if (group.is_leader()) shared = allocate_rows(layout().heap(), whole, group.size());
      group.sync();  // so that all members see the leader's writes
      shared = group.broadcast(shared);
      if (shared != nullptr)
        return {reinterpret_cast<char*>(shared + 1) + group.rank() * width,
                bytes{width} * group.size()};
    }
  }
  return {allocate_collectively(size), width};
}

QUARRY_SLOW void free_rank_array(void* first, bytes distance, std::uint32_t width) {
  if (first == nullptr) return;
  if (distance == width) return free_for_program(first);
  heap_ref const heap = heap_of(first);
  void* const base = heap.allocation_of(first);
  superblock* const shared = base == nullptr ? nullptr : rows_in(base);
  if (shared == nullptr || !shared->has_rows(superblock::contents::rows))
    return heap.free(first);  // records a fault
  auto const index =
      static_cast<std::uint32_t>(static_cast<char*>(first) - reinterpret_cast<char*>(shared + 1)) /
      width;
  std::uint32_t const own_bit = std::uint32_t{1} << index % 32;
  auto const group = simt::lane_group::coalesced<class free_rank_array_site>().match(shared);
  auto const bits = static_cast<std::uint32_t>(group.or_reduce(own_bit));
  group.sync();  // orders the accesses of all members before the leader's release
  std::uint32_t allocated = 0;
  if (group.is_leader()) allocated = shared->leave(bits);
  allocated = group.broadcast(allocated);
  if ((allocated & own_bit) == 0)
    heap.free(first);  // a double free: records a fault, since no allocation begins here
  group.sync();        // before `first` can be in another allocation
  if (group.is_leader() && allocated != 0 && (allocated & ~bits) == 0) {
    shared->close_rows();
    heap.free(base);
  }
  note_activity();  // a rank may wait for memory
}

}  // namespace quarry::inline QUARRY_ABI::mpi

extern "C" {

/// Serves malloc (a `count` of 1) and calloc of an array that quarry-mpicc interleaves
/// (compiler/lane_arrays.hpp). Sets `distance`.
QUARRY_SLOW void* quarry_mpi_allocate_array(unsigned long count, unsigned long size, unsigned width,
                                            unsigned is_clear, unsigned long* distance) {
  *distance = width;
  if (size != 0 && count > ~0ul / size) {  // more than any heap has
    self().error_number = error_no_memory;
    return nullptr;
  }
  rank_array const array = allocate_rank_array(count * size, width);
  if (noted(array.first, count * size) == nullptr) return nullptr;
  *distance = array.distance;
  if (is_clear != 0) clear(array, count * size, width);
  return array.first;
}

QUARRY_SLOW void quarry_mpi_free_array(void* first, unsigned long distance, unsigned width) {
  free_rank_array(first, distance, width);
}

}  // extern "C"
