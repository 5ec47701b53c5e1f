// SPDX-License-Identifier: Apache-2.0
// Every interleaving of lanes that free, claim and revive blocks of a segment, and give it back for
// its next use: the protocol of slice_return and slice_claim, with their hints left out. Each block
// has two slices.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/block.hpp"
#include "quarry/device/segment_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace {

enum class arrival { bits_first, count_first };

constexpr arrival both[] = {arrival::bits_first, arrival::count_first};

constexpr std::uint32_t slices_each = 2;
constexpr std::uint32_t most_blocks = 2;
constexpr std::uint32_t reserved_at_once = 2;  // more than what often is there

/// A segment of one or two blocks, all of whose slices are in use. Whoever is to give it back ends
/// its use and begins the next: one of another class with `next_blocks`, all in use by that lane.
class watched_segment {
 public:
  watched_segment(std::uint32_t blocks, std::uint32_t next_blocks)
      : blocks_{blocks}, next_blocks_{next_blocks} {
    entry_.store(segment_use::slices_of(0));
    for (std::uint32_t index = 0; index < most_blocks; ++index) begin_block(index);
  }

  /// Gives back `slices` of a block, which the caller holds.
  void release(std::uint32_t index, word slices, arrival how) {
    block const of = block_at(index);
    if (how == arrival::count_first) {
      word const now = of.add(count_ones(slices));
      after_release(index, slices, of.at(0).release(slices), now);
    } else {
      word const before = of.at(0).release(slices);
      after_release(index, slices, before, of.add(count_ones(slices)));
    }
  }

  /// A lane that knows the segment as one of class `id`: takes a slice, uses it, and gives it back.
  /// As slice_claim::claim_in_block.
  void claim_and_release(size_class id, std::uint32_t index, arrival how) {
    word const taken = claim(id, index);
    for (word rest = taken; rest != 0; rest &= rest - 1) hold(index, lowest_one(rest), true);
    if (taken == 0) return;
    simt::interleave();
    if (!(entry_.load() == segment_use::slices_of(id)))
      problem_ = "a segment changed its class under a lane that holds a slice";
    for (word rest = taken; rest != 0; rest &= rest - 1) hold(index, lowest_one(rest), false);
    release(index, taken, how);
  }

  /// The same by a lane that saw long ago that there are slices.
  void claim_late(size_class id, std::uint32_t index, arrival how) {
    word const taken = claim_from_used(id, index);
    if (taken != 0) release(index, taken, how);
  }

  /// A second free of what came back, which finds its block free: both its RMWs at once, since one
  /// that arrives in the next use is a first free there.
  void double_free(std::uint32_t index, word slices) {
    simt::interleave();
    block const of = block_at(index);
    if (of.count() < block::emptying / 2) return;
    word const before = std::exchange(words_[index], words_[index] | slices);
    word const now = states_[index] += count_ones(slices);
    of.at(0).take_back(slices & ~before);
    word const undone = of.undo(now, count_ones(slices));
    if (undone != 0 && block::has_slices(undone)) pass_on(index, undone);
  }

  /// What whoever was handed all slices of the next use, if it has begun, does with them.
  void drain_next_use(arrival how) {
    if (uses_ != 1 || std::exchange(is_drained_, true)) return;
    for (std::uint32_t index = 0; index < next_blocks_; ++index) release(index, 0b11, how);
  }

  /// A lane that saw the block complete in the first use and got no further.
  void become_free_late(std::uint32_t index) {
    if (block_at(index).become_free(complete_)) add_free_block();
  }
  void complete(word state) { complete_ = state; }

  [[nodiscard]] block block_at(std::uint32_t index) {
    return {&words_[index], states_[index], slices_each};
  }
  [[nodiscard]] std::uint32_t uses() const { return uses_; }

