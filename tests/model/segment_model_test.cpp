// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of lanes that free, claim and revive blocks of a segment, and return it
// for its next use. This is the protocol of slice_return and slice_claim without their hints. Each
// block has two slices.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/detail/block.hpp"
#include "quarry/device/detail/segment_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace segment_model_test {

constexpr std::uint32_t slices_each = 2;
constexpr std::uint32_t max_blocks = 2;
constexpr std::uint32_t reserved_at_once = 2;  // often more than are free
constexpr std::uint32_t first_generation = 0;

/// A segment of one or two blocks, all of whose slices are in use. The lane that returns the
/// segment ends its use and begins the next use: for another class, with `next_blocks` blocks,
/// whose slices all belong to that lane. The first use has class 0 and generation 0, the next use
/// class 1 and generation 1.
class watched_segment {
 public:
  watched_segment(std::uint32_t blocks, std::uint32_t next_blocks)
      : blocks_{blocks}, next_blocks_{next_blocks} {
    entry_.store(segment_use::slices_of(0, first_generation));
  }

  /// Releases `slices` of a block, which belong to the caller.
  void release(std::uint32_t index, word slices) {
    if (!free(entry_.load().generation(), index, slices))
      problem_ = "a release of a slice in use was refused";
  }

  /// One of several frees of the same slices of the first use, by a lane that read the segment's
  /// entry in that use. One free must succeed.
  void free_once(std::uint32_t index, word slices) {
    ++frees_;
    if (free(first_generation, index, slices)) ++successes_;
  }

  /// Frees slices a second time, at any time after the first free has returned, as a lane that read
  /// the segment's entry before.
  void double_free(std::uint32_t index, word slices) {
    if (free(first_generation, index, slices)) problem_ = "a double free was not reported";
  }

  /// Acts as a lane that knows the segment as a segment of class `id`: takes slices, uses them, and
  /// releases them. As slice_claim::claim_in_block.
  void claim_and_release(size_class id, std::uint32_t index) {
    segment_use const use = entry_.load();
    word const taken = use.is_slices_of(id) ? claim(id, use.generation(), index) : 0;
    for (word rest = taken; rest != 0; rest &= rest - 1) hold(index, lowest_one(rest), true);
    if (taken == 0) return;
    simt::interleave();
    if (!(entry_.load() == use))
      problem_ = "a segment changed its class under a lane that holds a slice";
    for (word rest = taken; rest != 0; rest &= rest - 1) hold(index, lowest_one(rest), false);
    release(index, taken);
  }

  /// Acts as a lane that saw slices in `generation` and continues only now.
  void claim_late(std::uint32_t generation, std::uint32_t index) {
    word const taken = claim_from_used(generation, index);
    if (taken == 0) return;
    if (entry_.load().generation() != generation) problem_ = "a claimer got slices of another use";
    release(index, taken);
  }

  /// Frees as a lane that knows the segment by a use before the first use.
  void free_late(std::uint32_t index) {
    if (free(block_state::last_generation, index, 1)) problem_ = "a late free was not reported";
  }

  /// Acts as a claimer that finds none of its reserved slices. It must not touch slices that other
  /// lanes free twice.
  void claim_nothing(std::uint32_t index) {
    (void)block_at(index).reserve(reserved_at_once);
    follow_late(index, block_at(index).leave(reserved_at_once, false));
  }

  /// Releases all slices of the next use, if it has begun, as the lane that owns them.
  void drain_next_use() {
    if (uses_ != 1 || std::exchange(is_drained_, true)) return;
    for (std::uint32_t index = 0; index < next_blocks_; ++index) release(index, 0b11);
  }

  /// Acts as a lane that saw the block complete in the first use, and closes it only now.
  void close_late(std::uint32_t index, block_state complete) {
    if (block_at(index).close(complete)) add_free_block();
  }

  /// As run_segments::return_untouched, for a segment without allocations.
  void return_untouched() {
    is_untouched_ = true;
    entry_.store(segment_use::free_use());
    auto const rest = entry_.load_idle_state();
    std::uint32_t const next = block_state::next_generation(rest.generation());
    for (std::uint32_t index = 0; index < blocks_; ++index)
      block_at(index).change_generation(rest.generation(), next);
    entry_.begin_generation(rest, blocks_);
    begin_next_use();
  }

