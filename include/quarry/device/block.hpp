// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_bitmap.hpp"
#include "quarry/simt/far_call.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry {

/// Slices that a block holds at most: their bits are one cache line.
inline constexpr std::uint32_t slices_per_block = 1024;
inline constexpr std::uint32_t words_per_block = slices_per_block / bits_per_word;

/// Up to 1024 slices of one size class, and how many of them can be claimed.
///
/// Its state is one word: below, a count; above, an epoch that every claim advances, and which
/// begins elsewhere in each use of the segment.
///   in use:    count < slices. So many slices came back and are not reserved; less than none for a
///   moment, when more were asked
///              for than there are. Slices are handed out by the slots, or claimed from the bitmap.
///   emptying:  every slice came back, and one lane empties the bitmap; or one lane is about to
///   claim from the free block.
///   free:      the bitmap is empty; the block counts in its segment, or is about to.
/// The last word of a block may have fewer than 64 slices; its other bits are one for as long as
/// the segment has this class, so that a word is seen to be whole without knowing the class.
///
/// Releasing sets bits, and then adds those that were not set before to the count. Claiming
/// subtracts from the count first, which reserves slices, and then looks for bits; what it reserved
/// too much it adds again.
///
/// Invariants. (1) The ones that stand for slices are no fewer than the count. So a reservation
/// will find its bits. (2) A block from which something is subtracted does not become free, and so
/// its segment keeps its class: a claimer that got slices needs no other hold on it. One that asked
/// for more than there is notices by the epoch if the block was given back unused with its segment
/// (`add_again`). (3) A block becomes free when its count is all its slices, by compare-and-swap
/// with a state in which it was so: then all its bits are ones. (4) Of lanes that bring the count
/// above zero each advertises the block.
/// A double free finds its bit set, and changes nothing; or it finds its block closed, and undoes
/// what it did. One that meets the revival of its block, or the next use of its segment, may go
/// unnoticed, and cost that slice; no slice has two owners by that.
/// Rejected: counting words that are whole or holed, for one RMW less on some releases: claimers
/// that take a last or first slice of a word have to be told apart. Counting before it is known
/// which bits were set: what a double free counts, until it is undone, stands in for a correct
/// free, and makes a block free too early. Reserving by compare-and-swap: of hundreds of lanes that
/// claim from one block, one got on in each round trip.
///
/// Memory order. A release's adding (G) releases and acquires; reserving (P) acquires, so that who
/// reserves sees how the segment was formatted and what a reviver wrote. The lane that makes the
/// block free reads the count (F) before the words (A), both with acquire: what it reads was
/// written by a release (R), or by an RMW after it, so that it sees what all releasers did; it
/// hands that on when the block goes to its segment. Who opens the block, as free or to claimers,
/// releases (H) what it wrote to its words, and acquires as (G) does. Advertising is a hint: a
/// release counts with acquire (G); who withdraws an advertisement clears it and then looks at the
/// count with an RMW that releases (V). Either (V) comes after (G) and sees it; or (G) reads from
/// (V), so that the clearing happens before the releaser looks at the advertisement, which then
/// ends as one.
class block {
 public:
  static constexpr std::int32_t free = 1 << 29;
  static constexpr std::int32_t emptying = 1 << 28;

  /// `slices` (1 to 1024) says how many the block holds.
  QUARRY_HD block(word* words, word& state, std::uint32_t slices)
      : words_{words}, state_{state}, slices_{slices} {}

  [[nodiscard]] QUARRY_HD std::uint32_t slices() const { return slices_; }
  [[nodiscard]] QUARRY_HD std::uint32_t words() const {
    return (slices_ + bits_per_word - 1) / bits_per_word;
  }

  /// What word `index` holds when none of its slices is back: ones where it has no slices.
  [[nodiscard]] QUARRY_HD word empty(std::uint32_t index) const {
    return ~low_bits(slices_ - index * bits_per_word);
  }

