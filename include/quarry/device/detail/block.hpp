// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/slice_bitmap.hpp"
#include "quarry/simt/indirect_call.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The maximum number of slices in a block. Their bits are one cache line.
inline constexpr std::uint32_t slices_per_block = 1024;
inline constexpr std::uint32_t words_per_block = slices_per_block / bits_per_word;

/// The fields of a block's state word.
///
/// Bounded fields. `generation` wraps after 2^20 uses of its segment. It distinguishes a lane that
/// read the segment's entry in an earlier use from the lanes of the current use. A lane is mistaken
/// only if it sleeps between that read and its next atomic while its segment is used exactly a
/// multiple of 2^20 times. `inside` has room for 2^19 - 1 lanes in one block at once; an H200 runs
/// at most 270,336 lanes, about 2^18. `count` is exact while fewer than 2^16 slices are announced
/// with unset bits, or reserved but not available. Beyond that `count` is temporarily wrong, and
/// lanes search for slices or advertise the block without success. `full_words` is temporarily
/// negative if a lane takes a slice from a word that another lane has filled and not yet counted.
/// It is below zero by at most the number of lanes that are about to count a word. `full_words()`
/// is exact down to -31.
class block_state {
 public:
  static constexpr std::uint32_t generation_bits = 20;
  static constexpr std::uint32_t last_generation = (1u << generation_bits) - 1;
  static constexpr word closed = word{1} << 20;
  static constexpr word free = word{1} << 21;
  static constexpr word one_full_word = word{1} << 22;
  static constexpr word one_inside = word{1} << 28;
  static constexpr word one_slice = word{1} << 47;

  QUARRY_HD constexpr explicit block_state(word bits) : bits_{bits} {}

  [[nodiscard]] QUARRY_HD constexpr std::uint32_t generation() const {
    return static_cast<std::uint32_t>(bits_) & last_generation;
  }
  /// Whether no lane can release slices to the block or claim slices from it: the block is free, or
  /// a lane is opening it.
  [[nodiscard]] QUARRY_HD constexpr bool is_closed() const { return (bits_ & closed) != 0; }
  /// Whether the block is closed and may be revived.
  [[nodiscard]] QUARRY_HD constexpr bool is_free() const { return (bits_ & free) != 0; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t lanes_inside() const {
    return static_cast<std::uint32_t>(without_borrow() >> 28) & 0x7ffff;
  }
  [[nodiscard]] QUARRY_HD constexpr std::int32_t count() const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(without_borrow()) >> 47);
  }

  /// The number of words all of whose slices are free.
  [[nodiscard]] QUARRY_HD constexpr std::int32_t full_words() const {
    return static_cast<std::int32_t>(without_borrow() >> 22 & 63) - max_below_zero;
  }

  /// Whether lanes that know the block in `generation` may release and claim slices.
  [[nodiscard]] QUARRY_HD constexpr bool is_open_in(std::uint32_t generation) const {
    return (bits_ & (closed | last_generation)) == generation;
  }
  /// Whether a lane can claim slices, unless other lanes claim them first.
  [[nodiscard]] QUARRY_HD constexpr bool has_slices() const { return count() > 0 && !is_closed(); }

  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t next_generation(std::uint32_t generation) {
    return (generation + 1) & last_generation;
  }
  [[nodiscard]] QUARRY_HD constexpr word bits() const { return bits_; }

 private:
  static constexpr std::int32_t max_below_zero = 31;

  /// The state with `max_below_zero` more full words. Then no field is negative except the count,
  /// which is the topmost field.
  [[nodiscard]] QUARRY_HD constexpr word without_borrow() const {
    return bits_ + max_below_zero * one_full_word;
  }

  word bits_;
};

