// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_bitmap.hpp"
#include "quarry/simt/far_call.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry {


/// Slices that a block holds at most: their bits are one cache line.
inline constexpr std::uint32_t slices_per_block = 1024;
inline constexpr std::uint32_t words_per_block = slices_per_block / bits_per_word;

/// Up to 1024 slices of one size class, and how many of their words have come back whole.
///
/// Its state is one word of two counts, `whole` below and `holed` above, or `emptying`, or `free`.
///   in use:    0 <= whole < words. Slices are handed out by the slots, or claimed from the bitmap.
///   emptying:  every slice came back, and one lane empties the bitmap. A segment counts how many of its blocks are free, not
///              which: without this state a reviver could take a block whose bitmap is still being emptied.
///   free:      the bitmap is empty; the block counts in its segment, or is about to.
/// A word is whole when all its 64 bits are one. The last word of a segment may have fewer slices; its other bits are one for
/// as long as the segment has this class, so that a word is seen to be whole without knowing the class. A word is holed when
/// it has a slice to claim.
///
/// Invariants. (1) whole <= number of whole words, less those that a claimer has reserved. So whole == words means that every
/// slice is back and that nobody is about to claim one. It is kept so: a release that makes a word whole then adds one; a
/// claimer that would take from a whole word first subtracts one (P), and takes from other words only by compare-and-swap
/// with a value that is not whole, which fails if the word has become so since. (2) At rest, holed is the number of holed words;
/// a release counts after it has set bits, a claimer after it has cleared them, so that it may be off, even below zero, in
/// between. Who makes it 1 advertises the block. The block becomes free when both counts are `words`, so that nobody has
/// yet to count. Rejected: counting slices, which costs a second atomic on every release;
/// scanning the words, which cannot see a claimer that is about to claim; advertising every word's first hole, which costs a
/// second fence on one release of two.
///
/// Memory order. `whole` orders nothing. The lane that makes the block free then reads every word with acquire (A): what it
/// reads was written by a release (R), or by an RMW after it, so that it sees what all releasers did; it hands that on when
/// the block goes to its segment. A revived block's words are written with release after an acquire (P), which is how the next
/// claimer sees it. `holed` is for hints: a release adds with acquire (G); who withdraws the advertisement clears it and then
/// looks at `holed` with an RMW that releases (V). Either (V) comes after (G) and sees it; or (G) reads from (V), so that the
/// clearing happens before the advertisement that (G) leads to, and the bit ends as one.
///
/// Who claims must be a visitor of the segment (segment_table.hpp); who holds a slice need not be.
class block {
 public:
  static constexpr word free = word{1} << 31;
  static constexpr word emptying = word{1} << 30;  // about to be free: its bitmap is being emptied

  /// `slices` (1 to 1024) says how many the block holds.
  QUARRY_HD block(word* words, word& state, std::uint32_t slices) : words_{words}, state_{state}, slices_{slices} {}

  [[nodiscard]] QUARRY_HD std::uint32_t words() const { return (slices_ + bits_per_word - 1) / bits_per_word; }

  /// What word `index` holds when none of its slices is back: ones where it has no slices.
  [[nodiscard]] QUARRY_HD word empty(std::uint32_t index) const { return ~low_bits(slices_ - index * bits_per_word); }

  [[nodiscard]] QUARRY_HD slice_word at(std::uint32_t index) const { return slice_word{words_[index]}; }

  [[nodiscard]] QUARRY_HD bool is_free() const {
    return (state().load(simt::relaxed) & free) != 0;  // (L) exact for a lane that holds a slice; a hint for others
  }

  enum class consequence : std::uint32_t {
    none,
    advertise,  ///< the block has something to claim, and had not
    hand_over,  ///< the block is free, and the caller's: it must go to its segment
    refused     ///< the block was free before: what was released was not in use. Must be undone: `take_back_count`
  };