  /// What is wrong at rest, when nothing of the first use is held any more.
  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (uses_ != (is_drained_ ? 2 : 1))
      return "the segment was given back " + std::to_string(uses_) + " times";
    std::uint32_t free_blocks = 0;
    for (std::uint32_t index = 0; index < blocks_; ++index) {
      block const of = block_at(index);
      std::uint32_t const back = count_ones(words_[index] & ~of.empty(0));
      if (of.is_free()) ++free_blocks;
      if (of.count() != (of.is_free() ? block::free : static_cast<std::int32_t>(back)) ||
          (of.is_free() && back != 0)) {
        return "block " + std::to_string(index) + " says " + std::to_string(of.count()) + " of " +
               std::to_string(back);
      }
    }
    if (entry_.free_blocks() != free_blocks) return "the segment counts its free blocks wrongly";
    return "";
  }

 private:
  void begin_block(std::uint32_t index) { words_[index] = block_at(index).empty(0); }

  void hold(std::uint32_t index, std::uint32_t slice, bool held) {
    if (std::exchange(held_[index][slice], held) == held) problem_ = "a slice has two owners";
  }

  void after_release(std::uint32_t index, word slices, word before, word now) {
    block const of = block_at(index);
    if ((before & slices) != 0 || block::is_closed(now))
      problem_ = "a release of a slice in use was refused";
    if (!of.is_plain(now, count_ones(slices))) pass_on(index, now);
  }

  void pass_on(std::uint32_t index, word now) {
    block const of = block_at(index);
    if (of.is_complete(now) && of.become_free(now)) add_free_block();
  }

  void add_free_block() {
    if (entry_.add_free_blocks(1, blocks_)) give_back();
  }

  void give_back() {
    for (std::uint32_t index = 0; index < blocks_; ++index) {
      // Something may still have to be undone.
      if (!block::is_free(states_[index])) problem_ = "given back with a slice in use";
      for (bool const held : held_[index]) {
        if (held) problem_ = "given back under the owner of a slice";
      }
    }
    entry_.store(segment_use::nothing());
    word const next = block::state_of_use(entry_.uses() + 1);
    for (word& state : states_) simt::atomic_ref<word>{state}.store(next, simt::relaxed);
    entry_.end_retirement(blocks_);
    ++uses_;
    blocks_ = next_blocks_;
    entry_.store(segment_use::slices_of(uses_));
  }

  word claim(size_class id, std::uint32_t index) {
    block const from = block_at(index);
    word const seen = from.peek();
    if (block::is_free(seen)) return revive(id, index);
    return block::has_slices(seen) ? claim_from_used(id, index) : 0;
  }

  word claim_from_used(size_class id, std::uint32_t index) {
    block const from = block_at(index);
    word const before = from.reserve(reserved_at_once);
    if (block::is_closed(before)) {
      word const now = from.undo(before, -std::int64_t{reserved_at_once});
      if (now != 0) follow_return(index, reserved_at_once, now);
      return 0;
    }
    std::uint32_t const reserved = block::reserved_of(before, reserved_at_once);
    word taken = 0;
    if (reserved != 0 && entry_.load() == segment_use::slices_of(id)) {
      word const there = from.at(0).peek() & ~from.empty(0);
      if (there != 0) taken = from.at(0).claim(lowest_ones(there, reserved));
    }
    if (reserved != 0 && !entry_.load().is_slices())
      problem_ = "a reservation did not keep the segment";
    if (std::uint32_t const rest = reserved_at_once - count_ones(taken); rest != 0)
      return_reserved(index, rest, before);
    return taken;
  }

  void return_reserved(std::uint32_t index, std::uint32_t count, word before) {
    block const of = block_at(index);
    word now = of.add_again(count);
    if (!block::is_same_use(before, now)) {
      now = of.undo(now, count);
      if (now == 0) return;
    }
    follow_return(index, count, now);
  }

  void follow_return(std::uint32_t index, std::uint32_t count, word now) {
    if (!entry_.load().is_slices() || index >= blocks_) return;
    if (!block_at(index).is_plain(now, count) && block::has_slices(now)) pass_on(index, now);
  }

  word revive(size_class id, std::uint32_t index) {
    if (!entry_.reserve_free_block()) return 0;
    segment_use const use = entry_.load();
    if (!use.is_slices()) problem_ = "a reserved block did not keep the segment";
    word const taken = use == segment_use::slices_of(id) ? block_at(index).revive(1) : 0;
    if (taken == 0) add_free_block();
    return taken;
  }

  segment_entry entry_{};
  std::array<word, most_blocks> words_{};
  std::array<word, most_blocks> states_{};
  std::array<std::array<bool, slices_each>, most_blocks> held_{};
  std::uint32_t blocks_;
  std::uint32_t next_blocks_;
  std::uint32_t uses_ = 0;
  bool is_drained_ = false;
  word complete_ = 0;
  std::string problem_;
};

