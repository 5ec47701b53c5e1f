// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_bitmap.hpp"
#include "quarry/simt/indirect_call.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Slices that a block holds at most: their bits are one cache line.
inline constexpr std::uint32_t slices_per_block = 1024;
inline constexpr std::uint32_t words_per_block = slices_per_block / bits_per_word;

/// What a block's state word says.
///
/// Bounded fields. `generation` wraps after 2^20 uses of its segment. It tells a lane that read the
/// segment's entry before such a use ended from those of the present one; to be mistaken, a lane
/// must sleep between that read and its next atomic while its segment is used exactly a multiple of
/// 2^20 times. `inside` has room for 2^19 lanes in one block at once; an H200 runs 2^18. `count` is
/// exact while fewer than 2^16 slices are announced and not back, or reserved and not there; beyond
/// that it is wrong for a moment, and lanes look for slices, or advertise the block, in vain.
/// `full_words` goes below zero for a moment if a lane takes from a word that another one has
/// filled and not yet counted: by one for each lane that is about to count a word. It is read
/// exactly down to -31.
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
  /// Nothing can be released to or claimed from the block: it is free, or becomes free or open.
  [[nodiscard]] QUARRY_HD constexpr bool is_closed() const { return (bits_ & closed) != 0; }
  /// Closed, and may be revived.
  [[nodiscard]] QUARRY_HD constexpr bool is_free() const { return (bits_ & free) != 0; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t inside() const {
    return static_cast<std::uint32_t>(without_borrow() >> 28) & 0x7ffff;
  }
  [[nodiscard]] QUARRY_HD constexpr std::int32_t count() const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(without_borrow()) >> 47);
  }

  /// Words all of whose slices are back.
  [[nodiscard]] QUARRY_HD constexpr std::int32_t full_words() const {
    return static_cast<std::int32_t>(without_borrow() >> 22 & 63) - max_below_zero;
  }

  /// Releases and claims may go on.
  [[nodiscard]] QUARRY_HD constexpr bool is_open_in(std::uint32_t generation) const {
    return (bits_ & (closed | last_generation)) == generation;
  }
  /// Something can be claimed, if others leave it.
  [[nodiscard]] QUARRY_HD constexpr bool has_slices() const { return count() > 0 && !is_closed(); }

  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t next_generation(std::uint32_t generation) {
    return (generation + 1) & last_generation;
  }
  [[nodiscard]] QUARRY_HD constexpr word bits() const { return bits_; }

 private:
  static constexpr std::int32_t max_below_zero = 31;

  /// The state as if there were so many full words more: then none of its fields is below zero but
  /// the count, which is the topmost.
  [[nodiscard]] QUARRY_HD constexpr word without_borrow() const {
    return bits_ + max_below_zero * one_full_word;
  }

  word bits_;
};

