// SPDX-License-Identifier: Apache-2.0
// Errors in kernels, recorded for the host: the first fault in full, and a count of each kind.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/device/detail/orders.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI {

enum class fault_kind : std::uint32_t {
  none,
  out_of_memory,    ///< no free memory of that size: malloc returned nullptr
  double_free,      ///< already free; in the hardened mode also: never allocated
  foreign_pointer,  ///< the address lies outside the heap, or in a segment that holds no allocation
  interior_pointer,  ///< the address lies inside an allocation
  size_mismatch,     ///< the size of a sized free exceeds what the allocation holds
  bad_alignment,     ///< the alignment is not a power of two, or exceeds the segment size
  /// Hardened: bytes past the end of the allocation were overwritten. The free of the allocation
  /// detects this and completes.
  overrun,
  /// Hardened: freed memory was written to. A later malloc or free detects this and completes.
  use_after_free,
  wrong_version,  ///< the kernel was built for another heap layout or other mitigations
  destroyed,      ///< the heap no longer exists
  table_full,     ///< coalescing: the map of superblocks has no room for another part
  /// malloc returned nullptr after 0.2 s although memory was free. Throughout that time another
  /// lane was fetching memory for this size, or other lanes took that memory. Examples: a debugger
  /// stopped a lane; far more lanes allocate than the heap can serve
  stalled,
  count_  ///< the number of kinds
};

/// One fault. The call that recorded it changed nothing, except for `overrun` and
/// `use_after_free`.
struct fault {
  fault_kind kind = fault_kind::none;
  std::uint32_t block = 0;   ///< the lane's thread block: its linear index in the launch
  std::uint32_t thread = 0;  ///< the lane: its linear index in the thread block
  /// Out of memory: the requested size, with the bytes that alignment and the canary add. Of lanes
  /// that call together and request one size class of a heap, the largest of their sizes.
  /// `bad_alignment`: the alignment. `size_mismatch`: the size that the caller stated. Hardened:
  /// the bytes of the allocation. 0 if the call has no size
  bytes size = 0;
  /// The pointer that the caller passed. `use_after_free`: the freed memory
  std::uint64_t address = 0;
  bytes free_segments_bytes = 0;  ///< out_of_memory: bytes in free segments at that time
};

/// The record of faults that kernels write.
///
/// `first` is Guarded by: `claimed` (K) and `ready` (Y). Only the lane that changes `claimed` from
/// 0 to 1 writes `first`. Then it sets `ready`, which publishes `first`.
struct fault_log {
  fault first;
  std::uint32_t claimed;
  std::uint32_t ready;
  std::uint64_t counts[static_cast<std::uint32_t>(fault_kind::count_)];

  /// Counts a fault of `lanes` lanes that called together. `entry` describes the fault of the lane
  /// that calls `record`.
  QUARRY_HD void record(fault const& entry, std::uint32_t lanes = 1) {
    simt::atomic_ref{counts[static_cast<std::uint32_t>(entry.kind)]}.fetch_add(
        lanes, simt::relaxed);  // (L) a count
    std::uint32_t unclaimed = 0;
    simt::atomic_ref<std::uint32_t> owner{claimed};
    if (owner.load(simt::relaxed) != 0) return;                        // (K)
    if (!owner.compare_exchange(unclaimed, 1, simt::relaxed)) return;  // (K)
    auto const place = simt::this_place();
    first = entry;
    first.block = place.block;
    first.thread = place.thread;
    simt::atomic_ref{ready}.store(1, simt::release);  // (Y)
  }
};

}  // namespace quarry::inline QUARRY_ABI
