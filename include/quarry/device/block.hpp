// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_bitmap.hpp"
#include "quarry/simt/far_call.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry {

/// Slices that a block holds at most: their bits are one cache line.
inline constexpr std::uint32_t slices_per_block = 1024;
inline constexpr std::uint32_t words_per_block = slices_per_block / bits_per_word;

/// What a block's state word says.
///
/// Bounded fields. `generation` wraps after 2^20 uses of its segment. It tells a lane that read the
/// segment's entry before such a use ended from those of the present one; to be mistaken, a lane
/// must sleep between that read and its next atomic while its segment is used exactly a multiple of
/// 2^20 times. `inside` counts lanes and `count` slices that lanes announced or reserved; each lane
/// adds at most 1 of either at a time, so both are exact for 2^19 lanes that run at once (an H200
/// runs 2^18).
class block_state {
 public:
  static constexpr std::uint32_t generation_bits = 20;
  static constexpr std::uint32_t last_generation = (1u << generation_bits) - 1;
  static constexpr word closed = word{1} << 20;
  static constexpr word free = word{1} << 21;
  static constexpr word closing = word{1} << 22;
  static constexpr word one_inside = word{1} << 23;
  static constexpr word one_slice = word{1} << 43;

  QUARRY_HD constexpr explicit block_state(word bits) : bits_{bits} {}

  [[nodiscard]] QUARRY_HD constexpr std::uint32_t generation() const {
    return static_cast<std::uint32_t>(bits_) & last_generation;
  }
  /// Nothing can be released to or claimed from the block: it is free, or becomes free or open.
  [[nodiscard]] QUARRY_HD constexpr bool is_closed() const { return (bits_ & closed) != 0; }
  /// Closed, and may be revived.
  [[nodiscard]] QUARRY_HD constexpr bool is_free() const { return (bits_ & free) != 0; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t inside() const {
    return static_cast<std::uint32_t>(bits_ >> 23) & 0xfffff;
  }
  [[nodiscard]] QUARRY_HD constexpr std::int32_t count() const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(bits_) >> 43);
  }

  /// One lane is about to find out whether the block becomes free.
  [[nodiscard]] QUARRY_HD constexpr bool is_closing() const { return (bits_ & closing) != 0; }

  /// Releases may go on.
  [[nodiscard]] QUARRY_HD constexpr bool is_open_in(std::uint32_t generation) const {
    return (bits_ & (closed | last_generation)) == generation;
  }
  /// Claims may go on.
  [[nodiscard]] QUARRY_HD constexpr bool is_claimable_in(std::uint32_t generation) const {
    return (bits_ & (closed | closing | last_generation)) == generation;
  }
  /// Something can be claimed, if others leave it.
  [[nodiscard]] QUARRY_HD constexpr bool has_slices() const { return count() > 0 && !is_closed(); }

  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t next_generation(std::uint32_t generation) {
    return (generation + 1) & last_generation;
  }
  [[nodiscard]] QUARRY_HD constexpr word bits() const { return bits_; }

 private:
  word bits_;
};