  [[nodiscard]] block block_at(std::uint32_t index) {
    return {&words_[index], states_[index], slices_each};
  }
  [[nodiscard]] std::uint32_t uses() const { return uses_; }

  /// The first problem when no lane runs and no slice of the first use is in use; empty if there is
  /// none.
  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (frees_ != 0 && successes_ != 1)
      return std::to_string(frees_) + " lanes freed one slice " + std::to_string(successes_) +
             " times";
    if (uses_ != (is_drained_ ? 2 : 1))
      return "the segment was returned " + std::to_string(uses_) + " times";
    std::uint32_t free_blocks = 0;
    for (std::uint32_t index = 0; index < max_blocks; ++index) {
      block_state const state = block_at(index).peek();
      std::int32_t const free_slices =
          state.is_free() ? 0 : static_cast<std::int32_t>(count_ones(words_[index]));
      if (state.is_free()) ++free_blocks;
      if (state.count() != free_slices || state.lanes_inside() != 0 ||
          state.is_closed() != state.is_free())
        return "block " + std::to_string(index) + " counts " + std::to_string(state.count()) +
               " free slices of " + std::to_string(free_slices);
      if (index < blocks_ && state.generation() != uses_)
        return "block " + std::to_string(index) + " has generation " +
               std::to_string(state.generation());
    }
    if (entry_.free_blocks() != free_blocks) return "the segment's count of free blocks is wrong";
    return "";
  }

 private:
  void hold(std::uint32_t index, std::uint32_t slice, bool held) {
    if (std::exchange(held_[index][slice], held) == held) problem_ = "a slice has two owners";
  }

  /// As slice_return::release and the functions that it calls. Returns whether all slices were in
  /// use.
  bool free(std::uint32_t generation, std::uint32_t index, word slices) {
    block const owner = block_at(index);
    block_state const old_state = owner.announce(count_ones(slices));
    if (!old_state.is_open_in(generation)) {
      follow_late(index, owner.retract(count_ones(slices)));
      return false;
    }
    word const old = owner.word_at(0).release(slices);
    word const already_free = old & slices;
    bool const fills_word = old != owner.mask(0) && (old | slices) == owner.mask(0);
    block_state state =
        fills_word ? owner.count_full_words(1)
                   : block_state{old_state.bits() + count_ones(slices) * block_state::one_slice};
    if (already_free != 0) state = owner.retract(count_ones(already_free));
    if (state.generation() == generation && owner.close(state)) add_free_block();
    return already_free == 0;
  }

  /// As slice_return::follow_late.
  void follow_late(std::uint32_t index, block_state state) {
    segment_use const use = entry_.load();
    if (use.is_slices() && use.generation() == state.generation() && index < blocks_)
      if (block_at(index).close(state)) add_free_block();
  }

  void add_free_block() {
    if (entry_.add_free_blocks(1, blocks_)) return_segment();
  }

  /// As slice_return::return_segment and run_segments::format_run.
  void return_segment() {
    for (std::uint32_t index = 0; index < blocks_; ++index) {
      if (!block_state{states_[index]}.is_free())
        problem_ = "the segment was returned while a slice was in use";
      for (bool const held : held_[index]) {
        if (held) problem_ = "the segment was returned while a lane owned a slice";
      }
    }
    entry_.store(segment_use::free_use());
    auto const ended = entry_.load_idle_state();
    std::uint32_t const next = block_state::next_generation(ended.generation());
    for (std::uint32_t index = 0; index < max_blocks; ++index)
      block_at(index).renew(
          ended.knows(max_blocks) ? ended.generation() : block_at(index).generation(), next,
          index < blocks_);
    for (std::uint32_t index = 0; index < blocks_; ++index) block_at(index).word_at(0).reset(0);
    entry_.end_retirement(ended);
    begin_next_use();
  }

  /// As run_segments::format_run.
  void begin_next_use() {
    auto const rest = entry_.load_idle_state();
    blocks_ = next_blocks_;
    entry_.store(segment_use::slices_of(uses_ + 1, rest.generation()));
    for (std::uint32_t index = rest.knows(blocks_) ? blocks_ : rest.known_blocks(); index < blocks_;
         ++index)
      block_at(index).change_generation(block_at(index).generation(), rest.generation());
    ++uses_;  // its slices are allocated
  }

  word claim(size_class id, std::uint32_t generation, std::uint32_t index) {
    block_state const seen = block_at(index).peek();
    if (seen.is_free()) return revive(id, index);
    return seen.has_slices() ? claim_from_used(generation, index) : 0;
  }

  word claim_from_used(std::uint32_t generation, std::uint32_t index) {
    block const source = block_at(index);
    block_state const old_state = source.reserve(reserved_at_once);
    bool const may_take = old_state.is_open_in(generation);
    std::uint32_t const reserved = may_take ? block::reserved_of(old_state, reserved_at_once) : 0;
    word taken = 0;
    bool was_full = false;
    if (reserved != 0) {
      word const wanted = lowest_ones(source.word_at(0).peek(), reserved);
      if (wanted != 0) {
        word const old = source.word_at(0).claim(wanted);
        taken = old & wanted;
        was_full = taken != 0 && old == source.mask(0);
      }
      if (entry_.load().generation() != generation && !is_untouched_)
        problem_ = "a segment was returned while a lane was inside";
    }
    std::uint32_t const rest = reserved_at_once - count_ones(taken);
    block_state const state = source.leave(rest, was_full);
    if (rest != 0 && state.count() > 0) follow_late(index, state);
    if (taken == 0 || state.generation() == generation) return taken;
    release(index, taken);
    return 0;
  }

  word revive(size_class id, std::uint32_t index) {
    if (!entry_.reserve_free_block()) return 0;
    segment_use const use = entry_.load();
    if (!use.is_slices()) problem_ = "a segment was returned while a block was reserved";
    word const taken = use.is_slices_of(id) ? block_at(index).revive(1) : 0;
    if (taken == 0) add_free_block();
    return taken;
  }

  segment_entry entry_{};
  std::array<word, max_blocks> words_{};
  std::array<word, max_blocks> states_{};
  std::array<std::array<bool, slices_each>, max_blocks> held_{};
  std::uint32_t blocks_;
  std::uint32_t next_blocks_;
  std::uint32_t uses_ = 0;
  std::uint32_t frees_ = 0;
  std::uint32_t successes_ = 0;
  bool is_drained_ = false;
  bool is_untouched_ = false;
  std::string problem_;
};

