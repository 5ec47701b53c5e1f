// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_bitmap.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry {

QUARRY_ORDER_LABEL(block_reserve_order, "P");

/// Slices that a block holds at most: their bits are one cache line.
inline constexpr std::uint32_t slices_per_block = 1024;
inline constexpr std::uint32_t words_per_block = slices_per_block / bits_per_word;

/// Up to 1024 slices of one size class, and how many of their words have come back whole.
///
/// Its state is one number: the count of whole words, or `free`.
///   in use:    0 <= count < words. Slices are handed out by the slots, or claimed from the bitmap.
///   free:      every slice came back; the bitmap is empty; the block counts in its segment.
/// A word is whole when all its 64 bits are one. The last word of a segment may have fewer slices; its other bits are one for
/// as long as the segment has this class, so that a word is seen to be whole without knowing the class.
///
/// Invariant: count <= number of whole words, less those that a claimer has reserved. So count == words means that every
/// slice is back and that nobody is about to claim one. It is kept so: a release that makes a word whole then adds one (X); a
/// claimer that would take from a whole word first subtracts one (P), and takes from other words only by compare-and-swap
/// with a value that is not whole, which fails if the word has become so since. Rejected: counting slices, which costs a second
/// atomic on every release and not on one of two; scanning the words, which cannot see a claimer that is about to claim.
///
/// Memory order. The count (X) orders nothing. The lane that makes the block free then reads every word with acquire (A): what
/// it reads was written by a release (R), or by an RMW after it, so that it sees what all releasers did; it hands that on when
/// the block goes to its segment. A revived block's words are written with release after an acquire (P), which is how the next
/// claimer sees it. On the GPU this makes a release of slices cost one fence, whether or not it completes a word.
///
/// Who claims must be a visitor of the segment (segment_table.hpp); who holds a slice need not be.
class block {
 public:
  static constexpr std::uint32_t free = 0x80000000u;

  /// `slices` (1 to 1024) says how many the block holds.
  QUARRY_HD block(word* words, std::uint32_t& state, std::uint32_t slices) : words_{words}, state_{state}, slices_{slices} {}

  [[nodiscard]] QUARRY_HD std::uint32_t words() const { return (slices_ + bits_per_word - 1) / bits_per_word; }

  /// What word `index` holds when none of its slices is back: ones where it has no slices.
  [[nodiscard]] QUARRY_HD word empty(std::uint32_t index) const { return ~low_bits(slices_ - index * bits_per_word); }

  [[nodiscard]] QUARRY_HD slice_word at(std::uint32_t index) const { return slice_word{words_[index]}; }

  [[nodiscard]] QUARRY_HD bool is_free() const {
    return state().load(simt::relaxed) >= free;  // (L) exact for a lane that holds a slice; a hint for others
  }

  /// A release made one word whole. True if that made the block free: the caller owns it, and must hand it to its segment.
  [[nodiscard]] QUARRY_HD bool complete_word() const {
    std::uint32_t const count = state().fetch_add(1, simt::relaxed) + 1;  // (X)
    if (count != words()) return false;
    std::uint32_t expected = count;
    if (!state().compare_exchange(expected, free, simt::relaxed)) return false;  // (X) a claimer was first
    for (std::uint32_t i = 0; i < words(); ++i) {
      while (at(i).observe() != ~word{0}) simt::pause();  // whoever counted it has seen it whole
      at(i).reset(empty(i));
    }
    return true;
  }

  /// Reserves one all-ones word, so that the block cannot become free before the caller has claimed from it or called
  /// `complete_word`. False if none can be had.
  [[nodiscard]] QUARRY_HD bool reserve_word() const {
    std::uint32_t count = state().load(simt::relaxed);  // (L)
    while (count != 0 && count < free) {
      if (state().compare_exchange(count, count - 1, labelled<block_reserve_order>(simt::acquire))) return true;  // (P)
    }
    return false;
  }

  /// Makes a free block one whose slices have all come back, and takes up to `count` slices of its first word. Zero if
  /// another lane did so first. Requires that the caller has reserved a free block of this segment.
  ///
  /// The state is set before the words, so that every completion counts. The word that the caller takes from is written last:
  /// only its completion can bring the count to `words`.
  [[nodiscard]] QUARRY_HD word revive(std::uint32_t count) const {
    std::uint32_t expected = free;
    if (!state().compare_exchange(expected, words() - 1, simt::acquire)) return 0;  // (P)
    word const taken = lowest_ones(~empty(0), count);
    for (std::uint32_t i = 1; i < words(); ++i) at(i).reset(~word{0}, simt::release);  // (R) for claims by others
    at(0).reset(~taken, simt::release);  // (R)
    return taken;
  }

  /// Makes a block of which no slice was handed out free. Requires that the caller has the exclusive right to hand them out.
  QUARRY_HD void retire_unused() const { state().store(free, simt::relaxed); }  // (E) its segment's count publishes it

  /// Whether a claim could find something, judged by its words and its state.
  [[nodiscard]] QUARRY_HD bool has_something() const {
    if (is_free()) return true;
    for (std::uint32_t i = 0; i < words(); ++i) {
      if ((at(i).peek() & ~empty(i)) != 0) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> state() const { return simt::atomic_ref<std::uint32_t>{state_}; }

  word* words_;
  std::uint32_t& state_;
  std::uint32_t slices_;
};

}  // namespace quarry
