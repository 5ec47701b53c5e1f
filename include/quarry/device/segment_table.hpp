// SPDX-License-Identifier: Apache-2.0
// What each segment is used for, and how many of its blocks are free.
#pragma once

#include "quarry/core/size_classes.hpp"
#include "quarry/device/orders.hpp"

namespace quarry {

/// What a segment is used for, as one word: free, cut into slices of a class, or part of a large allocation.
///
/// The epoch tells one use of a segment from another use by the same class.
class segment_use {
 public:
  QUARRY_HD constexpr explicit segment_use(word bits = 0) : bits_{bits} {}

  [[nodiscard]] QUARRY_HD constexpr segment_use next_free() const { return with(kind_free, 0); }
  [[nodiscard]] QUARRY_HD constexpr segment_use next_slices(size_class id) const { return with(kind_slices + id, 0); }
  /// First of `count` segments.
  [[nodiscard]] QUARRY_HD constexpr segment_use next_head(std::uint32_t count) const { return with(kind_head, count); }
  /// `distance` segments behind its head.
  [[nodiscard]] QUARRY_HD constexpr segment_use next_tail(std::uint32_t distance) const { return with(kind_tail, distance); }

  [[nodiscard]] QUARRY_HD constexpr bool is_free() const { return kind() == kind_free; }
  [[nodiscard]] QUARRY_HD constexpr bool is_slices() const { return kind() >= kind_slices; }
  [[nodiscard]] QUARRY_HD constexpr bool is_head() const { return kind() == kind_head; }
  [[nodiscard]] QUARRY_HD constexpr bool is_tail() const { return kind() == kind_tail; }
  [[nodiscard]] QUARRY_HD constexpr size_class slices_class() const { return kind() - kind_slices; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t count() const { return static_cast<std::uint32_t>(bits_ >> 32); }
  [[nodiscard]] QUARRY_HD constexpr word bits() const { return bits_; }
  QUARRY_HD friend constexpr bool operator==(segment_use a, segment_use b) { return a.bits_ == b.bits_; }

 private:
  static constexpr std::uint32_t kind_free = 0;
  static constexpr std::uint32_t kind_head = 1;
  static constexpr std::uint32_t kind_tail = 2;
  static constexpr std::uint32_t kind_slices = 3;

  [[nodiscard]] QUARRY_HD constexpr std::uint32_t kind() const { return bits_ & 0xff; }
  [[nodiscard]] QUARRY_HD constexpr segment_use with(std::uint32_t kind, std::uint32_t count) const {
    word const epoch = (bits_ >> 8) + 1;
    return segment_use{word{count} << 32 | (epoch & 0xffffff) << 8 | kind};
  }

  word bits_;  // kind: 8, epoch: 24, count: 32
};

/// One segment's entry.
///
/// `use` is Guarded by: whoever claimed the segment from the segment tree, until it is given back; all read it.
/// `free_blocks` counts blocks that are free and not reserved, so that the lane whose add reaches the segment's number of
/// blocks (S) knows that no slice is out and none is about to be revived: it retires the segment by setting `retired`.
///
/// Memory order. (S) is acquire-release: the retiring lane sees what all releasers did and hands it on through the segment
/// tree. (W) acquires, so that a revived block's claimer sees what the releasers of its slices did. `use` is written before
/// pointers into the segment are given out (release of the slots, or a claim's acquire chain), so a lane that holds such a
/// pointer reads its segment's use exactly; any other lane reads a hint (H).
struct segment_entry {
  static constexpr std::uint32_t retired = 0x80000000u;

  word use;
  std::uint32_t free_blocks;
  std::uint32_t unused_;

  [[nodiscard]] QUARRY_HD segment_use load() { return segment_use{simt::atomic_ref<word>{use}.load(simt::relaxed)}; }  // (H)

  QUARRY_HD void store(segment_use next) { simt::atomic_ref<word>{use}.store(next.bits(), simt::relaxed); }  // (H)

  /// Changes the use if it is still `expected`.
  [[nodiscard]] QUARRY_HD bool change(segment_use expected, segment_use next) {
    word bits = expected.bits();
    return simt::atomic_ref<word>{use}.compare_exchange(bits, next.bits(), simt::acq_rel);  // (S) frees of large allocations
  }

  /// One more block is free. True if that was the last: the segment is the caller's, to give back.
  [[nodiscard]] QUARRY_HD bool add_free_block(std::uint32_t blocks) {
    simt::atomic_ref<std::uint32_t> count{free_blocks};
    std::uint32_t const now = count.fetch_add(1, simt::acq_rel) + 1;  // (S)
    std::uint32_t expected = blocks;
    return now == blocks && count.compare_exchange(expected, retired, simt::acq_rel);  // (S)
  }

  /// Reserves a free block, so that the segment is not given back before the caller has revived it or added it again.
  [[nodiscard]] QUARRY_HD bool reserve_free_block() {
    simt::atomic_ref<std::uint32_t> count{free_blocks};
    std::uint32_t now = count.load(simt::relaxed);  // (H)
    while (now != 0 && now < retired) {
      if (count.compare_exchange(now, now - 1, simt::acquire)) return true;  // (W)
    }
    return false;
  }
};

}  // namespace quarry