  [[nodiscard]] QUARRY_HD slice_word at(std::uint32_t index) const {
    return slice_word{words_[index]};
  }

  /// The state. Exact for a lane that holds a slice, as far as it tells whether the block is free;
  /// a hint for others.
  [[nodiscard]] QUARRY_HD word peek() const { return state().load(simt::relaxed); }  // (L)

  [[nodiscard]] QUARRY_HD static bool is_free(word state) {
    return count_of(state) >= (free + emptying) / 2;
  }
  [[nodiscard]] QUARRY_HD bool is_free() const { return is_free(peek()); }

  /// The block is free, or about to be or to be claimed from.
  [[nodiscard]] QUARRY_HD static bool is_closed(word state) {
    return count_of(state) >= emptying / 2;
  }

  /// Something can be claimed, if others leave it.
  [[nodiscard]] QUARRY_HD static bool has_slices(word state) {
    return count_of(state) > 0 && !is_closed(state);
  }

  /// `count` slices came back, or were reserved too much; gives the state after that. Requires a
  /// release of their bits (R) just before, or nothing that others must see.
  [[nodiscard]] QUARRY_HD word add(std::uint32_t count) const {
    return state().fetch_add(count, block_count_order) + count;  // (G)
  }

  /// Whether nothing follows from an `add` of `count` after which the state is `now`: the block had
  /// something to claim before, and has slices in use. Otherwise `simt::fence_after_loads` is
  /// required before what follows.
  [[nodiscard]] QUARRY_HD bool is_plain(word now, std::uint32_t count) const {
    auto const after = count_of(now);
    return after > static_cast<std::int32_t>(count) && after < static_cast<std::int32_t>(slices_);
  }

  /// Every slice seems to be back: see `become_free`.
  [[nodiscard]] QUARRY_HD bool is_complete(word now) const {
    return count_of(now) == static_cast<std::int32_t>(slices_);
  }

  /// Adds again `count` slices that were reserved too much; gives the state after that. If it is
  /// not of the same use as the state before the reservation (`is_same_use`), the segment was given
  /// back with them missing, and this must be undone.
  [[nodiscard]] QUARRY_HD word add_again(std::uint32_t count) const {
    return state().fetch_add(count, simt::acquire) + count;  // (G) which releases nothing
  }

  /// Undoes what was added to or, as a negative number, subtracted from a block whose state was
  /// `then`. Gives the state after that; 0 if the block was prepared for another use since, so that
  /// there is nothing to undo.
  QUARRY_HD word undo(word then, std::int64_t added) const {
    return simt::far_call(words_, &undo_in, *this, then, added);
  }

  /// Makes the block free if every slice is back and the state is still `complete`. False if it is
  /// not: then whoever changed it and completes the block does so.
  [[nodiscard]] QUARRY_HD bool become_free(word complete) const {
    return simt::far_call(words_, &become_free_in, *this, complete);
  }

