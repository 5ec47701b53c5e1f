// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/device/orders.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI {

/// The first 16 bytes of an allocation that up to 32 lanes share. Each lane has a part of the same
/// size; parts are packed.
///
///   |packed_superblock|part|part| ... |part|       parts have no headers and no entries in a
///                                                  table
///
/// The upstream heap finds the base address of the allocation that contains a part; this header
/// lies there. `lanes` has a bit for each part that is not freed, so the bit shows a double free.
///
/// Memory order. (Z) is acquire-release: the lane that clears the last bit has seen all accesses of
/// the other owners, and passes this ordering on to the upstream heap. `mark` is written before the
/// parts are allocated, and by the lane that frees the superblock. Any other lane that reads it (L)
/// either holds a part or passed a wrong pointer and gets an error.
struct alignas(16) packed_superblock {
  std::uint32_t mark;
  simt::lane_mask lanes;
  bytes shifted_bytes;  // the size of a part times 16: no header of a segment has this form

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  [[nodiscard]] QUARRY_HD static constexpr bytes stride(bytes size) {
    return size == 0 ? 16 : (size + 15) / 16 * 16;
  }

  QUARRY_HD void open(std::uint32_t count, bytes size) {
    mark = mark_of(this);
    lanes = static_cast<simt::lane_mask>(low_bits(count));
    shifted_bytes = size << 4;
  }
  [[nodiscard]] QUARRY_HD bytes part_bytes() const { return shifted_bytes >> 4; }
  [[nodiscard]] QUARRY_HD char* part(std::uint32_t index) {
    return reinterpret_cast<char*>(this + 1) + index * stride(part_bytes());
  }

  /// Returns the index of the part that starts at `pointer`. Returns `none` if no part starts there
  /// or this is not a packed superblock.
  [[nodiscard]] QUARRY_HD std::uint32_t index_of(void const* pointer) const {
    simt::atomic_ref<std::uint32_t> const shared{const_cast<std::uint32_t&>(mark)};
    if (shared.load(simt::relaxed) != mark_of(this)) return none;  // (L)
    bytes const distance =
        reinterpret_cast<std::uint64_t>(pointer) - reinterpret_cast<std::uint64_t>(this + 1);
    bytes const step = stride(part_bytes());
    return distance % step == 0 && distance / step < simt::warp_size
               ? static_cast<std::uint32_t>(distance / step)
               : none;
  }

  /// Frees the parts in `bits`. Returns the parts that were allocated before the call. A bit of
  /// `bits` that is not in the result shows a double free.
  [[nodiscard]] QUARRY_HD simt::lane_mask leave(simt::lane_mask bits) {
    return simt::atomic_ref<simt::lane_mask>{lanes}.fetch_and(
        ~bits,
        detail::superblock_leave_order);  // (Z)
  }
  QUARRY_HD void close() { simt::atomic_ref<std::uint32_t>{mark}.store(0, simt::relaxed); }  // (L)

 private:
  [[nodiscard]] QUARRY_HD static std::uint32_t mark_of(packed_superblock const* at) {
    std::uint32_t const hash =
        static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(at) >> 4) * 0x9e3779b1u ^
        0x4c53424bu;
    return (hash & ~7u) | 4u;  // other superblocks have other low bits (superblock, segment_header)
  }
};

static_assert(sizeof(packed_superblock) == 16);

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
        simt::lane_group::coalesced<class lane_malloc_site>().match_bytes(upstream).match(size);
    packed_superblock* all = nullptr;
    if (group.is_leader() && size <= max_bytes) {
      all = static_cast<packed_superblock*>(upstream.malloc(
          sizeof(packed_superblock) + group.size() * packed_superblock::stride(size)));
      if (all != nullptr) all->open(group.size(), size);
    }
    group.sync();  // what the leader wrote is seen by all
    all = group.broadcast(all);
    return all == nullptr ? nullptr : all->part(group.rank());
  }

  /// Frees part `index`. Returns false if it was freed before.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static bool free(Upstream const& upstream, packed_superblock* of,
                                           std::uint32_t index) {
    simt::lane_mask const own = simt::lane_mask{1} << index;
    auto const group = simt::lane_group::coalesced<class lane_free_site>().match(of);
    auto const bits = static_cast<simt::lane_mask>(group.or_reduce(own));
    bool const is_first = group.match(own).is_leader();
    group.sync();  // orders every member's writes before the leader's release
    simt::lane_mask before = 0;
    if (group.is_leader()) {
      before = of->leave(bits);
      if (before != 0 && (before & ~bits) == 0) {
        of->close();
        upstream.free(of);
      }
    }
    before = group.broadcast(before);
    return is_first && (before & own) != 0;
  }
};

}  // namespace quarry::inline QUARRY_ABI
