// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/coalescing/superblock.hpp"
#include "quarry/device/coalescing/superblock_map.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI {

/// The lanes that share a superblock.
enum class coalesce : std::uint32_t {
  warp,  ///< the lanes of the warp that call together: normally all
  block  ///< all lanes of the thread block, which wait for each other
};

/// How `free` finds the superblock of a part.
enum class locate_by : std::uint32_t {
  header,  ///< by a header before the part: 16 more bytes per part
  map      ///< by a hash table: parts are adjacent; malloc and free each cost a lookup
};

/// Allocation for lanes that are known to call together with the same size (after GPU MPI
/// coalescing, section 3.1).
///
/// One lane allocates a superblock for all lanes; each lane gets its part. `coalesce::warp` serves
/// lanes with different sizes or upstream heaps one group after another. `coalesce::block` requires
/// that all lanes of the thread block call, with one size and one upstream heap. This is not
/// checked: all lanes get the size that thread 0 requests, from its heap. Parts are aligned to 16
/// bytes.
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
      // Lanes of one warp may be here on different rounds of a loop: then their sizes may differ
      // after all.
      auto const group =
          simt::lane_group::coalesced<class static_malloc_site>().match_bytes(upstream).match(size);
      detail::superblock* all = nullptr;
      if (group.is_leader()) all = open<By>(upstream, group.size(), size);
      group.sync();  // what the leader wrote is seen by all
      all = group.broadcast(all);
      return take<By>(upstream, map, all, group.rank());
    } else {
      auto const here = simt::this_place();
      detail::superblock* all = nullptr;
      if (here.thread == 0) all = open<By>(upstream, here.threads, size);
      all = reinterpret_cast<detail::superblock*>(
          simt::block_broadcast(reinterpret_cast<std::uint64_t>(all)));
      return take<By>(upstream, map, all, here.thread);
    }
  }

  /// Returns a part to its superblock.
  template <class Upstream>
  QUARRY_HD static void free(Upstream const& upstream, detail::superblock* of) {
    if (of->give_back()) upstream.free(of);
  }

  template <locate_by By, class Upstream>
  [[nodiscard]] QUARRY_HD static detail::superblock* open(Upstream const& upstream,
                                                          std::uint32_t lanes, bytes size) {
    if (size > max_bytes) return nullptr;
    auto* const all = static_cast<detail::superblock*>(
        upstream.malloc(sizeof(detail::superblock) +
                        lanes * detail::superblock::stride(size, By == locate_by::header)));
    if (all != nullptr) all->open(lanes, size, By == locate_by::header);
    return all;
  }

 private:
  template <locate_by By, class Upstream>
  [[nodiscard]] QUARRY_HD static result take(Upstream const& upstream, detail::superblock_map& map,
                                             detail::superblock* all, std::uint32_t index) {
    if (all == nullptr) return {nullptr, false};
    if constexpr (By == locate_by::header) return {all->part_with_header(index), false};
    char* const part = all->part(index, false);
    if (map.insert(part, all)) return {part, false};
    free(upstream, all);
    return {nullptr, true};
  }
};

}  // namespace quarry::inline QUARRY_ABI
