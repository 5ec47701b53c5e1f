// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/segment_header.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI {

/// Allocation for the lanes of a warp that happen to call together with one upstream heap, with any
/// sizes (after GPU MPI coalescing, section 3.2).
///
/// The lowest lane allocates one superblock. A scan over the sizes gives each lane the start of its
/// segment. No lane waits for a lane that is elsewhere.
///
///   |header|payload|  |header|payload| ...      Segments begin at multiples of 8. If a size is a
///                                               multiple of 16, segments begin at multiples of
///                                               16, and the payloads of such sizes are aligned
///                                               to 16.
///
/// The last segment that is not free is responsible for the superblock. The lane that frees another
/// segment only marks its header. The lane that frees the last segment walks back over free
/// segments and passes the responsibility to the first segment that is not free. It uses
/// compare-and-swap, because that segment may become free at this moment. If all segments are free,
/// the lane frees the superblock.
class dynamic_coalescing {
 public:
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static void* malloc(Upstream const& upstream, bytes size) {
    auto const group =
        simt::lane_group::coalesced<class dynamic_malloc_site>().match_bytes(upstream);
    // A lane whose size is too large gets no memory; the other lanes get theirs.
    bool const is_possible = size <= detail::segment_header::max_bytes;
    std::uint32_t const own_size = is_possible ? static_cast<std::uint32_t>(size) : 0;
    std::uint32_t const step = group.ballot(own_size % 16 == 0) != 0 ? 16 : 8;
    std::uint32_t const previous_lane = previous_member(group);
    std::uint32_t const previous_size = group.broadcast(own_size, previous_lane);
    // the second argument is at least the distance to the previous payload
    std::uint32_t const width =
        detail::segment_header::width_for(own_size, bytes{previous_size} + 40);
    bytes const offset_in_segment = width == 8 ? step : width;
    bytes const footprint =
        (offset_in_segment + (own_size == 0 ? 1 : own_size) + step - 1) & ~bytes{step - 1};
    bytes const start = group.exclusive_sum(footprint);
    bytes const previous_payload = group.broadcast(start + offset_in_segment, previous_lane);
    bytes const total = group.broadcast(start + footprint, last_lane(group));
    char* base = nullptr;
    if (group.is_leader()) base = static_cast<char*>(upstream.malloc(total));
    group.sync();  // extends the leader's acquire to all members
    base = group.broadcast(base);
    if (base == nullptr) return nullptr;
    char* const payload = base + start + offset_in_segment;
    bool const is_first = group.is_leader();
    bool const is_last = last_lane(group) == simt::lane_group::own_lane();
    detail::segment_header const header{payload};
    // the first segment's header may lie 8 bytes after `base`
    if (is_first && step == 16) detail::segment_header::mark_base(base);
    header.write((is_first ? detail::segment_header::is_superblock : 0) |
                     (is_last ? detail::segment_header::is_last : 0),
                 is_first ? 0 : start + offset_in_segment - previous_payload, own_size);
    group.sync();  // so that a lane that frees sees all headers
    if (is_possible) return payload;
    (void)free(upstream, payload);
    return nullptr;
  }

  /// Returns false and changes nothing if the segment is already free or has no valid header.
  /// Wait-free: visits at most 32 segments, with at most three attempts each. An interior pointer
  /// after bytes that look like a header may pass as a segment; free then changes those bytes.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static bool free(Upstream const& upstream, void* payload) {
    detail::segment_header const own_header{payload};
    std::uint64_t current = own_header.load();
    if (!own_header.is_plausible(current) ||
        !own_header.set(current, detail::segment_header::is_free, detail::segment_header::is_free))
      return false;
    if ((current & detail::segment_header::is_last) == 0) return true;
    auto* position = static_cast<char*>(payload);
    QUARRY_NO_UNROLL
    for (std::uint32_t remaining = simt::warp_size;
         (current & detail::segment_header::is_superblock) == 0; --remaining) {
      if (remaining == 0) return false;  // the bytes are not headers
      position -= detail::segment_header{position}.distance(current);
      detail::segment_header const header{position};
      current = header.load();
      if (!header.is_plausible(current)) return false;
      // the owner of this segment is now responsible for the superblock
      if (header.set(current, detail::segment_header::is_last, detail::segment_header::is_free))
        return true;
    }
    upstream.free(detail::segment_header{position}.base());
    return true;
  }

 private:
  /// The lane of the member before this lane; this lane if it is the first member.
  [[nodiscard]] QUARRY_HD static std::uint32_t previous_member(simt::lane_group const& group) {
    std::uint32_t const lane = simt::lane_group::own_lane();
    simt::lane_mask const lower = group.members() & static_cast<simt::lane_mask>(low_bits(lane));
    return lower == 0 ? lane : highest_one(lower);
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t last_lane(simt::lane_group const& group) {
    return highest_one(group.members());
  }
};

}  // namespace quarry::inline QUARRY_ABI
