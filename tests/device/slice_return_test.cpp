// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/slice_return.hpp"

#include "quarry/device/detail/run_supply.hpp"
#include "support/open_run.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace quarry {

using namespace detail;
namespace slice_return_test {

/// A heap of one segment, all of whose slices are allocated.
struct full_segment {
  explicit full_segment(std::uint32_t size)
      : owner{test::small_heap(1)}, state{test::state_of(owner)}, id{size_class_of(size)} {
    while (owner.ref().malloc(size - hardening::padded(0)) != nullptr) {
    }
  }

  [[nodiscard]] block block_of(std::uint32_t index) const {
    return state.block_at(id, 0, index / words_per_block);
  }
  /// Releases slices. Returns the slices that were free already.
  word release(std::uint32_t index, word slices) {
    auto const result = slice_return::release(state, id, state.segments[0].generation(),
                                              block_of(index), 0, index, slices);
    if (result.ends_segment) slice_return::return_segment(state, id, 0);
    return result.is_stale ? slices : result.double_freed;
  }
  /// Acts as a lane that reserved `count` slices and found none.
  void enter_and_leave(std::uint32_t block_index, std::uint32_t count) {
    block const entered = state.block_at(id, 0, block_index);
    (void)entered.reserve(count);
    slice_return::follow_late(state, 0, block_index, entered.leave(count, false));
  }
  void release_all_of_block(std::uint32_t index) {
    block const released = state.block_at(id, 0, index);
    for (std::uint32_t i = 0; i < released.words(); ++i)
      EXPECT_EQ(release(index * words_per_block + i, released.mask(i)), 0u);
  }
  [[nodiscard]] bool is_advertised(std::uint32_t block) const {
    return (state.advertised_at(0, 0).load(simt::relaxed) >> block & 1) != 0;
  }
  void expect_sound() const {
    for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
  }

  heap owner;
  heap_state& state;
  size_class id;
};

TEST(SliceReturn, AdvertisesTheBlockOfTheFirstReleasedSlice) {
  full_segment a{32};
  EXPECT_FALSE(a.is_advertised(1));
  EXPECT_EQ(a.release(words_per_block + 3, 1), 0u);
  EXPECT_TRUE(a.is_advertised(1));
  EXPECT_FALSE(a.is_advertised(0));
  EXPECT_TRUE(a.state.class_tree(a.id).contains(0));
  a.expect_sound();
}

TEST(SliceReturn, ReportsWhichSlicesWereFreeAlready) {
  full_segment a{640};
  EXPECT_EQ(a.release(0, 0b0110), 0u);
  EXPECT_EQ(a.release(0, 0b0011), 0b0010u);
  EXPECT_EQ(a.release(0, 0b0111), 0b0111u);
  EXPECT_EQ(a.block_of(0).peek().count(), 3) << "a double free is not counted";
  a.expect_sound();
}

TEST(SliceReturn, RefusesSlicesOfAFreeBlockAndChangesNothing) {
  full_segment a{32};
  a.release_all_of_block(0);
  ASSERT_TRUE(a.block_of(0).peek().is_free());
  word const old_state = a.block_of(0).peek().bits();
  EXPECT_EQ(a.release(0, 1), 1u);
  EXPECT_EQ(a.release(3, 0b1010), 0b1010u);
  EXPECT_EQ(a.block_of(0).peek().bits(), old_state);
  EXPECT_EQ(a.state.segments[0].free_blocks(), 1u);
  a.expect_sound();
}

TEST(SliceReturn, FreesABlockIfItsLastReleaseContainsDoubleFrees) {
  full_segment a{32};
  block const first = a.block_of(0);
  for (std::uint32_t i = 0; i < first.words(); ++i)
    EXPECT_EQ(a.release(i, i == 5 ? ~word{0b100} : ~word{0}), 0u);
  EXPECT_EQ(a.release(5, 0b111), 0b011u);
  EXPECT_TRUE(first.peek().is_free());
  a.expect_sound();
}

TEST(SliceReturn, RefusesSlicesOfAnEarlierUseOfTheSegmentAndChangesNothing) {
  full_segment a{640};
  std::uint32_t const stale = a.state.segments[0].generation() + 1;
  auto const result = slice_return::release(a.state, a.id, stale, a.block_of(0), 0, 0, 0b1);
  EXPECT_TRUE(result.is_stale);
  EXPECT_EQ(result.double_freed, 0u);
  EXPECT_EQ(a.block_of(0).word_at(0).peek(), 0u);
  a.expect_sound();
}

TEST(SliceReturn, TheLastLaneThatLeavesFreesTheBlock) {
  full_segment a{32};
  block const first = a.block_of(0);
  EXPECT_EQ(a.release(0, ~word{0}), 0u);
  ASSERT_EQ(block::reserved_of(first.reserve(7), 7), 7u);
  ASSERT_EQ(block::reserved_of(first.reserve(4), 4), 4u);
  for (std::uint32_t i = 1; i < first.words(); ++i) EXPECT_EQ(a.release(i, ~word{0}), 0u);
  EXPECT_FALSE(first.peek().is_free());
  slice_return::follow_late(a.state, 0, 0, first.leave(7, false));
  EXPECT_FALSE(first.peek().is_free());
  slice_return::follow_late(a.state, 0, 0, first.leave(4, false));
  EXPECT_TRUE(first.peek().is_free());
  EXPECT_EQ(a.state.segments[0].free_blocks(), 1u);
  a.expect_sound();
}

/// A late free announces a slice to a block of which no slice is free. So no lane that frees slices
/// meanwhile brings the count above zero, and none of them advertises the block.
TEST(SliceReturn, AdvertisesABlockThatALateFreeMadeFree) {
  full_segment a{32};
  block const first = a.state.block_at(a.id, 0, 0);
  (void)first.announce(1);
  a.release_all_of_block(0);
  EXPECT_FALSE(first.peek().is_free());
  slice_return::retract_announcement(a.state, 0, 0, 1);
  EXPECT_TRUE(first.peek().is_free());
  EXPECT_TRUE(a.is_advertised(0));
  a.expect_sound();
}

/// A free of a slice that was never handed out announces to a segment, which nevertheless returns
/// untouched and gets another class.
TEST(SliceReturn, ABitThatIsSetAfterTheUseEndedHidesNoSlicesOfTheNextUse) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  size_class const ended = size_class_of(32), next = size_class_of(64);
  test::open_run(state, ended);
  block const target = state.block_at(ended, 0, 0);
  (void)target.announce(1);
  ASSERT_TRUE(run_supply::reclaim(state, ended));
  test::open_run(state, next);
  slice_return::advertise_announced(state, ended, 0, 0);
  (void)target.retract(1);
  bool const is_hinted = state.advertised_at(0, 0).load(simt::relaxed) != 0;
  EXPECT_TRUE(!is_hinted || state.class_tree(next).contains(0));
}