/// Up to 1024 slices of one size class: a bit per free slice, and their number.
///
/// The state word has these fields (block_state):
///   generation  the use of the segment to which the block belongs
///   closed      the block is free, or one lane is opening it
///   free        the segment counts the block as free, or is about to
///   full_words  words all of whose bits are ones
///   inside      lanes that claim from the block at this moment
///   count       slices announced, minus slices that claimers reserved or took
///
/// A release announces its slices (adds them to the count), sets their bits, and counts each word
/// that became full. A claim enters and reserves (one addition), takes bits, and leaves (one
/// addition). The second addition returns reserved slices that the claim did not take. It also
/// removes a full word from which the claim took slices from the count of full words.
///
/// The bits of a free block have no meaning: they are ones if its slices were allocated and freed,
/// and zeros if it was never used. The lane that returns the segment clears them.
///
/// Problem. A late lane knows the block from an earlier use of its segment. It must not disturb the
/// block's present owners.
/// Race. A late lane releases or claims while the block is free or has another generation.
/// Re-check. Each addition returns the previous state. If the block was not open in the lane's
/// generation, the lane subtracts what it added and touches no bit. All changes of an open block
/// are additions, so the two cancel out. An admitted claim checks the generation again when it
/// leaves (slice_claim), because a late lane may have added to the count.
/// Price. Two additions for a claim, one or two for a release. During a release the count may be
/// above the number of ones; a claimer that finds fewer slices returns the rest of its reservation.
/// Not detected: a second free after the slice was allocated again, and a free of a slice that was
/// never allocated in this generation (see `heap_state::was_handed_out`).
///
/// Invariants.
///   1. At rest the count is the number of ones, and `full_words` is the number of full words.
///   2. While a lane is inside, `close` does not make the block free. If also a slice of the block
///      was allocated, the block's segment keeps its class and generation.
///   3. A lane that finds its bit already set has a slice that is not in use: a double free. The
///      lane subtracts what it announced.
///   4. A block is complete when no lane is inside, all words are counted as full, and the count is
///      the number of slices. Then all bits are ones, because a lane that took slices from a full
///      word is inside until it records that; and no free is in progress. So the state alone shows
///      completeness, and one compare-and-swap closes the block.
///   5. Every lane that brings the count above zero advertises the block.
///   6. The lane whose addition makes the block complete sees that in the result, and closes the
///      block. By this addition the lane counted a word, left, or subtracted what it announced.
///
/// Memory order. Bits hand over the slices' bytes to a claimer (slice_word: R, C). The state hands
/// over those of a whole block: each change of it is an RMW, so the lane that closes the block
/// synchronizes with all announcements. An advertisement is a hint. A lane announces by an RMW and
/// then sets the advertisement. A lane that withdraws one clears it and then reads the count by an
/// RMW (V). At least one of them sees the other's change.
///
///   label  statement                            partner  guarantee
///   (A)    `announce`, acq_rel                  (P)      all frees happen before the closing, and
///                                                        so before a revival or another use
///   (A)    other additions, acq_rel             (P)      the closing lane's bits are all ones
///   (P)    `close` compares and swaps, acq_rel  (A)      as above
///   (P)    `reserve`, `revive`, acquire         (H) (O)  the reviver's words, and the data that
///                                                        the segment's format published
///   (H)    `revive` opens the block, acq_rel    (P)      written words precede claims
///   (H)    `retire_unused`                      (P)      none; the segment's count (S) publishes
///   (V)    reads the count after a withdrawal   (A)      no advertisement is lost
///   (L)    reads a hint                                  none
///
/// On CUDA (A), (R) and the swap of `close` are relaxed. A fence before the announcement makes it a
/// release, and also (R). The addition to the segment's count, which follows the closing, has a
/// fence; it makes the swap an acquire. A lane has the result of each RMW before it issues its next
/// RMW, so the earlier RMW was performed by then.
///
/// Rejected.
///   - Setting bits before the state is known: a claimer may take a bit that a second free set in a
///     block that is free or belongs to another use of its segment.
///   - Claims that do not count as inside, which saves an addition: the block could become free
///     while a claim's reservation cancels a double free's announcement.
///   - Reading all words when the count is complete, without counting full words. On an H200, half
///     of the warps that free a block in order then read all words; throughput was a third lower.
///   - Clearing the bits when the block becomes free. The lane that frees the last slice then waits
///     for its stores before it may publish the block, while its warp stands still.
///   - Reserving by compare-and-swap: of hundreds of lanes, one progressed in each round trip.
class block {
 public:
  /// `slices` (1 to 1024) is the number of slices in the block.
  QUARRY_HD block(word* words, word& state, std::uint32_t slices)
      : words_{words}, state_{state}, slices_{slices} {}

  [[nodiscard]] QUARRY_HD std::uint32_t slices() const { return slices_; }
  [[nodiscard]] QUARRY_HD std::uint32_t words() const {
    return (slices_ + bits_per_word - 1) / bits_per_word;
  }

  /// The bits of word `index` that stand for slices.
  [[nodiscard]] QUARRY_HD word mask(std::uint32_t index) const {
    return low_bits(slices_ - index * bits_per_word);
  }

  [[nodiscard]] QUARRY_HD slice_word word_at(std::uint32_t index) const {
    return slice_word{words_[index]};
  }

  /// The state. For a lane that owns a slice, the generation and `is_free` are exact. Otherwise
  /// they are hints.
  [[nodiscard]] QUARRY_HD block_state peek() const {
    return block_state{state().load(simt::relaxed)};  // (L)
  }

  /// Announces the release of `count` slices. Returns the previous state. If the block was open in
  /// the caller's generation, the caller continues. Otherwise the caller calls `retract`.
  [[nodiscard]] QUARRY_HD block_state announce(std::uint32_t count) const {
    return block_state{
        state().fetch_add(count * block_state::one_slice, block_count_order)};  // (A)
  }

  /// Subtracts slices that were announced but not freed. Returns the new state.
  [[nodiscard]] QUARRY_HD block_state retract(std::uint32_t count) const {
    word const added = count * block_state::one_slice;
    return block_state{state().fetch_sub(added, block_count_order) - added};  // (A)
  }