/// Up to 1024 slices of one size class: which of them can be claimed, and how many.
///
/// The state word has these fields (block_state):
///   generation  the use of the segment to which the block belongs
///   closed      the block is free, or one lane makes it free or opens it
///   free        it counts as free in its segment, or is about to; its bits are zero
///   full_words  words all of whose bits are ones
///   inside      lanes that claim from it at this moment
///   count       slices announced, less those that claimers reserved or took
///
/// A release announces its slices (adds them to the count), and then sets their bits; if that makes
/// a word full, it counts the word. A claim enters and reserves (one addition), takes bits, and
/// leaves (one addition): it returns what it reserved too much, and no longer counts a word that
/// was full. Each addition gives the state before, which says whether the block was open in the
/// generation that the lane knows. If it was not, the lane subtracts what it added, and has touched
/// no bit. All changes of an open block's state are additions, so that what a late lane adds and
/// subtracts again cancels out, whatever became of the block in between.
///
/// A claim that was let in looks at the generation again when it leaves (slice_claim), since the
/// count may have been a late lane's.
///
/// Invariants. (1) At rest the count is the number of ones, and `full_words` that of full words.
/// (2) While a lane is inside, `close` does not make the block free; and if one of its slices was
/// handed out its segment keeps its class and generation. (3) A lane that sees its bit set before,
/// sees a slice that is not in use: a double free. It subtracts what it announced. (4) A block is
/// complete when nobody is inside, all its words are counted as full, and the count is all its
/// slices. Then no free is under way: a lane that emptied a full word is inside until it says so,
/// so all bits are ones; so every slice was announced and came back, and nothing else was
/// announced. Hence completeness can be read off the state, and one compare-and-swap closes the
/// block. (5) Of lanes that bring the count above zero each advertises the block. (6) The addition
/// that makes the block complete shows it to its lane, which closes the block: it counted a word,
/// left, or subtracted what it announced.
///
/// The count may be ahead of the bits while a release is under way: a claimer that does not find
/// what it reserved returns it. A lane that frees a slice twice, or a slice of another generation,
/// therefore disturbs nobody. If the slice was allocated again in between, its second free is the
/// new owner's free, as with any allocator. One mistake is not seen: a free of a slice that was
/// never handed out in this generation (see `heap_state::handed_out`).
///
/// Rejected: setting bits before the state is known. A second free may then set a bit of a block
/// that is free, or of another use of its segment, and until it takes the bit away a claimer may
/// take it. Letting claims not count as being inside saves their last addition. Then a claim's
/// reservation may stand against a double free's announcement, and the block becomes free while
/// both are under way. Not counting full words, and looking at all words when the count is
/// complete: on an H200 half of the warps of a block that is freed in order do so, and throughput
/// was a third less. Reserving by compare-and-swap: of hundreds of lanes that claim from one block,
/// one got on in each round trip.
///
/// Memory order. Bits hand over the slices' bytes (slice_word: R, C). Reserving (P) acquires what a
/// reviver wrote to the words and published by (H), and what a segment's format published (O). The
/// lane that closes the block sees all bits as ones with acquire (A), so it has seen all releases.
/// It empties the words and publishes that by (H); the segment's count (S, W) hands it to the
/// reviver, which acquires it by (P) as well. Other additions (G) acquire and release, so that a
/// lane whose addition completes the block sees the bits as they are. On CUDA (G) is relaxed, and
/// so is (R), which a fence before the announcement makes a release: a lane has the result of each
/// RMW before the next, so that was performed. Advertising is a hint: a lane that announces does so
/// by an RMW, and then looks at the advertisement; a lane that withdraws an advertisement clears it
/// and then looks at the count with an RMW (V). One of the two sees the other. (L) orders nothing:
/// what it reads is a hint, or (A) orders what follows.
class block {
 public:
  /// `slices` (1 to 1024) says how many the block holds.
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

  [[nodiscard]] QUARRY_HD slice_word at(std::uint32_t index) const {
    return slice_word{words_[index]};
  }

  /// The state. Its generation and whether the block is free are exact for a lane that holds a
  /// slice; otherwise a hint.
  [[nodiscard]] QUARRY_HD block_state peek() const {
    return block_state{state().load(simt::relaxed)};  // (L)
  }

  /// Announces the release of `count` slices; returns the state before. The caller goes on if that
  /// was open in its generation, and calls `retract` otherwise.
  [[nodiscard]] QUARRY_HD block_state announce(std::uint32_t count) const {
    return block_state{state().fetch_add(count * block_state::one_slice, simt::relaxed)};  // (G)
  }

  /// Subtracts what was announced and did not come back; returns the state after.
  [[nodiscard]] QUARRY_HD block_state retract(std::uint32_t count) const {
    word const added = count * block_state::one_slice;
    return block_state{state().fetch_sub(added, block_count_order) - added};  // (G)
  }

  /// So many words became full by what this lane released; returns the state after.
  [[nodiscard]] QUARRY_HD block_state count_full_words(std::uint32_t count) const {
    word const added = count * block_state::one_full_word;
    return block_state{state().fetch_add(added, block_count_order) + added};  // (G)
  }

  /// Every slice is back, nobody is inside, and no free is under way.
  [[nodiscard]] QUARRY_HD bool is_complete(block_state now) const {
    return (now.bits() & ~word{block_state::last_generation}) ==
           slices_ * block_state::one_slice + words() * block_state::one_full_word;
  }