using operation = std::function<void(watched_segment&)>;

struct segment_case {
  std::uint32_t blocks = 1;
  std::uint32_t next_blocks = 1;
  std::uint32_t preemptions = 100;
  operation before = [](watched_segment&) {};
};

void expect_all_interleavings_hold(segment_case const& how, std::vector<operation> const& lanes) {
  auto const result = explore(
      [&] {
        auto const watched = std::make_shared<watched_segment>(how.blocks, how.next_blocks);
        how.before(*watched);
        scenario run;
        for (operation const& one : lanes)
          run.lanes.emplace_back([watched, &one] { one(*watched); });
        run.check = [watched] { return watched->check(); };
        return run;
      },
      {.preemptions = how.preemptions});
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.complete);
  std::cout << "  " << result.schedules << " schedules with at most " << how.preemptions
            << " preemptions\n";
}

operation release(std::uint32_t index, word slices, arrival how) {
  return [=](watched_segment& segment) { segment.release(index, slices, how); };
}
operation claim_and_release(size_class id, std::uint32_t index, arrival how) {
  return [=](watched_segment& segment) { segment.claim_and_release(id, index, how); };
}
operation release_and_drain(std::uint32_t index, word slices, arrival how) {
  return [=](watched_segment& segment) {
    segment.release(index, slices, how);
    segment.drain_next_use(how);
  };
}

TEST(SegmentModel, IsGivenBackOnceWhicheverReleaseIsTheLast) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const one : both) {
    for (arrival const other : both) {
      expect_all_interleavings_hold({}, {release(0, 0b01, one), release(0, 0b10, other)});
      expect_all_interleavings_hold({.blocks = 2},
                                    {release(0, 0b11, one), release(1, 0b11, other)});
    }
  }
}

TEST(SegmentModel, IsGivenBackAfterAClaimOfItsLastBlockOrBeforeIt) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    expect_all_interleavings_hold({.preemptions = 5},
                                  {release(0, 0b11, how), claim_and_release(0, 0, how)});
    expect_all_interleavings_hold({.preemptions = 3}, {release(0, 0b01, how), release(0, 0b10, how),
                                                       claim_and_release(0, 0, how)});
  }
}

TEST(SegmentModel, IsNotGivenBackWhileABlockIsRevived) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    segment_case const one_is_free{.blocks = 2, .preemptions = 3, .before = [](auto& segment) {
                                     segment.release(0, 0b11, arrival::bits_first);
                                   }};
    expect_all_interleavings_hold(one_is_free,
                                  {release(1, 0b11, how), claim_and_release(0, 0, how)});
    expect_all_interleavings_hold(one_is_free, {release(1, 0b11, how), claim_and_release(0, 0, how),
                                                claim_and_release(0, 1, how)});
  }
}

TEST(SegmentModel, AClaimerReservesInASegmentThatHasAnotherClassByThen) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    segment_case const next_begins_to_come_back{.preemptions = 4};
    expect_all_interleavings_hold(next_begins_to_come_back, {[how](watched_segment& segment) {
                                                               segment.release(0, 0b11, how);
                                                               if (segment.uses() == 1)
                                                                 segment.release(0, 0b01, how);
                                                             },
                                                             claim_and_release(0, 0, how)});
  }
}

TEST(SegmentModel, AClaimerKeepsTheNextUseWhileItReturnsWhatItReserved) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    expect_all_interleavings_hold({.preemptions = 4},
                                  {release_and_drain(0, 0b11, how), claim_and_release(0, 0, how)});
  }
}

TEST(SegmentModel, ARevivalMeetsTheNextUse) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    segment_case const one_is_free{
        .blocks = 2, .next_blocks = 2, .preemptions = 3, .before = [](auto& segment) {
          segment.release(0, 0b11, arrival::bits_first);
        }};
    expect_all_interleavings_hold(one_is_free,
                                  {release_and_drain(1, 0b11, how), claim_and_release(0, 0, how)});
    segment_case more = one_is_free;
    more.preemptions = 2;
    expect_all_interleavings_hold(more,
                                  {release_and_drain(1, 0b11, how), claim_and_release(0, 0, how),
                                   claim_and_release(1, 1, how)});
  }
}