  /// Counts `count` words that became full by this lane's release. Returns the new state.
  [[nodiscard]] QUARRY_HD block_state count_full_words(std::uint32_t count) const {
    word const added = count * block_state::one_full_word;
    return block_state{state().fetch_add(added, block_count_order) + added};  // (A)
  }

  /// Whether every slice is free, no lane is inside, and no free is in progress.
  [[nodiscard]] QUARRY_HD bool is_complete(block_state new_state) const {
    return (new_state.bits() & ~word{block_state::last_generation}) ==
           slices_ * block_state::one_slice + words() * block_state::one_full_word;
  }

  /// Makes the block free if it is complete and its state is still `new_state`. Returns true if it
  /// did; then the caller must add the block to its segment's count.
  [[nodiscard]] QUARRY_HD bool close(block_state new_state) const {
    if (!is_complete(new_state)) return false;
    word complete = new_state.bits();
    word const freed = new_state.generation() + block_state::closed + block_state::free;
    return state().compare_exchange(complete, freed, simt::fenced_acq_rel);  // (P)
  }

  /// Enters and reserves up to `count` slices. Returns the previous state. If the block was open in
  /// the caller's generation, the caller may take `reserved_of` (that state, `count`) slices. In
  /// both cases the caller calls `leave`.
  [[nodiscard]] QUARRY_HD block_state reserve(std::uint32_t count) const {
    return block_state{state().fetch_add(block_state::one_inside - count * block_state::one_slice,
                                         block_reserve_order)};  // (P)
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t reserved_of(block_state previous,
                                                           std::uint32_t count) {
    std::int32_t const available = previous.count();
    if (available <= 0) return 0;
    return static_cast<std::uint32_t>(available) < count ? static_cast<std::uint32_t>(available)
                                                         : count;
  }

  /// Leaves, and returns `unclaimed` slices that were reserved but not taken. Returns the new
  /// state. `was_full`: the caller took its slices from a word that was full.
  [[nodiscard]] QUARRY_HD block_state leave(std::uint32_t unclaimed, bool was_full) const {
    word const added = unclaimed * block_state::one_slice - block_state::one_inside -
                       (was_full ? block_state::one_full_word : 0);
    return block_state{state().fetch_add(added, block_count_order) + added};  // (A)
  }

  /// Opens a free block with all its slices, and takes up to `count` slices of its first word.
  /// Returns the bits of these slices, or zero if another lane opened the block first. Requires
  /// that the caller has reserved a free block of this segment.
  [[nodiscard]] QUARRY_HD word revive(std::uint32_t count) const {
    return simt::indirect_call([self = *this, count]() -> word {
      word const bits = self.state().fetch_and(~block_state::free, block_reserve_order);  // (P)
      if (!block_state{bits}.is_free()) return 0;
      word const claimed = lowest_ones(self.mask(0), count);
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 1; i < self.words(); ++i) self.word_at(i).reset(self.mask(i));
      self.word_at(0).reset(self.mask(0) & ~claimed);
      std::uint32_t const free_slices = self.slices_ - count_ones(claimed);
      self.state().fetch_add(free_slices * block_state::one_slice +
                                 (self.words() - 1) * block_state::one_full_word -
                                 block_state::closed,
                             block_open_order);  // (H)
      return claimed;
    });
  }

  /// Makes a block free of which no slice was allocated. Requires that the caller has the exclusive
  /// right to allocate the block's slices.
  QUARRY_HD void retire_unused() const {
    (void)state().fetch_add(block_state::closed + block_state::free,
                            block_close_order);  // the segment's count (S) publishes it
  }

  /// Reads the block's generation, or changes it from `previous` to `next`. Requires that the
  /// caller owns the segment and that `previous` is the current generation. No other lane changes
  /// this field.
  [[nodiscard]] QUARRY_HD std::uint32_t generation() const { return peek().generation(); }
  QUARRY_HD void change_generation(std::uint32_t previous, std::uint32_t next) const {
    state().add_blindly(word{next} - previous);
  }
  /// Does the same, and opens the block if it `is_free`: it is never open in the generation
  /// `previous`. The caller has cleared the bits of a free block, or does so before it publishes
  /// the segment by an insertion into the segment tree.
  QUARRY_HD void renew(std::uint32_t previous, std::uint32_t next, bool is_free) const {
    state().add_blindly(word{next} - previous -
                        (is_free ? block_state::closed + block_state::free : 0));
  }

  /// Whether a claim could find slices now or soon, after the advertisement was withdrawn. A claim
  /// could find slices soon if a lane is inside: that lane may have reserved more than it takes.
  [[nodiscard]] QUARRY_HD bool may_have_slices() const {
    block_state const current{state().fetch_add(0, simt::acq_rel)};  // (V)
    return current.has_slices() || current.is_free() || current.lanes_inside() != 0;
  }

 private:
  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> state() const { return simt::atomic_ref{state_}; }

  word* words_;
  word& state_;
  std::uint32_t slices_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
