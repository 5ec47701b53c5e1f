// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/device/detail/orders.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The bits of 64 slices of a slice block. A bit is 1 if its slice was freed and can be claimed. It
/// is 0 if the slice is in use, was never allocated, or does not exist. In a free block it has no
/// meaning (block.hpp).
///
/// Problem. A slice's bytes are plain memory: the old owner's accesses must happen before the new
/// owner's.
/// Race. Other lanes claim and free slices of the word between the two owners' atomics.
/// Re-check. Each RMW returns the previous word: it shows double frees, and slices that other lanes
/// claimed first.
/// Price. One RMW for all slices of a word. Wait-free: a claim gets fewer slices than it requested
/// only if other lanes claimed some of them first.
///
///   label  statement                                    partner  guarantee
///   (R)    `release` sets bits after the last access    (C)      only RMWs change the word before
///   (C)    `claim` clears bits before the first access  (R)      (C), so it synchronizes with (R)
///   (E)    `reset` writes the word                               the caller's
///   (L)    `peek` picks bits to try; (C) decides                 none
class slice_word {
 public:
  QUARRY_HD explicit slice_word(word& bits) : bits_{bits} {}

  /// Marks slices as free; returns the previous word. Requires `simt::fence_before_stores` after
  /// the old owner's accesses. Bits of `slices` that were set in the previous word show double
  /// frees.
  [[nodiscard]] QUARRY_HD word release(word slices) const {
    return bits_.fetch_or(slices, slice_release_order);  // (R)
  }

  [[nodiscard]] QUARRY_HD word peek() const { return bits_.load(simt::relaxed); }  // (L)

  /// Claims those of `slices` that are still free; returns the previous word.
  [[nodiscard]] QUARRY_HD word claim(word slices) const {
    return bits_.fetch_and(~slices, slice_claim_order);  // (C)
  }

  /// Writes the word. Requires that no other lane claims or frees slices of it.
  QUARRY_HD void reset(word slices,
                       simt::memory_order order = simt::relaxed) const {  // (E) as the caller says
    bits_.store(slices, order);
  }

 private:
  simt::atomic_ref<word> bits_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