/// As AdvertisesABlockThatALateFreeMadeFree, but the lane whose change makes the block free is a
/// claimer that found no slice.
TEST(SliceReturn, AdvertisesABlockThatAClaimerMadeFree) {
  full_segment a{32};
  block const first = a.state.block_at(a.id, 0, 0);
  (void)first.reserve(slices_per_block);
  (void)first.announce(slices_per_block + 1);
  a.release_all_of_block(0);
  slice_return::retract_announcement(a.state, 0, 0, slices_per_block + 1);
  EXPECT_FALSE(a.is_advertised(0)) << "the claimer has reserved all slices";
  slice_return::follow_late(a.state, 0, 0, first.leave(slices_per_block, false));
  EXPECT_TRUE(first.peek().is_free());
  EXPECT_TRUE(a.is_advertised(0));
  a.expect_sound();
}

TEST(SliceReturn, AdvertisesSlicesAgainThatAReservationHid) {
  full_segment a{640};
  EXPECT_EQ(a.release(0, 1), 0u);
  block const only = a.block_of(0);
  ASSERT_EQ(block::reserved_of(only.reserve(1), 1), 1u);
  slice_return::withdraw(a.state, 0, 0);
  EXPECT_TRUE(a.is_advertised(0)) << "the lane inside may return the slice";
  slice_return::follow_late(a.state, 0, 0, only.leave(1, false));
  EXPECT_TRUE(a.is_advertised(0));
  a.expect_sound();
}

TEST(SliceReturn, AdvertisesASliceToABlockWhoseCountIsNegative) {
  full_segment a{640};
  block const only = a.block_of(0);
  (void)only.reserve(3);
  EXPECT_EQ(a.release(0, 1), 0u);
  EXPECT_TRUE(a.is_advertised(0));
  slice_return::follow_late(a.state, 0, 0, only.leave(3, false));
  a.expect_sound();
}

TEST(SliceReturn, WithdrawsAnAdvertisementOnlyIfNoSliceIsFree) {
  full_segment a{640};
  (void)a.release(0, 1);
  slice_return::withdraw(a.state, 0, 0);
  EXPECT_TRUE(a.is_advertised(0)) << "withdraw checks the block again";
  a.expect_sound();
}

