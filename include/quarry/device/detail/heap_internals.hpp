// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/free_path.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Operations on a heap for Quarry's own code. Not a public interface.
struct heap_internals {
  template <class Heap>
  [[nodiscard]] QUARRY_HD static heap_handle const& handle_of(Heap const& heap) {
    return heap.handle_;
  }

  /// Frees an allocation at once, without the hardened mode's checks and without the quarantine.
  template <class Heap>
  QUARRY_HD static void free_now(Heap const& heap, void* pointer) {
    free_path::free_now(heap.handle_, pointer);
  }

  /// Records a fault of `lanes` lanes.
  template <class Heap>
  QUARRY_HD static void report(Heap const& heap, fault_kind kind, bytes size, void const* pointer,
                               std::uint32_t lanes = 1) {
    heap.handle_.report(kind, size, pointer, lanes);
  }

  /// Whether a heap of this type accepts fault reports from other code.
  template <class Heap>
  static constexpr bool takes_reports = requires(Heap const& heap) { heap.handle_; };
};

}  // namespace quarry::inline QUARRY_ABI::detail
