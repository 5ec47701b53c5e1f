// SPDX-License-Identifier: Apache-2.0
// What went wrong in a kernel, kept for the host: the first fault in full, and a count of each
// kind.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/device/orders.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI {

enum class fault_kind : std::uint32_t {
  none,
  out_of_memory,    ///< nothing that large is free: malloc gave nullptr
  double_free,      ///< the slice or segment is free already, or was never handed out
  foreign_pointer,  ///< the address lies outside the heap, or in a segment that holds no allocation
  interior_pointer,  ///< the address lies inside an allocation
  size_mismatch,     ///< a sized free named a size that the allocation cannot have
  bad_alignment,     ///< an alignment that is not a power of two, or is larger than a segment
  /// Hardened: bytes behind the allocation were overwritten; seen by its free, which goes on
  overflow,
  /// Hardened: freed memory was written to; seen later, by another malloc or free, which goes on
  use_after_free,
  wrong_version,  ///< the kernel was built for another layout of the heap, or other mitigations
  destroyed,      ///< the heap no longer exists
  table_full,     ///< coalescing: no room for another part in the map of superblocks
  /// malloc gave nullptr because another lane, which was bringing memory for this size, did not go
  /// on (a debugger, a stopped thread)
  stalled,
  count_  ///< how many kinds there are
};

/// One fault. The call that left it changed nothing, save for `overflow` and `use_after_free`.
struct fault {
  fault_kind kind = fault_kind::none;
  std::uint32_t block = 0;  ///< who: linear block and thread of the launch
  std::uint32_t thread = 0;
  bytes size = 0;                 ///< asked for, or of the allocation concerned
  std::uint64_t address = 0;      ///< of a pointer that was passed in
  bytes free_segments_bytes = 0;  ///< out_of_memory: bytes of wholly free segments at that time
};

/// Where kernels leave faults.
///
/// `first` is Guarded by: `taken`, whose first setter (K) is the only one to write it, and `ready`
/// (Y), which publishes it.
struct fault_log {
  fault first;
  std::uint32_t taken;
  std::uint32_t ready;
  std::uint64_t counts[static_cast<std::uint32_t>(fault_kind::count_)];

  /// Counts a fault of `lanes` lanes that called together; `what` is told of the first of them.
  QUARRY_HD void record(fault const& what, std::uint32_t lanes = 1) {
    simt::atomic_ref<std::uint64_t>{counts[static_cast<std::uint32_t>(what.kind)]}.fetch_add(
        lanes, simt::relaxed);  // (L) a count
    std::uint32_t nobody = 0;
    simt::atomic_ref<std::uint32_t> owner{taken};
    if (owner.load(simt::relaxed) != 0) return;                     // (K)
    if (!owner.compare_exchange(nobody, 1, simt::relaxed)) return;  // (K)
    auto const here = simt::this_place();
    first = what;
    first.block = here.block;
    first.thread = here.thread;
    simt::atomic_ref<std::uint32_t>{ready}.store(1, simt::release);  // (Y)
  }
};

}  // namespace quarry::inline QUARRY_ABI
