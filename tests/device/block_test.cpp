// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/block.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace quarry {

using namespace detail;
namespace block_test {

/// A block in `generation`, all of whose slices are in use.
struct owned_block {
  explicit owned_block(std::uint32_t slices, std::uint32_t generation = 0)
      : state{generation}, tested{words.data(), state, slices}, count{slices} {}

  [[nodiscard]] slice_word word_of(std::uint32_t slice) const {
    return tested.word_at(slice / bits_per_word);
  }
  static word bit_of(std::uint32_t slice) { return word{1} << slice % bits_per_word; }
  [[nodiscard]] block_state current() const { return tested.peek(); }

  /// Sets the slice's bit. Returns the new state, as the releasing lane sees it.
  block_state set_bit(std::uint32_t slice) {
    word const full = tested.mask(slice / bits_per_word);
    word const old = word_of(slice).release(bit_of(slice));
    EXPECT_EQ(old & bit_of(slice), 0u) << "slice " << slice;
    return (old | bit_of(slice)) == full ? tested.count_full_words(1) : tested.peek();
  }

  /// Releases a slice. Returns the new state, as the releasing lane sees it; nullopt if the slice
  /// was not in use. Lanes may call it at the same time.
  std::optional<block_state> release_slice(std::uint32_t slice) {
    EXPECT_TRUE(tested.announce(1).is_open_in(current().generation()));
    if ((word_of(slice).peek() & bit_of(slice)) != 0) {
      (void)word_of(slice).release(bit_of(slice));
      (void)tested.retract(1);
      return std::nullopt;
    }
    return set_bit(slice);
  }
  /// The same. Returns whether the slice was in use.
  bool release(std::uint32_t slice) { return release_slice(slice).has_value(); }

  /// Releases a slice that is in use. Returns whether the block became free.
  bool release_and_synchronize(std::uint32_t slice) {
    auto const state_after = release_slice(slice);
    EXPECT_TRUE(state_after.has_value()) << "slice " << slice;
    return state_after && tested.close(*state_after);
  }

  /// Opens the free block for the next use of its segment, as slice_return::renew_blocks.
  void renew(std::uint32_t generation) {
    tested.renew(generation, block_state::next_generation(generation), true);
    for (std::uint32_t i = 0; i < tested.words(); ++i) tested.word_at(i).reset(0);
  }

  /// Takes slices of a word as a claimer that is inside. Returns whether the word was full.
  bool take(std::uint32_t index, word slices) {
    word const old_word = tested.word_at(index).claim(slices);
    EXPECT_EQ(old_word & slices, slices);
    return old_word == tested.mask(index);
  }

  bool release_all() {
    bool is_free = false;
    for (std::uint32_t slice = 0; slice < count; ++slice) is_free = release_and_synchronize(slice);
    return is_free;
  }

  void expect_free() const {
    EXPECT_TRUE(current().is_free());
    EXPECT_TRUE(current().is_closed());
    EXPECT_EQ(current().count(), 0);
    EXPECT_EQ(current().lanes_inside(), 0u);
  }