  /// Reserves up to `count` slices; gives the state before. Of `reserved_of` it the caller has that
  /// many, if the block was not closed; what it does not take, of `count`, it must add again. If
  /// the block was closed the caller must `undo` it.
  [[nodiscard]] QUARRY_HD word reserve(std::uint32_t count) const {
    return state().fetch_add(one_epoch - count, block_reserve_order);  // (P)
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t reserved_of(word before, std::uint32_t count) {
    auto const there = count_of(before);
    return there <= 0                                  ? 0
           : static_cast<std::uint32_t>(there) < count ? static_cast<std::uint32_t>(there)
                                                       : count;
  }

  /// Makes a free block one whose slices have all come back, and takes up to `count` slices of its
  /// first word. Zero if another lane did so first. Requires that the caller has reserved a free
  /// block of this segment.
  [[nodiscard]] QUARRY_HD word revive(std::uint32_t count) const {
    return simt::far_call(words_, &revive_in, *this, count);
  }

  /// Makes a block of which no slice was handed out free. Requires that the caller has the
  /// exclusive right to hand them out.
  QUARRY_HD void retire_unused() const { state().fetch_add(free, simt::acq_rel); }  // (G)

  /// The state of a block that is not free and of which nothing is back, in the segment's use
  /// number `use`. The epochs of uses that follow each other begin far apart (multiples of the
  /// golden ratio: those of 100 uses, 2^24 at least): however many claims a long use sees, the next
  /// one does not look like its continuation.
  [[nodiscard]] QUARRY_HD static constexpr word state_of_use(std::uint32_t use) {
    return word{use * 0x9e3779b9u} << 32;
  }

  /// Whether a state is of the same use as one a moment ago: there were some claims since, but not
  /// as many as lie between uses.
  [[nodiscard]] QUARRY_HD static constexpr bool is_same_use(word then, word now) {
    return static_cast<std::uint32_t>(now >> 32) - static_cast<std::uint32_t>(then >> 32) <
           1u << 24;
  }

  /// Whether a claim could find something, now that the advertisement was withdrawn.
  [[nodiscard]] QUARRY_HD bool has_something() const {
    word const now = state().fetch_add(0, simt::acq_rel);  // (V)
    return has_slices(now) || is_free(now);
  }

  /// For an audit at rest: how many slices are back; `free` for a free block.
  [[nodiscard]] std::int32_t count() const { return count_of(state_); }

 private:
  static constexpr word one_epoch = word{1} << 32;

  [[nodiscard]] QUARRY_HD static std::int32_t count_of(word state) {
    return static_cast<std::int32_t>(state);
  }

  QUARRY_SLOW static word undo_in(block self, word then, std::int64_t added) {
    word now = self.peek();
    QUARRY_NO_UNROLL
    while (is_same_use(then, now)) {
      word const undone = now - static_cast<word>(added);
      if (self.state().compare_exchange(now, undone, simt::acq_rel)) return undone;  // (G)
    }
    return 0;
  }

  QUARRY_SLOW static word revive_in(block self, std::uint32_t count) {
    word seen = self.peek();
    if (count_of(seen) != free) return 0;
    if (!self.state().compare_exchange(seen, seen + one_epoch - free + emptying,
                                       block_reserve_order))
      return 0;  // (P)
    word const taken = lowest_ones(~self.empty(0), count);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 1; i < self.words(); ++i) self.at(i).reset(~word{0});
    self.at(0).reset(~taken);
    self.state().fetch_add(word{self.slices_} - count_ones(taken) - emptying,
                           block_open_order);  // (H)
    return taken;
  }

  /// The bits are there before the count is, as soon as all see the same order. If they are not,
  /// double frees have lost some.
  static constexpr std::uint32_t most_looks = 64;

  QUARRY_SLOW static bool become_free_in(block self, word complete) {
    QUARRY_NO_UNROLL
    for (std::uint32_t looks = 0; looks < most_looks; ++looks) {
      if (self.state().load(simt::acquire) != complete) return false;  // (F)
      if (!simt::far_call(self.words_, &is_whole, self)) {
        simt::pause();
        continue;
      }
      if (!self.state().compare_exchange(complete, complete - self.slices_ + emptying,
                                         simt::relaxed))
        return false;  // (L) (A) orders
      simt::fence_after_loads();
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 0; i < self.words(); ++i) self.at(i).reset(self.empty(i));
      self.state().fetch_add(word{free} - emptying, block_open_order);  // (H)
      return true;
    }
    return false;
  }

  QUARRY_SLOW static bool is_whole(block self) {  // the loads are on their way together
    word all = ~word{0};
    for (std::uint32_t i = 0; i < self.words(); ++i) all &= self.at(i).observe();
    return all == ~word{0};
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> state() const {
    return simt::atomic_ref<word>{state_};
  }

  word* words_;
  word& state_;
  std::uint32_t slices_;
};

}  // namespace quarry