using operation = std::function<void(watched_segment&)>;

struct segment_case {
  std::uint32_t blocks = 1;
  std::uint32_t next_blocks = 1;
  std::uint32_t preemptions = 100;
  operation setup = [](watched_segment&) {};
};

void expect_all_interleavings_hold(segment_case const& parameters,
                                   std::vector<operation> const& lanes) {
  expect_all_schedules_hold(
      [&] {
        auto const observed =
            std::make_shared<watched_segment>(parameters.blocks, parameters.next_blocks);
        parameters.setup(*observed);
        scenario run;
        for (operation const& lane : lanes)
          run.lanes.emplace_back([observed, &lane] { lane(*observed); });
        run.check = [observed] { return observed->check(); };
        return run;
      },
      {.preemptions = parameters.preemptions});
}

operation release(std::uint32_t index, word slices) {
  return [=](watched_segment& segment) { segment.release(index, slices); };
}
operation free_once(std::uint32_t index, word slices) {
  return [=](watched_segment& segment) { segment.free_once(index, slices); };
}
operation double_free(std::uint32_t index, word slices) {
  return [=](watched_segment& segment) { segment.double_free(index, slices); };
}
operation claim_and_release(size_class id, std::uint32_t index) {
  return [=](watched_segment& segment) { segment.claim_and_release(id, index); };
}
operation claim_late(std::uint32_t generation, std::uint32_t index) {
  return [=](watched_segment& segment) { segment.claim_late(generation, index); };
}
operation claim_nothing(std::uint32_t index) {
  return [=](watched_segment& segment) { segment.claim_nothing(index); };
}
operation release_and_drain(std::uint32_t index, word slices) {
  return [=](watched_segment& segment) {
    segment.release(index, slices);
    segment.drain_next_use();
  };
}
operation free_once_and_drain(std::uint32_t index, word slices) {
  return [=](watched_segment& segment) {
    segment.free_once(index, slices);
    segment.drain_next_use();
  };
}

