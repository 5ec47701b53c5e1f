// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/device/detail/superblock.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI {

/// Allocation for the lanes of a warp that happen to call together with one size and one upstream
/// heap. The heap must provide `allocation_of`, so that parts need no headers and no map.
///
/// Malloc costs one upstream call per group. Lanes that free parts of one superblock together share
/// one atomic. Parts are aligned to 16 bytes. No lane waits for a lane that is elsewhere.
class packed_coalescing {
 public:
  static constexpr bytes max_bytes = bytes{1} << 40;

  template <class Upstream>
  [[nodiscard]] QUARRY_HD static void* malloc(Upstream const& upstream, bytes size) {
    auto const group =
        simt::lane_group::coalesced<class packed_malloc_site>().match_bytes(upstream).match(size);
    detail::superblock* superblock = nullptr;
    if (group.is_leader() && size <= max_bytes) {
      superblock = static_cast<detail::superblock*>(upstream.malloc(
          sizeof(detail::superblock) + group.size() * detail::superblock::stride(size, false)));
      if (superblock != nullptr) superblock->open_packed(group.size(), size);
    }
    group.sync();  // so that all members see the leader's writes
    superblock = group.broadcast(superblock);
    return superblock == nullptr ? nullptr : superblock->part(group.rank(), false);
  }

  /// Frees part `index`. Returns false if the part was already free.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static bool free(Upstream const& upstream, detail::superblock* superblock,
                                           std::uint32_t index) {
    simt::lane_mask const own_bit = simt::lane_mask{1} << index;
    auto const group = simt::lane_group::coalesced<class packed_free_site>().match(superblock);
    auto const bits = static_cast<simt::lane_mask>(group.or_reduce(own_bit));
    bool const is_first = group.match(own_bit).is_leader();
    group.sync();  // orders every member's writes before the leader's release
    simt::lane_mask previous = 0;
    if (group.is_leader()) {
      previous = superblock->leave(bits);
      if (previous != 0 && (previous & ~bits) == 0) {
        superblock->close();
        upstream.free(superblock);
      }
    }
    previous = group.broadcast(previous);
    return is_first && (previous & own_bit) != 0;
  }
};

}  // namespace quarry::inline QUARRY_ABI
