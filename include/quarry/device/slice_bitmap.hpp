// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/device/orders.hpp"

namespace quarry::inline QUARRY_ABI {

/// 64 slices of a block: bit 1 = came back and may be claimed; bit 0 = in use, or not handed out
/// yet, or its block is free, or no slice.
///
/// Progress: wait-free. A claim takes less than it asked for only if another lane was first.
///
/// Memory order. A slice's bytes are plain memory. What keeps its old owner's writes ahead of its
/// new owner's is its bit: (R) sets it after the old owner's last access, (C) clears it before the
/// new owner's first. Between them the word changes by RMWs only, which continue the release
/// sequence that (R) heads, so (C) synchronizes with (R) even when other bits changed in between.
/// (L) orders nothing: it picks bits to try, and (C) decides.
class slice_word {
 public:
  QUARRY_HD explicit slice_word(word& bits) : bits_{bits} {}

  /// Marks slices as back; returns the word before. Requires `simt::fence_before_stores` after what
  /// the old owner did. Bits of `slices` that are one in it are of double frees.
  [[nodiscard]] QUARRY_HD word release(word slices) const {
    return bits_.fetch_or(slices, slice_release_order);  // (R)
  }

  [[nodiscard]] QUARRY_HD word peek() const { return bits_.load(simt::relaxed); }  // (L)

  /// The word, and what all releasers of its ones did before. Requires `simt::fence_after_loads`
  /// after the last of several.
  [[nodiscard]] QUARRY_HD word observe() const { return bits_.load(slice_observe_order); }  // (A)

  /// Takes those of `slices` that are still there; returns the word before.
  [[nodiscard]] QUARRY_HD word claim(word slices) const {
    return bits_.fetch_and(~slices, slice_claim_order);  // (C)
  }

  /// Writes the word. Requires that no other lane claims from it or releases to it.
  QUARRY_HD void reset(word slices,
                       simt::memory_order order = simt::relaxed) const {  // (E) as the caller says
    bits_.store(slices, order);
  }

 private:
  simt::atomic_ref<word> bits_;
};

}  // namespace quarry::inline QUARRY_ABI