TEST(SliceReturn, WithdrawsALateAdvertisementOfAnEarlierUse) {
  full_segment a{640};
  size_class const other = size_class_of(48);
  slice_return::advertise(a.state, other, 0, 2);
  EXPECT_FALSE(a.is_advertised(2)) << "the segment has no such block";
  slice_return::advertise(a.state, other, 0, 0);
  EXPECT_FALSE(a.is_advertised(0)) << "no slice of the block is free";
  a.expect_sound();
}

TEST(SliceReturn, ALaneThatEntersInOneUseAndLeavesInAnotherLeavesNoTrace) {
  for (std::uint32_t const index :
       {0u, 3u}) {  // a block of the segment, and a block that it does not have
    full_segment a{640};
    block const entered = a.state.block_at(a.id, 0, index);
    (void)entered.reserve(32);
    for (std::uint32_t i = 0; index != 0 && i < a.block_of(0).words(); ++i)
      EXPECT_EQ(a.release(i, a.block_of(0).mask(i)), 0u);
    EXPECT_EQ(a.state.segment_tree().count(), index != 0 ? 1u : 0u);
    slice_return::follow_late(a.state, 0, index, entered.leave(32, false));
    EXPECT_EQ(entered.peek().count(), 0);
    EXPECT_EQ(entered.peek().lanes_inside(), 0u);
    a.expect_sound();
  }
}

TEST(SliceReturn, AdvertisesNoBlockThatTheSegmentDoesNotHave) {
  full_segment a{640};
  a.enter_and_leave(3, 5);
  EXPECT_EQ(a.state.block_at(0, 0, 3).peek().count(), 0);
  EXPECT_EQ(a.state.advertised_at(0, 0).load(simt::relaxed), 0u);
  a.expect_sound();
}

/// Four blocks belong to the segment. A slice of 640 bytes uses one of them, of 32 bytes two.
TEST(SliceReturn, AllBlocksGetTheSegmentsGenerationWhenItIsReturned) {
  full_segment a{640};
  auto& entry = a.state.segments[0];
  auto const free_all = [&](std::uint32_t size) {
    std::vector<void*> all;
    while (void* const slice = a.owner.ref().malloc(size - hardening::padded(0)))
      all.push_back(slice);
    for (void* const slice : all) heap_internals::free_now(a.owner.ref(), slice);
    ASSERT_EQ(a.state.segment_tree().count(), 1u);
    for (std::uint32_t i = 0; i < 4; ++i)
      EXPECT_EQ(a.state.block_at(0, 0, i).peek().bits(), entry.generation()) << "block " << i;
    a.expect_sound();
  };
  for (std::uint32_t i = 0; i < a.block_of(0).words(); ++i)
    EXPECT_EQ(a.release(i, a.block_of(0).mask(i)), 0u);
  free_all(640);
  free_all(32);
  free_all(640);
  EXPECT_EQ(entry.generation(), 4u);

  // a class returns the segment untouched, so three blocks keep an earlier generation
  ASSERT_TRUE(a.state.run(a.id).lock(a.state.run(a.id).peek()));
  ASSERT_TRUE(run_supply::open_run(a.state, a.id));
  a.state.run(a.id).unlock();
  ASSERT_TRUE(run_supply::reclaim(a.state, a.id));
  ASSERT_EQ(entry.load_idle_state().known_blocks(), 1u);
  ASSERT_EQ(a.state.block_at(0, 0, 3).peek().generation(), 4u);
  free_all(32);
  EXPECT_EQ(entry.generation(), 6u);
  EXPECT_EQ(a.owner.fault_count(fault_kind::double_free), 0u);
}

TEST(SliceReturn, ReturnsTheSegmentWithItsLastSliceInAnyOrderOfReleases) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    full_segment a{seed % 2 == 0 ? 32u : 640u};
    std::set<std::uint32_t> in_use;
    for (std::uint32_t slice = 0; slice < a.state.layouts[a.id].slice.slices(); ++slice)
      in_use.insert(slice);
    while (!in_use.empty()) {
      EXPECT_TRUE(a.state.segment_tree().empty());
      auto const next = in_use.lower_bound(static_cast<std::uint32_t>(random() % 2048));
      auto const slice = next == in_use.end() ? *in_use.begin() : *next;
      in_use.erase(slice);
      ASSERT_EQ(a.release(slice / bits_per_word, word{1} << slice % bits_per_word), 0u);
      if (random() % 128 == 0) a.expect_sound();
    }
    EXPECT_TRUE(a.state.segment_tree().contains(0));
    a.expect_sound();
  }
}

}  // namespace slice_return_test
}  // namespace quarry