/// The next use may have as many free blocks as a lane saw that was about to give this one back.
TEST(SegmentModel, IsNotGivenBackInItsNextUseByALaneOfThisOne) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    expect_all_interleavings_hold({.next_blocks = 2, .preemptions = 4},
                                  {release(0, 0b11, how), [how](watched_segment& segment) {
                                     segment.claim_and_release(0, 0, how);
                                     if (segment.uses() == 1) segment.release(1, 0b11, how);
                                   }});
  }
}

/// A lane that counted the last slice, and comes to look at the bits when the block is complete
/// once more: in the same use after a claim, or in the next use.
TEST(SegmentModel, WhatWasSeenOfAnEarlierEpochFreesNothing) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    auto const complete_and_free = [](watched_segment& segment) {
      block const of = segment.block_at(0);
      (void)of.at(0).release(0b11);
      segment.complete(of.add(2));
    };
    // The lane that takes it over from there frees it, as if it had completed it by returning a
    // reservation.
    expect_all_interleavings_hold({.before = complete_and_free},
                                  {[](watched_segment& segment) { segment.become_free_late(0); },
                                   [](watched_segment& segment) { segment.become_free_late(0); }});
    expect_all_interleavings_hold({.preemptions = 5, .before = complete_and_free},
                                  {[](watched_segment& segment) { segment.become_free_late(0); },
                                   claim_and_release(0, 0, how)});
    expect_all_interleavings_hold({.preemptions = 4, .before = complete_and_free},
                                  {[](watched_segment& segment) { segment.become_free_late(0); },
                                   [how](watched_segment& segment) {
                                     segment.become_free_late(0);
                                     segment.drain_next_use(how);
                                   }});
  }
}

operation claim_late(size_class id, std::uint32_t index, arrival how) {
  return [=](watched_segment& segment) { segment.claim_late(id, index, how); };
}

/// What it reserves is in use, on its way back, free, being revived, or of the next use.
TEST(SegmentModel, AClaimerThatComesLateUndoesWhatItTookFromABlockThatIsClosed) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    expect_all_interleavings_hold({.preemptions = 5},
                                  {release(0, 0b11, how), claim_late(0, 0, how)});
    expect_all_interleavings_hold({.preemptions = 4},
                                  {release_and_drain(0, 0b11, how), claim_late(0, 0, how)});
    expect_all_interleavings_hold(
        {.preemptions = 2},
        {release_and_drain(0, 0b11, how), claim_late(0, 0, how), claim_late(1, 0, how)});
    segment_case const one_is_free{
        .blocks = 2, .next_blocks = 2, .preemptions = 2, .before = [](auto& segment) {
          segment.release(0, 0b11, arrival::bits_first);
        }};
    expect_all_interleavings_hold(
        one_is_free,
        {release_and_drain(1, 0b11, how), claim_late(0, 0, how), claim_and_release(0, 0, how)});
  }
}

/// The block that it reserves in is no longer one of the segment's.
TEST(SegmentModel, AClaimerThatComesLateLeavesNothingInABlockThatTheNextUseDoesNotHave) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    segment_case const shrinks{
        .blocks = 2, .next_blocks = 1, .preemptions = 4, .before = [](auto& segment) {
          segment.release(0, 0b11, arrival::bits_first);
        }};
    expect_all_interleavings_hold(shrinks,
                                  {release_and_drain(1, 0b11, how), claim_late(0, 1, how)});
    expect_all_interleavings_hold(shrinks,
                                  {release_and_drain(1, 0b11, how), claim_late(1, 1, how)});
  }
}

/// Its undoing meets the block as it was, free for good, or prepared for its next use.
TEST(SegmentModel, ADoubleFreeIntoAFreeBlockIsUndoneBeforeItsSegmentIsGivenBackOrNotAtAll) {
  QUARRY_TEST_USES_FIBERS();
  for (arrival const how : both) {
    segment_case const one_is_free{.blocks = 2, .before = [](auto& segment) {
                                     segment.release(0, 0b11, arrival::bits_first);
                                   }};
    operation const second_free = [](watched_segment& segment) { segment.double_free(0, 0b01); };
    expect_all_interleavings_hold(one_is_free, {release(1, 0b11, how), second_free});
    segment_case more = one_is_free;
    more.preemptions = 3;
    expect_all_interleavings_hold(more,
                                  {release(1, 0b11, how), second_free, claim_late(0, 0, how)});
  }
}

}  // namespace
}  // namespace quarry::test
