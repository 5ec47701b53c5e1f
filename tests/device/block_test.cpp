// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/block.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <set>
#include <string>

namespace quarry {
namespace {

/// A block of which no slice is back.
struct owned_block {
  explicit owned_block(std::uint32_t slices) : one{words.data(), state, slices}, count{slices} {
    for (std::uint32_t i = 0; i < one.words(); ++i) words[i] = one.empty(i);
  }

  [[nodiscard]] slice_word word_of(std::uint32_t slice) const {
    return one.at(slice / bits_per_word);
  }
  static word bit_of(std::uint32_t slice) { return word{1} << slice % bits_per_word; }

  /// The state after the slice came back.
  word release(std::uint32_t slice) {
    EXPECT_EQ(word_of(slice).release(bit_of(slice)) & bit_of(slice), 0u) << "slice " << slice;
    return one.add(1);
  }

  /// Whether the block became free.
  bool release_and_pass_on(std::uint32_t slice) {
    word const now = release(slice);
    return one.is_complete(now) && one.become_free(now);
  }

  bool release_all() {
    bool is_free = false;
    for (std::uint32_t slice = 0; slice < count; ++slice) is_free = release_and_pass_on(slice);
    return is_free;
  }

  /// How many of `wanted` slices are the caller's now. What it asked for too much is added again at
  /// once.
  std::uint32_t reserve(std::uint32_t wanted) {
    word const before = one.reserve(wanted);
    EXPECT_FALSE(block::is_closed(before));
    std::uint32_t const reserved = block::reserved_of(before, wanted);
    if (reserved != wanted) (void)one.add(wanted - reserved);
    return reserved;
  }

  void expect_free() const {
    EXPECT_TRUE(one.is_free());
    EXPECT_EQ(one.count(), block::free);
    for (std::uint32_t i = 0; i < one.words(); ++i)
      EXPECT_EQ(words[i], one.empty(i)) << "word " << i;
  }