/// Two blocks. The first block is free.
segment_case one_is_free(std::uint32_t preemptions, std::uint32_t next_blocks = 1) {
  return {.blocks = 2,
          .next_blocks = next_blocks,
          .preemptions = preemptions,
          .setup = [](auto& segment) { segment.release(0, 0b11); }};
}

TEST(SegmentModel, IsReturnedOnceWhicheverReleaseIsTheLast) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({}, {release(0, 0b01), release(0, 0b10)});
  expect_all_interleavings_hold({.blocks = 2, .preemptions = 6},
                                {release(0, 0b11), release(1, 0b11)});
}

TEST(SegmentModel, IsReturnedBeforeOrAfterAClaimOfItsLastBlock) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.preemptions = 5}, {release(0, 0b11), claim_and_release(0, 0)});
  expect_all_interleavings_hold({.preemptions = 3},
                                {release(0, 0b01), release(0, 0b10), claim_and_release(0, 0)});
}

TEST(SegmentModel, IsNotReturnedWhileABlockIsRevived) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(one_is_free(3), {release(1, 0b11), claim_and_release(0, 0)});
  expect_all_interleavings_hold(
      one_is_free(3), {release(1, 0b11), claim_and_release(0, 0), claim_and_release(0, 1)});
}

TEST(SegmentModel, AClaimerLeavesASegmentThatChangedItsClass) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.preemptions = 4}, {[](watched_segment& segment) {
                                                       segment.release(0, 0b11);
                                                       if (segment.uses() == 1)
                                                         segment.release(0, 0b01);
                                                     },
                                                     claim_and_release(0, 0)});
}

TEST(SegmentModel, AClaimerKeepsTheNextUseWhileItReturnsItsReservation) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.preemptions = 4},
                                {release_and_drain(0, 0b11), claim_and_release(0, 0)});
}

TEST(SegmentModel, ARevivalLeavesTheNextUseIntact) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(one_is_free(3, 2),
                                {release_and_drain(1, 0b11), claim_and_release(0, 0)});
  expect_all_interleavings_hold(
      one_is_free(2, 2),
      {release_and_drain(1, 0b11), claim_and_release(0, 0), claim_and_release(1, 1)});
}

/// A lane is about to return the segment when it has a certain number of free blocks. The next use
/// may reach the same number.
TEST(SegmentModel, ALaneOfOneUseDoesNotReturnTheNextUse) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.next_blocks = 2, .preemptions = 4},
                                {release(0, 0b11), [](watched_segment& segment) {
                                   segment.claim_and_release(0, 0);
                                   if (segment.uses() == 1) segment.release(1, 0b11);
                                 }});
}

/// A lane saw the block complete, and closes it when it is complete again: in the same use after a
/// claim, or in the next use.
TEST(SegmentModel, AStaleStateFreesNothing) {
  QUARRY_TEST_USES_FIBERS();
  auto const complete = [](watched_segment& segment) {
    (void)segment.block_at(0).announce(2);
    (void)segment.block_at(0).word_at(0).release(0b11);
    (void)segment.block_at(0).count_full_words(1);
  };
  operation const close_stale = [](watched_segment& segment) {
    segment.close_late(
        0, block_state{first_generation + block_state::one_full_word + 2 * block_state::one_slice});
  };
  expect_all_interleavings_hold({.setup = complete}, {close_stale, close_stale});
  expect_all_interleavings_hold({.preemptions = 5, .setup = complete},
                                {close_stale, claim_and_release(0, 0)});
  expect_all_interleavings_hold({.preemptions = 4, .setup = complete},
                                {close_stale, [close_stale](watched_segment& segment) {
                                   close_stale(segment);
                                   segment.drain_next_use();
                                 }});
}

