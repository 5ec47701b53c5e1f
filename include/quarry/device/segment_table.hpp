// SPDX-License-Identifier: Apache-2.0
// What each segment is used for, and how many of its blocks are free.
#pragma once

#include "quarry/core/size_classes.hpp"
#include "quarry/device/orders.hpp"

namespace quarry {

/// What a segment is used for, as one word: free, cut into slices of a class, or part of a large
/// allocation.
class segment_use {
 public:
  QUARRY_HD constexpr explicit segment_use(word bits = 0) : bits_{bits} {}

  [[nodiscard]] QUARRY_HD static constexpr segment_use nothing() { return segment_use{kind_free}; }
  [[nodiscard]] QUARRY_HD static constexpr segment_use slices_of(size_class id) {
    return segment_use{kind_slices + id};
  }
  /// First of `count` segments.
  [[nodiscard]] QUARRY_HD static constexpr segment_use head(std::uint32_t count) {
    return segment_use{word{count} << 32 | kind_head};
  }
  /// `distance` segments behind its head.
  [[nodiscard]] QUARRY_HD static constexpr segment_use tail(std::uint32_t distance) {
    return segment_use{word{distance} << 32 | kind_tail};
  }

  [[nodiscard]] QUARRY_HD constexpr bool is_free() const { return kind() == kind_free; }
  [[nodiscard]] QUARRY_HD constexpr bool is_slices() const { return kind() >= kind_slices; }
  [[nodiscard]] QUARRY_HD constexpr bool is_head() const { return kind() == kind_head; }
  [[nodiscard]] QUARRY_HD constexpr bool is_tail() const { return kind() == kind_tail; }
  [[nodiscard]] QUARRY_HD constexpr size_class slices_class() const { return kind() - kind_slices; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t count() const {
    return static_cast<std::uint32_t>(bits_ >> 32);
  }
  [[nodiscard]] QUARRY_HD constexpr word bits() const { return bits_; }
  QUARRY_HD friend constexpr bool operator==(segment_use a, segment_use b) {
    return a.bits_ == b.bits_;
  }

 private:
  static constexpr std::uint32_t kind_free = 0;
  static constexpr std::uint32_t kind_head = 1;
  static constexpr std::uint32_t kind_tail = 2;
  static constexpr std::uint32_t kind_slices = 3;

  [[nodiscard]] QUARRY_HD constexpr std::uint32_t kind() const {
    return static_cast<std::uint32_t>(bits_);
  }

  word bits_;  // kind: 32, count: 32
};

/// What `free` needs to know of a segment of slices, read together with its use.
struct alignas(16) segment_shape {
  std::uint32_t run;              // which run handed its slices out: `segment_run::key`
  std::uint32_t size;             // of a slice
  std::uint32_t size_multiplier;  // divider by `size`
  // units of the segment: 16, unit shift: 8, shift of the divider: 8
  std::uint32_t packed;

  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t pack(std::uint32_t units,
                                                              std::uint32_t unit_shift,
                                                              std::uint32_t divider_shift) {
    return units << 16 | unit_shift << 8 | divider_shift;
  }
  [[nodiscard]] QUARRY_HD divider by_size() const { return {size_multiplier, packed & 0xff}; }
  [[nodiscard]] QUARRY_HD std::uint32_t unit_shift() const { return packed >> 8 & 0xff; }
  [[nodiscard]] QUARRY_HD std::uint32_t units() const { return packed >> 16; }
  [[nodiscard]] QUARRY_HD std::uint32_t slices() const { return units() << unit_shift(); }
};

/// One segment's entry.
///
/// `use` and `shape` are Guarded by: whoever claimed the segment from the segment tree, until it is
/// given back; all read them. `words` never changes: where the bits of the segment's slices begin,
/// with the states of its blocks behind them.
///
/// `count` holds how many blocks are free and not reserved, and whether the segment is being given
/// back. Whoever brings it to "all blocks free" (S) gives the segment back, and says so first by
/// setting `retired` with compare-and-swap. A lane that has reserved a free block (W), or slices of
/// a block, or holds a slice, thereby keeps the segment's use as it is; who reserves first and then
/// looks at the use (N) needs no other hold on it.
/// Rejected: counting the lanes that look into a segment, which costs two fenced RMWs of one word
/// for each claim.
///
/// Memory order. (S) is acquire-release: the lane that gives the segment back sees what all
/// releasers did and hands it on through the segment tree. (W) acquires, so that a revived block's
/// claimer sees what the releasers of its slices did. `use` and `shape` are written before pointers
/// into the segment are given out (release of the slots, or a claim's acquire chain), so a lane
/// that holds such a pointer, or a reservation (N), reads them exactly; any other lane reads a hint
/// (H).
struct alignas(64) segment_entry {
  /// What a lane that frees needs to know: use and shape, and where the slices' bits are.
  struct alignas(16) view {
    segment_shape shape;
    segment_use use;
    word* words;
  };