  /// Makes the block free if it is complete and its state is still `now`. The caller must add a
  /// block that it made free to its segment's count.
  [[nodiscard]] QUARRY_HD bool close(block_state now) const {
    if (!is_complete(now)) return false;
    return simt::indirect_call([self = *this, complete = now.bits()]() mutable -> bool {
      word const closed = block_state{complete}.generation() + block_state::closed;
      bool const is_ours =
          self.state().compare_exchange(complete, closed, simt::fenced_acq_rel);  // (P)
      if (!is_ours) return false;
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 0; i < self.words(); ++i) {
        (void)self.at(i).observe();
        self.at(i).reset(0);
      }
      simt::fence_before_stores();                                  // and after the loads of (A)
      self.state().fetch_or(block_state::free, block_close_order);  // (H)
      return true;
    });
  }

  /// Enters and reserves up to `count` slices; returns the state before. If that was open in the
  /// caller's generation the caller may take `reserved_of` it. In any case it calls `leave`.
  [[nodiscard]] QUARRY_HD block_state reserve(std::uint32_t count) const {
    return block_state{state().fetch_add(block_state::one_inside - count * block_state::one_slice,
                                         block_reserve_order)};  // (P)
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t reserved_of(block_state before,
                                                           std::uint32_t count) {
    std::int32_t const there = before.count();
    if (there <= 0) return 0;
    return static_cast<std::uint32_t>(there) < count ? static_cast<std::uint32_t>(there) : count;
  }

  /// Leaves, and returns `rest` slices that were reserved and not taken; returns the state after.
  /// `from_full`: the word from which the others were taken was full.
  [[nodiscard]] QUARRY_HD block_state leave(std::uint32_t rest, bool from_full) const {
    word const added = rest * block_state::one_slice - block_state::one_inside -
                       (from_full ? block_state::one_full_word : 0);
    return block_state{state().fetch_add(added, block_count_order) + added};  // (G)
  }

  /// Opens a free block with all its slices back, and takes up to `count` slices of its first word.
  /// Zero if another lane did so first. Requires that the caller has reserved a free block of this
  /// segment.
  [[nodiscard]] QUARRY_HD word revive(std::uint32_t count) const {
    return simt::indirect_call([self = *this, count]() -> word {
      word const bits = self.state().fetch_and(~block_state::free, block_reserve_order);  // (P)
      if (!block_state{bits}.is_free()) return 0;
      word const taken = lowest_ones(self.mask(0), count);
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 1; i < self.words(); ++i) self.at(i).reset(self.mask(i));
      self.at(0).reset(self.mask(0) & ~taken);
      std::uint32_t const back = self.slices_ - count_ones(taken);
      self.state().fetch_add(back * block_state::one_slice +
                                 (self.words() - 1) * block_state::one_full_word -
                                 block_state::closed,
                             block_open_order);  // (H)
      return taken;
    });
  }

  /// Makes a block of which no slice was handed out free. Requires that the caller has the
  /// exclusive right to hand them out.
  QUARRY_HD void retire_unused() const {
    (void)state().fetch_add(block_state::closed + block_state::free,
                            block_close_order);  // the segment's count (S) publishes it
  }

  /// Opens a block of a segment that becomes free, for the segment's next use. Requires that the
  /// block is free and the segment the caller's.
  QUARRY_HD void end_generation(std::uint32_t generation) const {
    word const step = word{block_state::next_generation(generation)} - generation;
    // the segment tree's insert publishes it
    state().add_blindly(step - block_state::closed - block_state::free);
  }

  /// The block's generation, and its change from `before` to `after`. Requires that the segment is
  /// the caller's, and that `before` is what it is: nobody else changes this field.
  [[nodiscard]] QUARRY_HD std::uint32_t generation() const { return peek().generation(); }
  QUARRY_HD void change_generation(std::uint32_t before, std::uint32_t after) const {
    state().add_blindly(word{after} - before);
  }

  /// Whether a claim could find something, now that the advertisement was withdrawn, or may find
  /// it soon: a lane that is inside may have reserved more than it takes.
  [[nodiscard]] QUARRY_HD bool has_something() const {
    block_state const now{state().fetch_add(0, simt::acq_rel)};  // (V)
    return now.has_slices() || now.is_free() || now.inside() != 0;
  }

 private:
  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> state() const {
    return simt::atomic_ref<word>{state_};
  }

  word* words_;
  word& state_;
  std::uint32_t slices_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