/// The claimer's block is in use, being returned, free, being revived, or in the next use.
TEST(SegmentModel, ALateClaimerLeavesAClosedBlockUnchanged) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.preemptions = 5}, {release(0, 0b11), claim_late(0, 0)});
  expect_all_interleavings_hold({.preemptions = 4}, {release_and_drain(0, 0b11), claim_late(0, 0)});
  expect_all_interleavings_hold({.preemptions = 2},
                                {release_and_drain(0, 0b11), claim_late(0, 0), claim_late(1, 0)});
  expect_all_interleavings_hold(
      one_is_free(2, 2), {release_and_drain(1, 0b11), claim_late(0, 0), claim_and_release(0, 0)});
}

TEST(SegmentModel, LateClaimersOfTwoUsesLoseNoSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.preemptions = 2}, {release_and_drain(0, 0b11), claim_late(0, 0),
                                                     claim_late(0, 0), claim_late(1, 0)});
}

/// The claimer's block no longer belongs to the segment.
TEST(SegmentModel, ALateClaimerLeavesNothingInABlockThatTheNextUseDoesNotHave) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(one_is_free(4), {release_and_drain(1, 0b11), claim_late(0, 1)});
  expect_all_interleavings_hold(one_is_free(4), {release_and_drain(1, 0b11), claim_late(1, 1)});
}

/// Claimers are inside, or arrive, while a segment without allocations is returned.
TEST(SegmentModel, ClaimersLeaveASegmentThatIsReturnedUntouched) {
  QUARRY_TEST_USES_FIBERS();
  operation const return_untouched = [](watched_segment& segment) { segment.return_untouched(); };
  operation const return_untouched_and_drain = [](watched_segment& segment) {
    segment.return_untouched();
    segment.drain_next_use();
  };
  expect_all_interleavings_hold({.preemptions = 6}, {return_untouched, claim_late(0, 0)});
  expect_all_interleavings_hold({.preemptions = 3},
                                {return_untouched, claim_late(0, 0), claim_late(0, 0)});
  expect_all_interleavings_hold({.preemptions = 3}, {return_untouched_and_drain, claim_late(0, 0)});
  expect_all_interleavings_hold({.blocks = 2, .next_blocks = 2, .preemptions = 3},
                                {return_untouched_and_drain, claim_late(0, 1), claim_late(1, 0)});
  // A late free announces slices and retracts the announcement. Meanwhile a claimer may enter.
  for (std::uint32_t index = 0; index < 2; ++index) {
    operation const free_late = [index](watched_segment& segment) { segment.free_late(index); };
    expect_all_interleavings_hold({.blocks = 2, .next_blocks = 2, .preemptions = 3},
                                  {return_untouched_and_drain, claim_late(0, index), free_late});
    expect_all_interleavings_hold({.blocks = 1, .next_blocks = 2, .preemptions = 3},
                                  {return_untouched_and_drain, claim_late(0, index), free_late});
  }
}

/// The second free finds its block in use, free, or in the next use of the segment.
TEST(SegmentModel, OneOfSeveralFreesOfASliceSucceedsInAnyUseOfTheSegment) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold({.preemptions = 5}, {free_once(0, 0b11), free_once(0, 0b11)});
  expect_all_interleavings_hold(one_is_free(4), {free_once(1, 0b11), free_once(1, 0b11)});
  expect_all_interleavings_hold({.preemptions = 4},
                                {free_once_and_drain(0, 0b11), free_once(0, 0b11)});
  expect_all_interleavings_hold(
      {.preemptions = 3}, {free_once_and_drain(0, 0b11), free_once(0, 0b11), claim_nothing(0)});
  expect_all_interleavings_hold(
      {.preemptions = 2},
      {free_once_and_drain(0, 0b11), free_once(0, 0b11), free_once(0, 0b11), claim_nothing(0)});
  expect_all_interleavings_hold(
      one_is_free(2, 2),
      {free_once_and_drain(1, 0b11), free_once(1, 0b11), claim_nothing(1), claim_nothing(1)});
}

TEST(SegmentModel, ADoubleFreeIntoAFreeBlockChangesNothing) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(one_is_free(100), {release(1, 0b11), double_free(0, 0b01)});
  expect_all_interleavings_hold(one_is_free(3),
                                {release(1, 0b11), double_free(0, 0b01), claim_late(0, 0)});
  expect_all_interleavings_hold(one_is_free(3, 2),
                                {release_and_drain(1, 0b11), double_free(0, 0b01)});
}

}  // namespace segment_model_test
}  // namespace quarry::test
