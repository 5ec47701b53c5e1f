// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/superblock.hpp"
#include "quarry/device/detail/superblock_map.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI {

/// The lanes that share a superblock.
enum class coalesce : std::uint32_t {
  warp,  ///< the lanes of the warp that call together: normally all lanes of the warp
  block  ///< all lanes of the thread block, which wait for each other
};

/// How `free` finds the superblock of a part.
enum class locate_by : std::uint32_t {
  header,  ///< by a header before the part: 16 more bytes per part
  map      ///< by a hash table: parts are adjacent; each malloc and each free costs a lookup
};

/// Allocation for lanes that are known to call together with the same size (after GPU MPI
/// coalescing, section 3.1).
///
/// One lane allocates a superblock for all lanes; each lane gets its part. If lanes have different
/// sizes or upstream heaps, `coalesce::warp` forms a group for each size and heap.
/// `coalesce::block` requires that all lanes of the thread block call, with one size and one
/// upstream heap. This is not checked: all lanes get the size that thread 0 requests, from the heap
/// of thread 0. Parts are aligned to 16 bytes.
///
/// If the upstream heap has no memory, all lanes get nullptr. If the map has no room for a lane's
/// part, the lane frees the part at once and gets nullptr.
class static_coalescing {
 public:
  /// The maximum size of a part.
  static constexpr bytes max_bytes = bytes{1} << 40;

  struct result {
    void* pointer;
    bool map_is_full;
  };

  template <coalesce Among, locate_by By, class Upstream>
  [[nodiscard]] QUARRY_HD static result malloc(Upstream const& upstream,
                                               detail::superblock_map& map, bytes size) {
    if constexpr (Among == coalesce::warp) {
      // The sizes may differ: lanes of one warp may call in different iterations of a loop.
      auto const group =
          simt::lane_group::coalesced<class static_malloc_site>().match_bytes(upstream).match(size);
      detail::superblock* superblock = nullptr;
      if (group.is_leader()) superblock = open<By>(upstream, group.size(), size);
      group.sync();  // so that all members see the leader's writes
      superblock = group.broadcast(superblock);
      return part_of_lane<By>(upstream, map, superblock, group.rank());
    } else {
      auto const place = simt::this_place();
      detail::superblock* superblock = nullptr;
      if (place.thread == 0) superblock = open<By>(upstream, place.threads, size);
      superblock = reinterpret_cast<detail::superblock*>(
          simt::block_broadcast(reinterpret_cast<std::uint64_t>(superblock)));
      return part_of_lane<By>(upstream, map, superblock, place.thread);
    }
  }

  /// Returns a part to its superblock.
  template <class Upstream>
  QUARRY_HD static void free(Upstream const& upstream, detail::superblock* superblock) {
    if (superblock->free_parts()) upstream.free(superblock);
  }

  template <locate_by By, class Upstream>
  [[nodiscard]] QUARRY_HD static detail::superblock* open(Upstream const& upstream,
                                                          std::uint32_t lanes, bytes size) {
    if (size > max_bytes) return nullptr;
    auto* const superblock = static_cast<detail::superblock*>(
        upstream.malloc(sizeof(detail::superblock) +
                        lanes * detail::superblock::stride(size, By == locate_by::header)));
    if (superblock != nullptr) superblock->open(lanes, size, By == locate_by::header);
    return superblock;
  }

 private:
  template <locate_by By, class Upstream>
  [[nodiscard]] QUARRY_HD static result part_of_lane(Upstream const& upstream,
                                                     detail::superblock_map& map,
                                                     detail::superblock* superblock,
                                                     std::uint32_t index) {
    if (superblock == nullptr) return {nullptr, false};
    if constexpr (By == locate_by::header) return {superblock->part_with_header(index), false};
    char* const part = superblock->part(index, false);
    if (map.insert(part, superblock)) return {part, false};
    free(upstream, superblock);
    return {nullptr, true};
  }
};

}  // namespace quarry::inline QUARRY_ABI