  /// A release gave a word its first slice to claim, or made it whole, or both. Requires `simt::fence_after_loads` before what
  /// follows from another consequence than `none`.
  [[nodiscard]] QUARRY_HD consequence count_release(bool first_hole, bool whole) const {
    word const more = (first_hole ? one_holed : 0) + (whole ? 1 : 0);
    word const before = state().fetch_add(more, simt::fenced_acquire);  // (G)
    if ((before & (free | emptying)) != 0) return consequence::refused;
    if (before + more == all_back() && simt::far_call(words_, &become_free, *this)) return consequence::hand_over;
    return first_hole && holed(before) == 0 ? consequence::advertise : consequence::none;
  }

  /// Undoes a `count_release` that was refused, after the bits are cleared: until then nobody can revive the block.
  QUARRY_HD void take_back_count(bool first_hole, bool whole) const {
    state().fetch_sub((first_hole ? one_holed : 0) + (whole ? 1 : 0), simt::release);  // (P) of the next revive
  }

  /// A claimer took a word's last slice.
  QUARRY_HD void count_emptied() const { state().fetch_sub(one_holed, simt::relaxed); }  // (L) a hint

  /// Reserves a whole word, so that the block cannot become free before the caller has claimed from it or called
  /// `count_release(false, true)`. False if none can be had.
  [[nodiscard]] QUARRY_HD bool reserve_word() const {
    word now = state().load(simt::relaxed);  // (L)
    while (whole(now) != 0) {
      if (state().compare_exchange(now, now - 1, simt::acquire)) return true;  // (P)
    }
    return false;
  }

  /// Makes a free block one whose slices have all come back, and takes up to `count` slices of its first word. Zero if
  /// another lane did so first. Requires that the caller has reserved a free block of this segment.
  ///
  /// The state is set before the words, so that every completion counts. The word that the caller takes from is written last:
  /// only its completion can bring `whole` to `words`.
  [[nodiscard]] QUARRY_HD word revive(std::uint32_t count) const {
    word const taken = lowest_ones(~empty(0), count);
    word const holes = taken == ~empty(0) ? words() - 1 : words();
    word expected = free;
    if (!state().compare_exchange(expected, holes * one_holed + words() - 1, simt::acquire)) return 0;  // (P)
    for (std::uint32_t i = 1; i < words(); ++i) at(i).reset(~word{0}, simt::release);  // (R) for claims by others
    at(0).reset(~taken, simt::release);  // (R)
    return taken;
  }

  /// Makes a block of which no slice was handed out free. Requires that the caller has the exclusive right to hand them out.
  QUARRY_HD void retire_unused() const { state().store(free, simt::relaxed); }  // (E) its segment's count publishes it

  /// Whether a claim could find something, now that the advertisement was withdrawn.
  [[nodiscard]] QUARRY_HD bool has_something() const {
    word const now = state().fetch_add(0, simt::acq_rel);  // (V)
    return (now & free) != 0 || holed(now) > 0;
  }

 private:
  static constexpr word one_holed = word{1} << 32;

  [[nodiscard]] QUARRY_HD static std::int32_t holed(word state) { return static_cast<std::int32_t>(state >> 32); }
  [[nodiscard]] QUARRY_HD static std::uint32_t whole(word state) { return static_cast<std::uint32_t>(state & (emptying - 1)); }

  /// The state when every slice is back, everybody has counted it, and nobody is about to claim one.
  [[nodiscard]] QUARRY_HD word all_back() const { return words() * one_holed + words(); }

  /// False if a claimer was before us.
  QUARRY_SLOW static bool become_free(block self) {
    word expected = self.all_back();
    if (!self.state().compare_exchange(expected, emptying, simt::relaxed)) return false;  // (L) `observe` orders
    for (word all = 0; all != ~word{0};) {  // whoever counted a word has seen it whole, so this is soon over
      all = ~word{0};
      for (std::uint32_t i = 0; i < self.words(); ++i) all &= self.at(i).observe();
    }
    simt::fence_after_loads();
    for (std::uint32_t i = 0; i < self.words(); ++i) self.at(i).reset(self.empty(i));
    self.state().fetch_add(free - emptying, simt::release);  // (P) of the next revive
    return true;
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> state() const { return simt::atomic_ref<word>{state_}; }

  word* words_;
  word& state_;
  std::uint32_t slices_;
};

}  // namespace quarry