  segment_shape shape;
  word use;
  word* words;
  word count;

  [[nodiscard]] QUARRY_HD segment_use load() {
    return segment_use{simt::atomic_ref<word>{use}.load(simt::relaxed)};
  }  // (H)

  QUARRY_HD void store(segment_use next) {
    simt::atomic_ref<word>{use}.store(next.bits(), simt::relaxed);
  }  // (H)

  /// Changes the use if it is still `expected`.
  [[nodiscard]] QUARRY_HD bool change(segment_use expected, segment_use next) {
    word bits = expected.bits();
    return simt::atomic_ref<word>{use}.compare_exchange(
        bits, next.bits(), simt::acq_rel);  // (S) frees of large allocations
  }

  /// The entry for a lane that holds a pointer into the segment: plain reads, which the nearest
  /// cache may serve. For any other lane they may be out of date or mixed.
  [[nodiscard]] QUARRY_HD view look() const {
    return {simt::cached_read(shape), segment_use{simt::cached_read(use)},
            simt::cached_read(words)};
  }
  QUARRY_HD void store_shape(segment_shape const& next) {
    write(shape.run, next.run);
    write(shape.size, next.size);
    write(shape.size_multiplier, next.size_multiplier);
    write(shape.packed, next.packed);
  }

  /// `more` of the segment's `blocks` are free now. True if the segment, all of whose blocks are
  /// free, is now the caller's to give back.
  [[nodiscard]] QUARRY_HD bool add_free_blocks(std::uint32_t more, std::uint32_t blocks) {
    word now = counter().fetch_add(more, segment_count_order) + more;  // (S)
    return (now & (one_epoch - 1)) == blocks &&
           counter().compare_exchange(now, now | retired, simt::acq_rel);  // (S)
  }

  /// Ends what `add_free_blocks` began, with no block free.
  QUARRY_HD void end_retirement(std::uint32_t blocks) {
    counter().fetch_add(one_epoch - retired - blocks, simt::release);
  }  // (S)

  /// Reserves a free block, to revive it or to add it again. False if there is none.
  [[nodiscard]] QUARRY_HD bool reserve_free_block() {
    word now = counter().load(simt::relaxed);  // (H)
    QUARRY_NO_UNROLL
    while ((now & (retired - 1)) != 0 && (now & retired) == 0) {
      if (counter().compare_exchange(now, now - 1, segment_reserve_order)) return true;  // (W)
    }
    return false;
  }

  /// How often the segment was given back. For who gives it back.
  [[nodiscard]] QUARRY_HD std::uint32_t uses() {
    return static_cast<std::uint32_t>(counter().load(simt::relaxed) >> 17);
  }  // (H)

  [[nodiscard]] std::uint32_t free_blocks() const {
    return static_cast<std::uint32_t>(count & (retired - 1));
  }

 private:
  static constexpr word retired = word{1} << 16;
  static constexpr word one_epoch = word{1} << 17;

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> counter() { return simt::atomic_ref<word>{count}; }

  QUARRY_HD static void write(std::uint32_t& field, std::uint32_t value) {
    simt::atomic_ref<std::uint32_t>{field}.store(value, simt::relaxed);  // (H)
  }
};

static_assert(sizeof(segment_entry) == 64);

}  // namespace quarry