/// Up to 1024 slices of one size class: which of them can be claimed, and how many.
///
/// The state word has these fields (block_state):
///   generation  the use of the segment to which the block belongs
///   closed      the block is free, or one lane makes it free or opens it
///   free        it counts as free in its segment, or is about to; its bits are zero
///   closing     one lane finds out whether the block becomes free, and claims stay away
///   inside      lanes that claim from it at this moment
///   count       slices announced, less those that claimers reserved or took
///
/// A release announces its slices (adds them to the count), and then sets their bits. A claim
/// enters and reserves (one addition), takes bits, leaves and returns what it reserved too much
/// (one addition). Each addition gives the state before, which says whether the block was open in
/// the generation that the lane knows. If it was not, the lane subtracts what it added, and has
/// touched no bit. All changes of a state are relative to what it holds, save two
/// compare-and-swaps of `close`, so that what a late lane adds and subtracts again cancels out,
/// whatever became of the block in between.
///
/// Invariants. (1) At rest the count is the number of ones. (2) While a lane is inside, the block
/// does not become free, so its segment keeps its class and generation. (3) A lane that sees its
/// bit set before, sees a slice that is not in use: a double free. It subtracts what it announced.
/// (4) A block becomes free only from a state in which nobody is inside and the count is all its
/// slices, and while all its bits are ones (`close`). Then every announcement was of a slice that
/// came back, so no lane that announced is still to set a bit. (5) Of lanes that bring the count
/// above zero each advertises the block. (6) Of lanes that set the last bit of a word, leave, or
/// subtract what they announced, the last sees a complete state, and makes the block free.
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
/// both are under way. A third addition by each release, before the bits, in place of announcing:
/// a third of the throughput of frees in random order is lost. Reserving by compare-and-swap: of
/// hundreds of lanes that claim from one block, one got on in each round trip.
///
/// Memory order. Bits hand over the slices' bytes (slice_word: R, C). Reserving (P) acquires what a
/// reviver wrote to the words and published by (H), and what a segment's format published (O). The
/// lane that closes the block has seen each word's bits with acquire (A), so it has seen all
/// releases, and their announcements. It empties the words and publishes that by (H); the segment's
/// count (S, W) hands it to the reviver, which acquires it by (P) as well. A lane that may be the
/// last to complete the block looks at the state by an RMW (G) after its change: of two such lanes,
/// the second in the state's order acquires what the first released. On CUDA (G) is relaxed, and so
/// is (R), which a fence before the announcement makes a release: a lane has the result of its
/// announcement before it sets bits, and that of its `fetch_or` before it looks at the state, so
/// each was performed before the next. Advertising is a hint:
/// who announces does so by an RMW, and then looks at the advertisement; who withdraws an
/// advertisement clears it and then looks at the count with an RMW (V). One of the two sees the
/// other. (L) orders nothing: what it reads is a hint, or (A) orders what follows.
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

  /// The state after what this lane did: for a lane that may be the last to complete the block.
  [[nodiscard]] QUARRY_HD block_state look() const {
    return block_state{state().look(block_count_order)};  // (G)
  }

  /// Every slice is announced and nobody is inside: see `close`.
  [[nodiscard]] QUARRY_HD bool is_complete(block_state now) const {
    return (now.bits() & ~word{block_state::last_generation}) == slices_ * block_state::one_slice;
  }

  /// Makes the block free if it is complete and all its bits are ones; `now` is its state, or was a
  /// moment ago. False if it is not: then a lane that changes it later does so. The caller must add
  /// a block that it made free to its segment's count.
  [[nodiscard]] QUARRY_HD bool close(block_state now) const {
    closing_attempt attempt{words_, &state_, slices_, now.bits()};
    return simt::far_call(words_, &close_in, attempt);
  }

  /// Enters and reserves up to `count` slices; returns the state before. If that was claimable in
  /// the caller's generation the caller may take `reserved_of` it. In any case it calls `leave`.
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
  [[nodiscard]] QUARRY_HD block_state leave(std::uint32_t rest) const {
    word const added = rest * block_state::one_slice - block_state::one_inside;
    return block_state{state().fetch_add(added, block_count_order) + added};  // (G)
  }

  /// The same with all that was reserved: nothing follows from that.
  QUARRY_HD void leave_with_all() const { state().add_blindly(-block_state::one_inside); }

  /// Opens a free block with all its slices back, and takes up to `count` slices of its first word.
  /// Zero if another lane did so first. Requires that the caller has reserved a free block of this
  /// segment.
  [[nodiscard]] QUARRY_HD word revive(std::uint32_t count) const {
    return simt::far_call(words_, &revive_in, *this, count);
  }

  /// Makes a block of which no slice was handed out free. Requires that the caller has the
  /// exclusive right to hand them out.
  QUARRY_HD void retire_unused() const {
    state().add_blindly(block_state::closed +
                        block_state::free);  // (E) `add_free_blocks` publishes
  }

  /// Opens a block of a segment that is given back, for the segment's next use. Requires that the
  /// block is free and the segment the caller's.
  QUARRY_HD void end_generation(std::uint32_t generation) const {
    word const step = word{block_state::next_generation(generation)} - generation;
    // (E) the segment tree publishes it
    state().add_blindly(step - block_state::closed - block_state::free);
  }

  /// Brings a block that the last uses of the segment did not have to `generation`. Requires that
  /// the segment is the caller's.
  QUARRY_HD void set_generation(std::uint32_t generation) const {
    word const own = peek().generation();  // nobody else changes this field
    if (own != generation) state().add_blindly(word{generation} - own);  // (E)
  }

  /// Whether a claim could find something, now that the advertisement was withdrawn, or may find
  /// it soon: a lane that is inside may have reserved more than it takes.
  [[nodiscard]] QUARRY_HD bool has_something() const {
    block_state const now{state().fetch_add(0, simt::acq_rel)};  // (V)
    return now.has_slices() || now.is_free() || now.is_closing() || now.inside() != 0;
  }

 private:
  /// Lies in the lane's own memory, so that the functions of `close` need few registers.
  struct closing_attempt {
    word* words;
    word* state;
    std::uint32_t slices;
    word now;  // what the state was

    [[nodiscard]] QUARRY_HD block of() const { return {words, *state, slices}; }
  };

  QUARRY_SLOW static word revive_in(block self, std::uint32_t count) {
    block_state const before{self.state().fetch_and(~block_state::free, block_reserve_order)};
    if (!before.is_free()) return 0;  // (P)
    word const taken = lowest_ones(self.mask(0), count);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < self.words(); ++i) self.at(i).reset(self.mask(i));
    self.at(0).reset(self.mask(0) & ~taken);
    std::uint32_t const back = self.slices_ - count_ones(taken);
    self.state().fetch_add(back * block_state::one_slice - block_state::closed,
                           block_open_order);  // (H)
    return taken;
  }

  /// Many lanes may see the block complete while bits are still to be set: these look at the bits,
  /// and leave it to the others. While the block is closing no claimer takes a bit, so
  /// bits that were all there stay so. If the state then changed not at all, no announcement is
  /// under way, and the block is closed. Otherwise closing ends, and this lane looks again, since
  /// others may have looked meanwhile (6).
  QUARRY_SLOW static bool close_in(closing_attempt& attempt) {
    QUARRY_NO_UNROLL
    while (attempt.of().is_complete(block_state{attempt.now}) &&
           simt::far_call(&attempt, &is_whole_in, attempt)) {
      word const closing = block_state{attempt.now}.generation() + block_state::closing;
      simt::atomic_ref<word> const state{*attempt.state};
      if (!state.compare_exchange(attempt.now, closing, simt::fenced_acq_rel)) continue;  // (P)
      if (simt::far_call(&attempt, &is_whole_in, attempt) &&
          simt::far_call(&attempt, &finish_closing, attempt))
        return true;
      simt::far_call(&attempt, &end_closing, attempt);
    }
    return false;
  }

  QUARRY_SLOW static void end_closing(closing_attempt& attempt) {
    word const back = attempt.slices * block_state::one_slice - block_state::closing;
    attempt.now =
        simt::atomic_ref<word>{*attempt.state}.fetch_add(back, simt::acq_rel) + back;  // (G)
  }

  QUARRY_SLOW static bool finish_closing(closing_attempt& attempt) {
    block const of = attempt.of();
    word closing = block_state{attempt.now}.generation() + block_state::closing;
    word const closed = closing - block_state::closing + block_state::closed;
    if (!of.state().compare_exchange(closing, closed, simt::relaxed)) return false;  // (L) (A)
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < of.words(); ++i) of.at(i).reset(0);
    simt::fence_before_stores();                                // and after the loads of (A)
    of.state().fetch_or(block_state::free, block_close_order);  // (H)
    return true;
  }

  QUARRY_SLOW static bool is_whole_in(closing_attempt& attempt) {
    block const of = attempt.of();
    word missing = 0;
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < of.words(); ++i) missing |= of.mask(i) & ~of.at(i).observe();
    return missing == 0;
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> state() const {
    return simt::atomic_ref<word>{state_};
  }

  word* words_;
  word& state_;
  std::uint32_t slices_;
};

}  // namespace quarry