  std::array<word, words_per_block> words{};
  word state;
  block tested;
  std::uint32_t count;
};

TEST(BlockState, KeepsItsFieldsSeparate) {
  word const three = 3;
  block_state const all{block_state::last_generation + 16 * block_state::one_full_word +
                        5 * block_state::one_inside - three * block_state::one_slice};
  EXPECT_EQ(all.generation(), block_state::last_generation);
  EXPECT_EQ(all.full_words(), 16);
  EXPECT_EQ(all.lanes_inside(), 5u);
  EXPECT_EQ(all.count(), -3);
  EXPECT_FALSE(all.is_closed() || all.is_free() || all.has_slices());
  EXPECT_TRUE(all.is_open_in(block_state::last_generation));
  EXPECT_FALSE(all.is_open_in(0));
  EXPECT_TRUE(block_state{0}.is_open_in(0));
}

TEST(BlockState, HasRoomForAllLanesOfALargeGpuInside) {
  constexpr word lanes = (word{1} << 19) - 1;
  EXPECT_EQ(block_state{lanes * block_state::one_inside}.lanes_inside(), lanes);
  constexpr word slices = (word{1} << 16) - 1;
  EXPECT_EQ(block_state{slices * block_state::one_slice}.count(),
            static_cast<std::int32_t>(slices));
  EXPECT_EQ(block_state{-slices * block_state::one_slice}.count(),
            -static_cast<std::int32_t>(slices));
}

/// Lanes that take from full words may record this before the lanes that filled the words have
/// counted them.
TEST(BlockState, KeepsItsFieldsSeparateWhileTheCountOfFullWordsIsNegative) {
  std::array<word, words_per_block> words{};
  word state = 0;
  block const tested{words.data(), state, 1024};
  for (word below = 1; below <= 31; ++below) {
    for (word const inside : {0u, 1u, 40u}) {
      for (word const count : {0u, 1u, 1024u}) {
        block_state const current{7 + inside * block_state::one_inside -
                                  below * block_state::one_full_word +
                                  count * block_state::one_slice};
        EXPECT_EQ(current.full_words(), -static_cast<std::int32_t>(below));
        EXPECT_EQ(current.lanes_inside(), inside);
        EXPECT_EQ(current.count(), static_cast<std::int32_t>(count));
        EXPECT_FALSE(tested.is_complete(current));
      }
    }
  }
  EXPECT_TRUE(tested.is_complete(
      block_state{7 + 16 * block_state::one_full_word + 1024 * block_state::one_slice}));
}

TEST(Block, HasAWordForEach64SlicesAndNoBitsBeyondItsSlices) {
  owned_block const a{70};
  EXPECT_EQ(a.tested.slices(), 70u);
  EXPECT_EQ(a.tested.words(), 2u);
  EXPECT_EQ(a.tested.mask(0), ~word{0});
  EXPECT_EQ(a.tested.mask(1), low_bits(6));
  EXPECT_EQ((owned_block{1024}.tested.words()), 16u);
  EXPECT_EQ((owned_block{1}.tested.mask(0)), 1u);
}

TEST(Block, CountsReleasedSlices) {
  owned_block a{128};
  EXPECT_FALSE(a.tested.may_have_slices());
  EXPECT_TRUE(a.release(64));
  EXPECT_TRUE(a.release(3));
  EXPECT_TRUE(a.tested.may_have_slices());
  EXPECT_EQ(a.current().count(), 2);
}

TEST(Block, ADoubleFreeIsVisibleInItsBitAndChangesNothing) {
  owned_block a{128};
  EXPECT_TRUE(a.release(64));
  word const old_state = a.state;
  EXPECT_FALSE(a.release(64));
  EXPECT_EQ(a.state, old_state);
}

TEST(Block, BecomesFreeWithTheReleaseOfItsLastSlice) {
  for (std::uint32_t const slices : {1u, 63u, 64u, 65u, 100u, 1024u}) {
    SCOPED_TRACE(slices);
    owned_block a{slices};
    for (std::uint32_t slice = 0; slice + 1 < slices; ++slice) {
      ASSERT_FALSE(a.release_and_synchronize(slice));
      ASSERT_FALSE(a.current().is_free());
    }
    EXPECT_TRUE(a.release_and_synchronize(slices - 1));
    a.expect_free();
  }
}

TEST(Block, DoesNotBecomeFreeBeforeAllBitsAreSet) {
  owned_block a{70};
  for (std::uint32_t slice = 0; slice < 69; ++slice) EXPECT_TRUE(a.release(slice));
  EXPECT_TRUE(a.tested.announce(1).is_open_in(0));
  EXPECT_EQ(a.current().count(), 70);
  EXPECT_FALSE(a.tested.close(a.current())) << "the last bit is not set yet";
  EXPECT_TRUE(a.tested.close(a.set_bit(69)));
  a.expect_free();
}

TEST(Block, DoesNotBecomeFreeWhileALaneIsInside) {
  owned_block a{3};
  EXPECT_TRUE(a.release(0) && a.release(1));
  ASSERT_EQ(block::reserved_of(a.tested.reserve(1), 1), 1u);
  EXPECT_FALSE(a.release_and_synchronize(2));
  EXPECT_FALSE(a.tested.close(a.tested.leave(0, a.take(0, 0b001))));
  EXPECT_TRUE(a.release_and_synchronize(0));
  a.expect_free();
}

TEST(Block, ALaneThatLeavesWithoutASliceMakesItFree) {
  owned_block a{3};
  EXPECT_TRUE(a.release(0) && a.release(1));
  ASSERT_EQ(block::reserved_of(a.tested.reserve(7), 7), 2u);
  EXPECT_FALSE(a.release_and_synchronize(2));
  EXPECT_TRUE(a.tested.close(a.tested.leave(7, false)));
  a.expect_free();
}

/// A second free announced a slice. The count is complete, but one slice and one bit are missing.
TEST(Block, DoesNotBecomeFreeByTheAnnouncementOfADoubleFree) {
  owned_block a{3};
  EXPECT_TRUE(a.release(0) && a.release(1));
  EXPECT_TRUE(a.tested.announce(1).is_open_in(0));
  ASSERT_EQ(a.current().count(), 3);
  EXPECT_FALSE(a.tested.close(a.current()));
  EXPECT_FALSE(a.release_and_synchronize(2)) << "four slices are announced";
  EXPECT_NE(a.tested.word_at(0).release(0b001) & 0b001, 0u);
  EXPECT_TRUE(a.tested.close(a.tested.retract(1))) << "the lane of the double free makes it free";
  a.expect_free();
}

/// The announcement and a reservation cancel out in the count, but the claimer is inside.
TEST(Block, DoesNotBecomeFreeWhileAReservationStandsAgainstADoubleFree) {
  owned_block a{2};
  EXPECT_TRUE(a.release(0) && a.release(1));
  EXPECT_TRUE(a.tested.announce(1).is_open_in(0));
  ASSERT_EQ(block::reserved_of(a.tested.reserve(1), 1), 1u);
  EXPECT_EQ(a.current().count(), 2);
  EXPECT_FALSE(a.tested.is_complete(a.current()));
  EXPECT_FALSE(a.tested.is_complete(a.tested.leave(1, false))) << "three slices are announced";
  EXPECT_TRUE(a.tested.close(a.tested.retract(1)));
}

TEST(Block, RefusesReleasesAndClaimsWhileItIsFree) {
  owned_block a{64};
  ASSERT_TRUE(a.release_all());
  EXPECT_FALSE(a.tested.announce(2).is_open_in(0));
  EXPECT_FALSE(a.tested.is_complete(a.tested.retract(2)));
  a.expect_free();
  EXPECT_FALSE(a.tested.reserve(5).is_open_in(0));
  EXPECT_TRUE(a.current().is_free());
  EXPECT_TRUE(a.tested.may_have_slices()) << "its advertisement stays";
  EXPECT_FALSE(a.tested.is_complete(a.tested.leave(5, false)));
  a.expect_free();
  EXPECT_NE(a.tested.revive(1), 0u);
}

/// A late lane may add to the count in one state of the block and subtract in another state.
TEST(Block, ItsStateIsCorrectAfterALateLaneHasAddedAndSubtracted) {
  owned_block a{70};
  ASSERT_TRUE(a.release_all());
  (void)a.tested.announce(1);
  (void)a.tested.reserve(4);
  EXPECT_EQ(a.tested.revive(3), 0b111u) << "a pending subtraction does not prevent a revival";
  EXPECT_EQ(a.current().count(), 67 + 1 - 4);
  EXPECT_EQ(a.tested.leave(4, false).count(), 68);
  EXPECT_EQ(a.tested.retract(1).count(), 67);
  for (std::uint32_t slice = 0; slice < 3; ++slice)
    EXPECT_EQ(a.release_and_synchronize(slice), slice == 2);

  (void)a.tested.announce(1);
  (void)a.tested.reserve(4);
  a.renew(0);
  EXPECT_EQ(a.current().generation(), 1u);
  EXPECT_EQ(a.tested.leave(4, false).count(), 1);
  EXPECT_EQ(a.tested.retract(1).bits(), 1u) << "open, no free slices, no lane inside, generation 1";
}

TEST(Block, RefusesLanesOfAnotherGeneration) {
  owned_block a{64, 7};
  ASSERT_TRUE(a.release_all());
  EXPECT_FALSE(a.current().is_open_in(7));
  a.renew(7);
  EXPECT_FALSE(a.tested.announce(1).is_open_in(7));
  EXPECT_TRUE(a.current().is_open_in(8));
  EXPECT_FALSE(a.tested.reserve(1).is_open_in(7));
}

TEST(Block, HasGeneration0AfterTheLastGeneration) {
  owned_block a{64, block_state::last_generation};
  ASSERT_TRUE(a.release_all());
  a.renew(block_state::last_generation);
  EXPECT_EQ(a.state, 0u) << "no carry into the other fields";
  EXPECT_FALSE(a.tested.announce(1).is_open_in(block_state::last_generation));
}

TEST(Block, ChangesToTheGenerationOfItsSegment) {
  for (std::uint32_t const own : {0u, 5u, block_state::last_generation}) {
    for (std::uint32_t const next : {0u, 6u, block_state::last_generation}) {
      owned_block a{64, own};
      (void)a.tested.reserve(2);
      EXPECT_EQ(a.tested.generation(), own);
      a.tested.change_generation(own, next);
      EXPECT_EQ(a.tested.leave(2, false).bits(), next);
    }
  }
}

TEST(Block, ReservesAtMostItsFreeSlices) {
  owned_block a{128};
  EXPECT_EQ(block::reserved_of(a.tested.reserve(1), 1), 0u);
  (void)a.tested.leave(1, false);
  for (std::uint32_t slice = 60; slice < 70; ++slice) EXPECT_TRUE(a.release(slice));
  EXPECT_EQ(block::reserved_of(a.tested.reserve(4), 4), 4u);
  EXPECT_EQ(block::reserved_of(a.tested.reserve(32), 32), 6u);
  EXPECT_EQ(block::reserved_of(a.tested.reserve(32), 32), 0u);
  EXPECT_EQ(a.current().count(), 10 - 4 - 32 - 32);
  EXPECT_FALSE(a.current().has_slices());
  EXPECT_TRUE(a.tested.may_have_slices()) << "a lane inside may return slices";
}

TEST(Block, IsRevivedWithAllSlicesFreeExceptTheClaimedSlices) {
  owned_block a{70};
  ASSERT_TRUE(a.release_all());
  EXPECT_EQ(a.tested.revive(3), 0b111u);
  EXPECT_FALSE(a.current().is_free());
  EXPECT_EQ(a.words[0], ~word{0b111});
  EXPECT_EQ(a.words[1], low_bits(6));
  EXPECT_EQ(a.current().count(), 67);
  EXPECT_TRUE(a.tested.may_have_slices());
  EXPECT_EQ(a.tested.revive(1), 0u) << "it is no longer free";
}

TEST(Block, RevivesFewerSlicesThanRequestedIfItsWordHasFewer) {
  owned_block a{5};
  ASSERT_TRUE(a.release_all());
  EXPECT_EQ(a.tested.revive(32), 0b11111u);
  EXPECT_FALSE(a.tested.may_have_slices());
  EXPECT_EQ(a.words[0], 0u);
}

TEST(Block, IsFreeIfItsSlicesWereNeverUsed) {
  owned_block a{100};
  a.tested.retire_unused();
  a.expect_free();
  EXPECT_EQ(a.tested.revive(1), 1u);
}

/// Compares the block with a set of the slices in use.
TEST(Block, AgreesWithASetOfSlices) {
  for (std::uint32_t const slices : {1u, 7u, 64u, 70u, 200u}) {
    std::uint64_t const seed = 31 + slices;
    SCOPED_TRACE("slices " + std::to_string(slices) + " seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    owned_block a{slices, block_state::last_generation - 3};
    std::set<std::uint32_t> in_use;
    for (std::uint32_t slice = 0; slice < slices; ++slice) in_use.insert(slice);
    for (int step = 0; step < 3000; ++step) {
      if (!in_use.empty() && random() % 5 < 3) {
        auto const slice = static_cast<std::uint32_t>(random() % slices);
        if (in_use.erase(slice) == 0) {
          EXPECT_FALSE(a.release(slice)) << "a double free";
        } else {
          EXPECT_EQ(a.release_and_synchronize(slice), in_use.empty());
        }
      } else if (in_use.empty()) {
        if (random() % 2 == 0) {
          std::uint32_t const generation = a.current().generation();
          a.renew(generation);
          for (std::uint32_t slice = 0; slice < slices; ++slice) in_use.insert(slice);
        } else {
          ASSERT_EQ(a.tested.revive(1), 1u);
          in_use.insert(0);
        }
      } else {
        auto const index = static_cast<std::uint32_t>(random() % a.tested.words());
        word const wanted = lowest_ones(a.tested.word_at(index).peek(), 3);
        block_state const old_state = a.tested.reserve(3);
        ASSERT_GE(block::reserved_of(old_state, 3), count_ones(wanted));
        bool const was_full = wanted != 0 && a.take(index, wanted);
        EXPECT_FALSE(a.tested.is_complete(a.tested.leave(3 - count_ones(wanted), was_full)));
        for (word rest = wanted; rest != 0; rest &= rest - 1)
          EXPECT_TRUE(in_use.insert(index * bits_per_word + lowest_one(rest)).second);
      }
      ASSERT_EQ(a.current().is_free(), in_use.empty());
      ASSERT_EQ(a.tested.may_have_slices(), in_use.size() < slices);
      ASSERT_EQ(a.current().lanes_inside(), 0u);
      std::int32_t full = 0;
      for (std::uint32_t i = 0; i < a.tested.words() && !in_use.empty(); ++i)
        full += a.words[i] == a.tested.mask(i) ? 1 : 0;
      ASSERT_EQ(a.current().full_words(), full);
      ASSERT_EQ(a.current().count(),
                in_use.empty() ? 0 : static_cast<std::int32_t>(slices - in_use.size()));
    }
  }
}

TEST(Block, AReservingLaneSeesTheWritesOfTheRevivingLane) {
  for (int round = 0; round < 200; ++round) {
    owned_block a{3};
    a.tested.retire_unused();
    int written = 0;
    simt::launch_threads({1, 2}, 2, [&] {
      if (simt::this_place().thread == 0) {
        written = 1;
        EXPECT_EQ(a.tested.revive(1), 1u);
      } else {
        while (!a.tested.peek().has_slices()) simt::pause();
        EXPECT_EQ(block::reserved_of(a.tested.reserve(1), 1), 1u);
        EXPECT_EQ(written, 1);
      }
    });
  }
}

TEST(Block, ARevivingLaneSeesTheWritesOfTheReleasingLanes) {
  for (int round = 0; round < 200; ++round) {
    owned_block a{2};
    std::array<int, 2> written{};
    simt::launch_threads({1, 3}, 3, [&] {
      std::uint32_t const thread = simt::this_place().thread;
      if (thread < 2) {
        written[thread] = 1;
        (void)a.release_and_synchronize(thread);
      } else {
        while (a.tested.revive(1) == 0) simt::pause();
        EXPECT_EQ(written[0] + written[1], 2);
      }
    });
  }
}

/// Threads claim slices of one block, write to them plainly, and release them. The thread that
/// takes a free block from `free_blocks` revives it, as from its segment.
class contested_block {
 public:
  static constexpr std::uint32_t slices = 3;

  contested_block() { block_.retire_unused(); }

  void work(int steps) {
    for (int step = 0; step < steps; ++step) {
      word const taken = block_.peek().is_free() ? revive() : claim();
      for (word rest = taken; rest != 0; rest &= rest - 1)
        wrong_ += std::exchange(in_use_[lowest_one(rest)], true) ? 1 : 0;
      for (word rest = taken; rest != 0; rest &= rest - 1) in_use_[lowest_one(rest)] = false;
      if (taken == 0) {
        simt::pause();
        continue;
      }
      wrong_ += block_.announce(count_ones(taken)).is_open_in(0) ? 0 : 1;
      word const old = block_.word_at(0).release(taken);
      wrong_ += (old & taken) != 0 ? 1 : 0;
      if ((old | taken) == block_.mask(0)) close(block_.count_full_words(1));
    }
  }

  void expect_free() const {
    EXPECT_EQ(wrong_, 0u);
    EXPECT_TRUE(block_.peek().is_free());
    EXPECT_EQ(free_blocks_, 1u);
  }

 private:
  word revive() {
    word expected = 1;
    simt::atomic_ref<word> const free_blocks{free_blocks_};
    if (!free_blocks.compare_exchange(expected, 0, simt::acquire)) return 0;
    word const taken = block_.revive(1);
    if (taken == 0) free_blocks.fetch_add(1, simt::release);
    return taken;
  }

  word claim() {
    block_state const old_state = block_.reserve(2);
    std::uint32_t const reserved = old_state.is_open_in(0) ? block::reserved_of(old_state, 2) : 0;
    word const wanted = reserved == 0 ? 0 : lowest_ones(block_.word_at(0).peek(), reserved);
    word const old_word = wanted == 0 ? 0 : block_.word_at(0).claim(wanted);
    word const taken = old_word & wanted;
    close(block_.leave(2 - count_ones(taken), taken != 0 && old_word == block_.mask(0)));
    return taken;
  }

  void close(block_state current) {
    if (block_.close(current)) simt::atomic_ref<word>{free_blocks_}.fetch_add(1, simt::release);
  }

  std::array<word, words_per_block> words_{};
  word state_ = 0;
  word free_blocks_ = 1;
  block block_{words_.data(), state_, slices};
  std::array<bool, slices> in_use_{};
  std::atomic<std::uint32_t> wrong_{0};
};

TEST(Block, EachSliceHasOneOwnerThatSeesTheWritesOfItsPreviousOwner) {
  contested_block contested;
  simt::launch_threads({4, 1}, 4, [&] { contested.work(4000); });
  contested.expect_free();
}

}  // namespace block_test
}  // namespace quarry
