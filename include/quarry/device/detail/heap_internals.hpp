// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/fault.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Operations on a heap for Quarry's own code. Not a public interface.
struct heap_internals {
  /// Frees an allocation at once, without the hardened mode's checks and without the quarantine.
  template <class Heap>
  QUARRY_HD static void free_now(Heap const& heap, void* pointer) {
    heap.free_now(pointer);
  }

  /// Records a fault of `lanes` lanes.
  template <class Heap>
  QUARRY_HD static void report(Heap const& heap, fault_kind kind, bytes size, void const* pointer,
                               std::uint32_t lanes = 1) {
    heap.report(kind, size, pointer, lanes);
  }

  /// Whether a heap of this type accepts fault reports from other code.
  template <class Heap>
  static constexpr bool takes_reports = requires(Heap const& heap, void const* pointer) {
    heap.report(fault_kind::double_free, bytes{}, pointer, 1u);
  };
};

}  // namespace quarry::inline QUARRY_ABI::detail
