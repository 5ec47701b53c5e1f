// SPDX-License-Identifier: Apache-2.0
// The use of each segment, and the number of its free blocks.
#pragma once

#include "quarry/core/size_classes.hpp"
#include "quarry/device/detail/block.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The use of a segment in one word: free, cut into slices of a class, or part of a large
/// allocation.
class segment_use {
 public:
  QUARRY_HD constexpr explicit segment_use(word bits = 0) : bits_{bits} {}

  [[nodiscard]] QUARRY_HD static constexpr segment_use free_use() { return segment_use{kind_free}; }
  /// `generation` distinguishes this use of the segment from other uses (block_state).
  [[nodiscard]] QUARRY_HD static constexpr segment_use slices_of(size_class id,
                                                                 std::uint32_t generation) {
    return segment_use{word{generation} << 32 | (kind_slices + id)};
  }
  /// The first of `count` segments.
  [[nodiscard]] QUARRY_HD static constexpr segment_use head(std::uint32_t count) {
    return segment_use{word{count} << 32 | kind_head};
  }
  /// The segment that is `distance` segments after its head.
  [[nodiscard]] QUARRY_HD static constexpr segment_use tail(std::uint32_t distance) {
    return segment_use{word{distance} << 32 | kind_tail};
  }

  [[nodiscard]] QUARRY_HD constexpr bool is_free() const { return kind() == kind_free; }
  [[nodiscard]] QUARRY_HD constexpr bool is_slices() const { return kind() >= kind_slices; }
  [[nodiscard]] QUARRY_HD constexpr bool is_head() const { return kind() == kind_head; }
  [[nodiscard]] QUARRY_HD constexpr bool is_tail() const { return kind() == kind_tail; }
  [[nodiscard]] QUARRY_HD constexpr bool is_slices_of(size_class id) const {
    return kind() == kind_slices + id;
  }
  [[nodiscard]] QUARRY_HD constexpr size_class slices_class() const { return kind() - kind_slices; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t generation() const {
    return static_cast<std::uint32_t>(bits_ >> 32);
  }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t count() const {
    return static_cast<std::uint32_t>(bits_ >> 32);
  }
  /// The use as slices in 32 bits: the class and the generation.
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t key() const {
    static_assert(block_state::generation_bits <= 24 && kind_slices + max_size_classes <= 256);
    return generation() << 8 | kind();
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

  word bits_;  // kind: 32; above it the count, the distance or the generation: 32
};

/// The layout of a segment in one word: the number of slices, and the divider by their size.
class slice_layout {
 public:
  constexpr slice_layout() = default;
  QUARRY_HD constexpr explicit slice_layout(word bits) : bits_{bits} {}
  constexpr slice_layout(std::uint32_t slices, divider by_size)
      : bits_{word{slices} << 32 | (by_size.multiplier & ~31u) | by_size.shift} {}

  [[nodiscard]] QUARRY_HD constexpr std::uint32_t slices() const {
    return static_cast<std::uint32_t>(bits_ >> 32);
  }
  [[nodiscard]] QUARRY_HD constexpr divider by_size() const {
    return {static_cast<std::uint32_t>(bits_) & ~31u, static_cast<std::uint32_t>(bits_) & 31u};
  }
  [[nodiscard]] QUARRY_HD constexpr word bits() const { return bits_; }

 private:
  word bits_ = 0;  // slices: 32, multiplier: 27 (its low 5 bits are zero), shift: 5
};

/// The entry of one segment.
///
/// `use` and `layout` are Guarded by: the lane that claimed the segment from the segment tree,
/// until the segment is free again. All lanes read them. `run` is Guarded by: the lane that claimed
/// the segment. An audit and the hardened mode read it.
///
/// `count` has these fields. Generation and `known_blocks` change only when a use ends.
///   free blocks   16 bits  blocks that are free and not reserved, 4096 at most
///   retired       1 bit    a lane is returning the segment
///   generation    20 bits  wraps as block_state says
///   known_blocks  16 bits  blocks that have this generation (0: all)
///
/// Problem. Lanes depend on the use while they free, claim or revive.
/// Race. The lane that brings the count to "all blocks free" sets `retired` by compare-and-swap and
/// returns the segment, which ends the use. Late lanes still know that use.
/// Re-check. Lanes of three kinds keep the use from ending: a lane that has reserved a free block
/// (W), a lane inside a block, and the owner of a slice. The first then reads the use (N). The
/// second found the block claimable in its generation. A lane that frees reads use and layout by
/// one plain load, perhaps from its multiprocessor's cache. This may be the entry of an earlier
/// use, because the pointer may have reached the lane without any ordering. Then the announcement
/// of the free returns another generation (block.hpp), and the lane reads the entry again past the
/// cache. The layout changes only while the use says that the segment is free or large.
/// Price. One RMW for each block that becomes free or is revived. Rejected: counting the lanes that
/// examine a segment, which costs two fenced RMWs of one word per claim.
///
///   label  statement                        partner  guarantee
///   (S)    changes the count, acq_rel       (S)      the lane that returns the segment has seen
///                                                    all releasers; bit_tree passes this on
///   (W)    reserves a free block, acquire   (S)      claimers of the block have seen its releasers
///   (Y)    stores use and layout together   (O) (T)  a reader sees a pair that was stored; (O) (T)
///                                                    of ticket_counters.hpp publish it to owners
///   (N)    reads the use after (W)          (S)      the use stays
///   (H)    reads or writes a hint                    none; an atomic decides
///
/// On CUDA (S) of `add_free_blocks` is relaxed. The fence before it makes it a release. The fence
/// of the lane that returns the segment makes it an acquire.
struct alignas(64) segment_entry {
  /// The part of the entry that a freeing lane needs.
  struct view {
    segment_use use;
    slice_layout layout;
  };

  /// The state of a segment between two uses.
  struct idle_state {
    word bits;  // in the format of `count`

    /// The generation of the segment's blocks in the next use.
    [[nodiscard]] QUARRY_HD std::uint32_t generation() const { return generation_of(bits); }

    /// The segment's first `known_blocks()` blocks already have this generation; 0: all blocks have
    /// it.
    [[nodiscard]] QUARRY_HD std::uint32_t known_blocks() const {
      return static_cast<std::uint32_t>(bits >> known_shift);
    }
    /// Whether the segment's first `blocks` blocks already have this generation.
    [[nodiscard]] QUARRY_HD bool knows(std::uint32_t blocks) const {
      return blocks - 1 <= known_blocks() - 1;
    }
    /// The number of free blocks: while the segment is retired, all blocks of its use.
    [[nodiscard]] QUARRY_HD std::uint32_t free_blocks() const {
      return static_cast<std::uint32_t>(bits & (retired - 1));
    }
  };

  word use;
  word layout;  // right after `use`, because one load reads both
  word count;
  std::uint32_t run;  // the run that allocated the segment's slices: `segment_run::key`

  [[nodiscard]] QUARRY_HD segment_use load() {
    return segment_use{simt::atomic_ref{use}.load(simt::relaxed)};  // (H)
  }

  QUARRY_HD void store(segment_use next) {
    simt::atomic_ref{use}.store(next.bits(), simt::relaxed);  // (H)
  }

  /// Requires that the use is free.
  QUARRY_HD void store(segment_use next, slice_layout cut) {
    simt::store_pair(use, {next.bits(), cut.bits()});  // (Y)
  }

  /// Changes the use if it is still `expected`.
  [[nodiscard]] QUARRY_HD bool change(segment_use expected, segment_use next) {
    word bits = expected.bits();
    return simt::atomic_ref{use}.compare_exchange(bits, next.bits(),
                                                  simt::acq_rel);  // (S) frees of large allocations
  }

  /// The entry from the nearest cache, which may be the entry of an earlier use.
  [[nodiscard]] QUARRY_HD view look() { return view_of(simt::cached_load(use)); }

  /// The current entry.
  [[nodiscard]] QUARRY_HD view look_past_cache() { return view_of(simt::load_past_cache(use)); }

  [[nodiscard]] QUARRY_HD std::uint32_t run_key() {
    return simt::atomic_ref{run}.load(simt::relaxed);  // (H)
  }
  QUARRY_HD void set_run_key(std::uint32_t key) {
    simt::atomic_ref{run}.store(key, simt::relaxed);  // (H)
  }

  /// Adds `added` free blocks to the segment, which has `blocks` blocks. Returns true if all blocks
  /// are free and the caller must return the segment. Then it calls `simt::fence_after_loads`
  /// before it changes what the segment's earlier owners wrote.
  [[nodiscard]] QUARRY_HD bool add_free_blocks(std::uint32_t added, std::uint32_t blocks) {
    simt::fence_before_stores();
    word current = counter().fetch_add(added, segment_count_order) + added;  // (S)
    return (current & (one_generation - 1)) == blocks &&
           counter().compare_exchange(current, current | retired, simt::fenced_acq_rel);  // (S)
  }

  /// Returns the state, for the lane that has just retired the segment.
  [[nodiscard]] QUARRY_HD idle_state load_retired_state() {
    return {counter().load(simt::relaxed)};  // (H) no other lane changes it now
  }

  /// Completes a retirement that `add_free_blocks` began: sets the number of free blocks to 0 and
  /// begins the next generation. All blocks of the segment have that generation. `ended` is the
  /// state since the retirement.
  QUARRY_HD void end_retirement(idle_state ended) {
    counter().fetch_add(to_next_generation(ended.bits, 0) - retired - ended.free_blocks(),
                        simt::release);  // (S)
  }

  /// Begins the next generation of a segment that the caller owns and of which no slice was
  /// allocated. Its first `blocks` blocks have that generation.
  QUARRY_HD void begin_generation(idle_state ended, std::uint32_t blocks) {
    counter().add_blindly(to_next_generation(ended.bits, blocks));  // (S)
  }

  /// Reserves a free block. The caller then revives a block or adds the free block again. Returns
  /// false if there is no free block.
  [[nodiscard]] QUARRY_HD bool reserve_free_block() {
    word current = counter().load(simt::relaxed);  // (H)
    QUARRY_NO_UNROLL
    while ((current & (retired - 1)) != 0 && (current & retired) == 0) {
      if (counter().compare_exchange(current, current - 1, segment_reserve_order))
        return true;  // (W)
    }
    return false;
  }

  /// Returns the state between two uses. Only the lane that owns the segment may call this
  /// function.
  [[nodiscard]] QUARRY_HD idle_state load_idle_state() { return {simt::load_owned(count)}; }

  /// Does the same for `batch_size` segments: this segment and the segments after it.
  static constexpr std::uint32_t batch_size = 8;
  QUARRY_HD void load_idle_states(idle_state (&states)[batch_size]) {
    word counts[batch_size];
    simt::load_owned<sizeof(segment_entry)>(count, counts);
    for (std::uint32_t i = 0; i < batch_size; ++i) states[i].bits = counts[i];
  }

  /// Cuts a free segment that the caller owns into slices of class `id`.
  QUARRY_HD void cut(size_class id, std::uint32_t generation, slice_layout new_layout,
                     std::uint32_t run_key) {
    set_run_key(run_key);
    store(segment_use::slices_of(id, generation), new_layout);
  }

  /// The generation of the segment's blocks in the current use. Only the lane that returns the
  /// segment may call this function.
  [[nodiscard]] QUARRY_HD std::uint32_t generation() { return load_idle_state().generation(); }

  [[nodiscard]] std::uint32_t free_blocks() const {
    return static_cast<std::uint32_t>(count & (retired - 1));
  }

 private:
  static constexpr word retired = word{1} << 16;
  static constexpr word one_generation = word{1} << 17;
  static constexpr std::uint32_t known_shift = 48;

  /// The number to add to `count` to begin the next generation, which the first `blocks` blocks
  /// have (0: all blocks).
  [[nodiscard]] QUARRY_HD static word to_next_generation(word count, std::uint32_t blocks) {
    word const current = generation_of(count);
    word const next = block_state::next_generation(generation_of(count));
    return (next - current) * one_generation +
           (blocks - (count >> known_shift)) * (word{1} << known_shift);
  }

  [[nodiscard]] QUARRY_HD static std::uint32_t generation_of(word count) {
    return static_cast<std::uint32_t>(count >> 17) & block_state::last_generation;
  }

  [[nodiscard]] QUARRY_HD static view view_of(simt::word_pair pair) {
    return {segment_use{pair.first}, slice_layout{pair.second}};
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> counter() { return simt::atomic_ref{count}; }
};

static_assert(sizeof(segment_entry) == 64);

}  // namespace quarry::inline QUARRY_ABI::detail