  std::array<word, words_per_block> words{};
  word state = 0;
  block one;
  std::uint32_t count;
};

constexpr word one_epoch = word{1} << 32;

TEST(Block, HasAWordForEach64SlicesAndOnesWhereItHasNone) {
  owned_block const a{70};
  EXPECT_EQ(a.one.slices(), 70u);
  EXPECT_EQ(a.one.words(), 2u);
  EXPECT_EQ(a.one.empty(0), 0u);
  EXPECT_EQ(a.one.empty(1), ~low_bits(6));
  EXPECT_EQ((owned_block{1024}.one.words()), 16u);
  EXPECT_EQ((owned_block{1}.one.empty(0)), ~word{1});
}

TEST(Block, CountsWhatComesBack) {
  owned_block a{128};
  EXPECT_FALSE(a.one.has_something());
  (void)a.release(64);
  (void)a.release(3);
  EXPECT_TRUE(a.one.has_something());
  EXPECT_EQ(a.one.count(), 2);
  EXPECT_EQ(a.one.add(5), 7u);
}

TEST(Block, SaysThatNothingFollowsFromAReleaseButTheFirstAndTheLast) {
  owned_block a{128};
  EXPECT_FALSE(a.one.is_plain(a.release(0), 1)) << "the first has to be advertised";
  for (std::uint32_t slice = 1; slice < 127; ++slice)
    EXPECT_TRUE(a.one.is_plain(a.release(slice), 1)) << "slice " << slice;
  word const last = a.release(127);
  EXPECT_FALSE(a.one.is_plain(last, 1));
  EXPECT_TRUE(a.one.is_complete(last));
  EXPECT_FALSE(block::is_closed(last));
}

TEST(Block, SaysThatAReleaseOfSeveralIsTheFirst) {
  owned_block a{128};
  (void)a.one.at(0).release(0b111);
  EXPECT_FALSE(a.one.is_plain(a.one.add(3), 3));
  (void)a.one.at(0).release(0b111000);
  EXPECT_TRUE(a.one.is_plain(a.one.add(3), 3));
}

TEST(Block, BecomesFreeWhenItsLastSliceComesBack) {
  for (std::uint32_t const slices : {1u, 63u, 64u, 65u, 100u, 1024u}) {
    SCOPED_TRACE(slices);
    owned_block a{slices};
    for (std::uint32_t slice = 0; slice + 1 < slices; ++slice) {
      ASSERT_FALSE(a.release_and_pass_on(slice));
      ASSERT_FALSE(a.one.is_free());
    }
    EXPECT_TRUE(a.release_and_pass_on(slices - 1));
    a.expect_free();
  }
}

TEST(Block, DoesNotBecomeFreeBeforeAllBitsHaveArrived) {
  owned_block a{70};
  for (std::uint32_t slice = 0; slice < 69; ++slice) (void)a.release(slice);
  word const complete = a.one.add(1);
  ASSERT_TRUE(a.one.is_complete(complete));
  EXPECT_FALSE(a.one.become_free(complete)) << "the last bit is still on its way";
  EXPECT_FALSE(a.one.is_free());
  (void)a.word_of(69).release(a.bit_of(69));
  EXPECT_TRUE(a.one.become_free(complete));
  a.expect_free();
}

TEST(Block, DoesNotBecomeFreeInAnotherEpochThanItWasCompleteIn) {
  owned_block a{3};
  (void)a.release(0);
  (void)a.release(1);
  word const complete = a.release(2);
  ASSERT_EQ(a.reserve(1), 1u);
  EXPECT_FALSE(a.one.become_free(complete)) << "a slice is reserved";
  word const later = a.one.add(1);
  EXPECT_TRUE(a.one.is_complete(later));
  EXPECT_NE(later, complete);
  EXPECT_FALSE(a.one.become_free(complete)) << "bits may have been claimed and come back since";
  EXPECT_TRUE(a.one.become_free(later));
  EXPECT_FALSE(a.one.become_free(later)) << "it is free already";
  a.expect_free();
}

TEST(Block, DoesNotBecomeFreeByWhatWasSeenOfAnEarlierUse) {
  owned_block a{2};
  (void)a.release(0);
  word const complete = a.release(1);
  ASSERT_TRUE(a.one.become_free(complete));
  a.state = block::state_of_use(1);
  EXPECT_EQ(a.one.count(), 0) << "nothing is back in the next use";
  (void)a.release(0);
  (void)a.release(1);
  EXPECT_EQ(a.one.count(), 2);
  EXPECT_FALSE(a.one.become_free(complete));
}

TEST(Block, IsAsItWasWhenAReleaseThatFoundItFreeIsUndone) {
  owned_block a{64};
  ASSERT_TRUE(a.release_all());
  word const before = a.one.at(0).release(0b11);
  word const now = a.one.add(2);
  ASSERT_TRUE(block::is_closed(now));
  a.one.at(0).take_back(0b11 & ~before);
  EXPECT_EQ(a.one.undo(now, 2), now - 2);
  a.expect_free();
  EXPECT_NE(a.one.revive(1), 0u);
}

TEST(Block, IsAsItWasWhenAReservationThatFoundItFreeIsUndone) {
  owned_block a{64};
  ASSERT_TRUE(a.release_all());
  word const before = a.one.reserve(5);
  ASSERT_TRUE(block::is_closed(before));
  EXPECT_TRUE(a.one.is_free());
  EXPECT_TRUE(a.one.has_something()) << "its advertisement stays";
  EXPECT_NE(a.one.undo(before, -5), 0u);
  a.expect_free();
  EXPECT_NE(a.one.revive(1), 0u);
}

TEST(Block, IsNotRevivedWhileSomethingIsToBeUndone) {
  owned_block a{64};
  ASSERT_TRUE(a.release_all());
  word const released = a.one.add(1);
  EXPECT_EQ(a.one.revive(1), 0u);
  EXPECT_TRUE(a.one.has_something()) << "its advertisement stays";
  EXPECT_NE(a.one.undo(released, 1), 0u);
  word const before = a.one.reserve(1);
  EXPECT_EQ(a.one.revive(1), 0u);
  EXPECT_NE(a.one.undo(before, -1), 0u);
  EXPECT_EQ(a.one.revive(1), 1u);
}

/// Whoever was reviving the block when the reservation came may finish before it is undone.
TEST(Block, IsOpenWithAllItsSlicesOnceAReservationFromBeforeItsRevivalIsUndone) {
  owned_block a{70};
  ASSERT_TRUE(a.release_all());
  word const before = a.one.reserve(4);
  for (std::uint32_t i = 0; i < a.one.words(); ++i) a.words[i] = ~word{0};
  a.state += one_epoch + 70 - block::free;
  word const now = a.one.undo(before, -4);
  EXPECT_TRUE(a.one.is_complete(now)) << "who undid it makes the block free";
  EXPECT_TRUE(a.one.become_free(now));
}

TEST(Block, HasNothingToUndoInItsNextUse) {
  for (word const claims : {0u, 1u, 200'000u, 1u << 18, 3u << 20}) {  // of the earlier use
    for (std::uint32_t const use : {0u, 1u, 1000u, 16383u, 16384u, ~0u}) {
      SCOPED_TRACE("use " + std::to_string(use) + " claims " + std::to_string(claims));
      owned_block a{64};
      a.state = block::state_of_use(use) + claims * one_epoch;
      ASSERT_TRUE(a.release_all());
      word const released = a.one.add(1);
      word const before = a.one.reserve(5);
      a.state = block::state_of_use(use + 1);
      EXPECT_EQ(a.one.undo(before, -5), 0u);
      EXPECT_EQ(a.one.undo(released, 1), 0u);
      EXPECT_EQ(a.state, block::state_of_use(use + 1));
    }
  }
}

TEST(Block, ReservesNoMoreThanIsThere) {
  owned_block a{128};
  EXPECT_EQ(a.reserve(1), 0u);
  for (std::uint32_t slice = 60; slice < 70; ++slice) (void)a.release(slice);
  EXPECT_EQ(a.reserve(4), 4u);
  EXPECT_EQ(a.reserve(32), 6u);
  EXPECT_EQ(a.reserve(32), 0u);
  EXPECT_FALSE(a.one.has_something()) << "its bits are all spoken for";
}

TEST(Block, CountsLessThanNothingWhileMoreIsReservedThanIsThere) {
  owned_block a{128};
  (void)a.release(0);
  EXPECT_EQ(block::reserved_of(a.one.reserve(32), 32), 1u);
  EXPECT_EQ(block::reserved_of(a.one.reserve(32), 32), 0u);
  EXPECT_EQ(a.one.count(), -63);
  EXPECT_FALSE(a.one.has_something());
  EXPECT_FALSE(a.one.is_free());
  EXPECT_FALSE(block::is_closed(a.one.peek()));
  EXPECT_FALSE(a.one.is_plain(a.release(1), 1)) << "whether it counts for anything is seen later";
}

TEST(Block, IsAdvertisedByWhoeverBringsItsCountAboveZero) {
  owned_block a{128};
  (void)a.one.reserve(10);
  for (std::uint32_t slice = 0; slice < 4; ++slice)
    EXPECT_FALSE(block::has_slices(a.release(slice)));
  word const above = a.one.add(10);
  EXPECT_TRUE(block::has_slices(above));
  EXPECT_FALSE(a.one.is_plain(above, 10)) << "the count was -6 before";
  EXPECT_TRUE(a.one.is_plain(a.release(4), 1)) << "the count was 4 before";
}

/// An epoch lies above the count, which goes below zero and comes back: no carry may be lost or
/// left.
TEST(Block, BeginsAnEpochWithEachReservation) {
  owned_block a{128};
  for (std::uint32_t slice = 0; slice < 10; ++slice) (void)a.release(slice);
  (void)a.one.reserve(1);
  (void)a.one.reserve(2);
  EXPECT_EQ(a.state, 2 * one_epoch + 7);
  (void)a.one.reserve(20);
  (void)a.one.reserve(20);
  (void)a.one.add(20);
  (void)a.one.add(20);
  EXPECT_EQ(a.state, 4 * one_epoch + 7);
}

TEST(Block, DoesNotBecomeFreeByWhatWasSeenBeforeAnOverReservation) {
  owned_block a{3};
  for (std::uint32_t slice = 0; slice < 2; ++slice) (void)a.release(slice);
  word const complete = a.release(2);
  (void)a.one.reserve(7);
  EXPECT_FALSE(a.one.become_free(complete));
  word const later = a.one.add(7);
  EXPECT_TRUE(a.one.is_complete(later));
  EXPECT_FALSE(a.one.become_free(complete));
  EXPECT_TRUE(a.one.become_free(later));
}

TEST(Block, IsClosedToReservationsWhenItIsFree) {
  owned_block a{64};
  ASSERT_TRUE(a.release_all());
  EXPECT_TRUE(block::is_closed(a.one.peek()));
  EXPECT_FALSE(block::has_slices(a.one.peek()));
  EXPECT_TRUE(a.one.has_something());
}

TEST(Block, CannotBecomeFreeWhileASliceIsReserved) {
  owned_block a{128};
  for (std::uint32_t slice = 0; slice < 64; ++slice) (void)a.release(slice);
  ASSERT_EQ(a.reserve(1), 1u);
  for (std::uint32_t slice = 64; slice < 128; ++slice)
    EXPECT_FALSE(a.one.is_complete(a.release(slice)));
  word const now = a.one.add(1);
  EXPECT_TRUE(a.one.is_complete(now)) << "the reservation was given up";
  EXPECT_TRUE(a.one.become_free(now));
}

TEST(Block, IsRevivedWithAllSlicesBackButThoseTaken) {
  owned_block a{70};
  ASSERT_TRUE(a.release_all());
  EXPECT_EQ(a.one.revive(3), 0b111u);
  EXPECT_FALSE(a.one.is_free());
  EXPECT_EQ(a.words[0], ~word{0b111});
  EXPECT_EQ(a.words[1], ~word{0});
  EXPECT_EQ(a.one.count(), 67);
  EXPECT_TRUE(a.one.has_something());
  EXPECT_EQ(a.one.revive(1), 0u) << "it is not free any more";
}

TEST(Block, IsRevivedWithFewerSlicesThanAskedForIfItsWordHasFewer) {
  owned_block a{5};
  ASSERT_TRUE(a.release_all());
  EXPECT_EQ(a.one.revive(32), 0b11111u);
  EXPECT_FALSE(a.one.has_something());
  EXPECT_EQ(a.words[0], a.one.empty(0));
}

TEST(Block, IsFreeWhenNoneOfItsSlicesWasEverUsed) {
  owned_block a{100};
  a.one.retire_unused();
  a.expect_free();
  EXPECT_EQ(a.one.revive(1), 1u);
}

/// A set of slices in use, against the block.
TEST(Block, DoesWhatASetOfSlicesDoes) {
  for (std::uint32_t const slices : {1u, 7u, 64u, 70u, 200u}) {
    std::uint64_t const seed = 31 + slices;
    SCOPED_TRACE("slices " + std::to_string(slices) + " seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    owned_block a{slices};
    std::set<std::uint32_t> in_use;
    for (std::uint32_t slice = 0; slice < slices; ++slice) in_use.insert(slice);
    for (int step = 0; step < 3000; ++step) {
      if (!in_use.empty() && random() % 5 < 3) {
        auto const slice =
            *std::next(in_use.begin(), static_cast<std::ptrdiff_t>(random() % in_use.size()));
        in_use.erase(slice);
        EXPECT_EQ(a.release_and_pass_on(slice), in_use.empty());
      } else if (in_use.empty()) {
        ASSERT_EQ(a.one.revive(1), 1u);
        in_use.insert(0);
      } else {
        auto const index = static_cast<std::uint32_t>(random() % a.one.words());
        word const wanted = lowest_ones(a.one.at(index).peek() & ~a.one.empty(index), 3);
        if (wanted == 0) continue;
        ASSERT_EQ(a.reserve(count_ones(wanted)), count_ones(wanted));
        ASSERT_EQ(a.one.at(index).claim(wanted), wanted);
        for (word rest = wanted; rest != 0; rest &= rest - 1)
          EXPECT_TRUE(in_use.insert(index * bits_per_word + lowest_one(rest)).second);
      }
      ASSERT_EQ(a.one.is_free(), in_use.empty());
      ASSERT_EQ(a.one.has_something(), in_use.size() < slices);
      ASSERT_EQ(a.one.count(),
                in_use.empty() ? block::free : static_cast<std::int32_t>(slices - in_use.size()));
    }
  }
}

TEST(Block, LetsWhoReservesSeeWhatItsReviverDid) {
  for (int round = 0; round < 200; ++round) {
    owned_block a{3};
    a.one.retire_unused();
    int written = 0;
    simt::launch_threads({1, 2}, 2, [&] {
      if (simt::this_place().thread == 0) {
        written = 1;
        EXPECT_EQ(a.one.revive(1), 1u);
      } else {
        while (!block::has_slices(a.one.peek())) simt::pause();
        EXPECT_EQ(block::reserved_of(a.one.reserve(1), 1), 1u);
        EXPECT_EQ(written, 1);
      }
    });
  }
}

TEST(Block, LetsItsReviverSeeWhatItsReleasersDid) {
  for (int round = 0; round < 200; ++round) {
    owned_block a{2};
    std::array<int, 2> written{};
    simt::launch_threads({1, 3}, 3, [&] {
      std::uint32_t const thread = simt::this_place().thread;
      if (thread < 2) {
        written[thread] = 1;
        (void)a.release_and_pass_on(thread);
      } else {
        while (a.one.revive(1) == 0) simt::pause();
        EXPECT_EQ(written[0] + written[1], 2);
      }
    });
  }
}

/// Threads that claim slices of one block, write to them plainly, and give them back. A block that
/// becomes free is revived by whoever takes it from `free_blocks`, as from its segment.
class contested_block {
 public:
  static constexpr std::uint32_t slices = 3;

  contested_block() { one_.retire_unused(); }

  void work(int steps) {
    for (int step = 0; step < steps; ++step) {
      word const taken = one_.is_free() ? revive() : claim();
      for (word rest = taken; rest != 0; rest &= rest - 1)
        wrong_ += std::exchange(in_use_[lowest_one(rest)], true) ? 1 : 0;
      for (word rest = taken; rest != 0; rest &= rest - 1) in_use_[lowest_one(rest)] = false;
      if (taken == 0) {
        simt::pause();
        continue;
      }
      wrong_ += (one_.at(0).release(taken) & taken) != 0 ? 1 : 0;
      pass_on(one_.add(count_ones(taken)));
    }
  }

  void expect_free() const {
    EXPECT_EQ(wrong_, 0u);
    EXPECT_TRUE(one_.is_free());
    EXPECT_EQ(words_[0], one_.empty(0));
    EXPECT_EQ(free_blocks_, 1u);
  }

 private:
  word revive() {
    word expected = 1;
    simt::atomic_ref<word> const free_blocks{free_blocks_};
    if (!free_blocks.compare_exchange(expected, 0, simt::acquire)) return 0;
    word const taken = one_.revive(1);
    if (taken == 0) free_blocks.fetch_add(1, simt::release);
    return taken;
  }

  word claim() {
    word const before = one_.reserve(2);
    if (block::is_closed(before)) {
      word const undone = one_.undo(before, -2);
      if (!block::is_closed(undone)) pass_on(undone);
      return 0;
    }
    std::uint32_t const reserved = block::reserved_of(before, 2);
    word const taken = one_.at(0).claim(lowest_ones(one_.at(0).peek() & ~one_.empty(0), reserved));
    if (std::uint32_t const rest = 2 - count_ones(taken); rest != 0) pass_on(one_.add(rest));
    return taken;
  }

  void pass_on(word now) {
    if (one_.is_complete(now) && one_.become_free(now))
      simt::atomic_ref<word>{free_blocks_}.fetch_add(1, simt::release);
  }

  std::array<word, words_per_block> words_{~low_bits(slices)};
  word state_ = 0;
  word free_blocks_ = 1;
  block one_{words_.data(), state_, slices};
  std::array<bool, slices> in_use_{};
  std::atomic<std::uint32_t> wrong_{0};
};

TEST(Block, GivesEachSliceToOneThreadWhichSeesWhatItsOldOwnerDid) {
  contested_block contested;
  simt::launch_threads({4, 1}, 4, [&] { contested.work(4000); });
  contested.expect_free();
}

}  // namespace
}  // namespace quarry
