// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <string>

namespace quarry {
namespace {

using consequence = block::consequence;

/// A block of which no slice is back. What a release leads to is counted here as slice_supply does.
struct owned_block {
  explicit owned_block(std::uint32_t slices) : one{words.data(), state, slices}, count{slices} {
    for (std::uint32_t i = 0; i < one.words(); ++i) words[i] = one.empty(i);
  }

  consequence release(std::uint32_t slice) {
    std::uint32_t const index = slice / bits_per_word;
    word const bit = word{1} << slice % bits_per_word;
    word const before = one.at(index).release(bit);
    bool const first_hole = (before & ~one.empty(index)) == 0;
    bool const whole = (before | bit) == ~word{0};
    return first_hole || whole ? one.count_release(first_hole, whole) : consequence::none;
  }

  consequence release_all() {
    auto last = consequence::none;
    for (std::uint32_t slice = 0; slice < count; ++slice) last = release(slice);
    return last;
  }

  std::array<word, words_per_block> words{};
  word state = 0;
  block one;
  std::uint32_t count;
};

TEST(Block, HasAWordForEach64SlicesAndOnesWhereItHasNone) {
  owned_block const a{70};
  EXPECT_EQ(a.one.words(), 2u);
  EXPECT_EQ(a.one.empty(0), 0u);
  EXPECT_EQ(a.one.empty(1), ~low_bits(6));
  EXPECT_EQ((owned_block{1024}.one.words()), 16u);
  EXPECT_EQ((owned_block{1}.one.empty(0)), ~word{1});
}

TEST(Block, AsksToBeAdvertisedWhenItsFirstSliceComesBack) {
  owned_block a{128};
  EXPECT_FALSE(a.one.has_something());
  EXPECT_EQ(a.release(64), consequence::advertise);
  EXPECT_TRUE(a.one.has_something());
  EXPECT_EQ(a.release(65), consequence::none);
  EXPECT_EQ(a.release(0), consequence::none) << "it is advertised already";
}

TEST(Block, BecomesFreeWhenItsLastSliceComesBack) {
  for (std::uint32_t const slices : {1u, 63u, 64u, 65u, 100u, 1024u}) {
    SCOPED_TRACE(slices);
    owned_block a{slices};
    for (std::uint32_t slice = 0; slice + 1 < slices; ++slice) {
      EXPECT_NE(a.release(slice), consequence::hand_over);
      EXPECT_FALSE(a.one.is_free());
    }
    EXPECT_EQ(a.release(slices - 1), consequence::hand_over);
    EXPECT_TRUE(a.one.is_free());
    for (std::uint32_t i = 0; i < a.one.words(); ++i)
      EXPECT_EQ(a.words[i], a.one.empty(i)) << "word " << i;
  }
}

TEST(Block, RefusesAReleaseWhenItIsFree) {
  owned_block a{64};
  EXPECT_EQ(a.release_all(), consequence::hand_over);
  EXPECT_EQ(a.one.count_release(true, false), consequence::refused);
  a.one.take_back_count(true, false);
  EXPECT_TRUE(a.one.is_free());
  EXPECT_NE(a.one.revive(1), 0u) << "what was refused is undone";
}

TEST(Block, CannotBecomeFreeWhileAWordIsReserved) {
  owned_block a{128};
  for (std::uint32_t slice = 0; slice < 64; ++slice) (void)a.release(slice);
  ASSERT_TRUE(a.one.reserve_word());
  EXPECT_FALSE(a.one.reserve_word()) << "there was one whole word";
  for (std::uint32_t slice = 64; slice < 128; ++slice)
    EXPECT_NE(a.release(slice), consequence::hand_over);
  EXPECT_FALSE(a.one.is_free());
  EXPECT_EQ(a.one.count_release(false, true), consequence::hand_over)
      << "the reservation was given up";
}

TEST(Block, HasNoWordToReserveWhenItIsFreeOrHasNoWholeWord) {
  owned_block a{64};
  EXPECT_FALSE(a.one.reserve_word());
  (void)a.release_all();
  EXPECT_FALSE(a.one.reserve_word());
}

TEST(Block, IsRevivedWithAllSlicesBackButThoseTaken) {
  owned_block a{70};
  (void)a.release_all();
  EXPECT_EQ(a.one.revive(3), 0b111u);
  EXPECT_FALSE(a.one.is_free());
  EXPECT_EQ(a.words[0], ~word{0b111});
  EXPECT_EQ(a.words[1], ~word{0});
  EXPECT_TRUE(a.one.has_something());
  EXPECT_EQ(a.one.revive(1), 0u) << "it is not free any more";
}

TEST(Block, IsRevivedWithFewerSlicesThanAskedForIfItsWordHasFewer) {
  owned_block a{5};
  (void)a.release_all();
  EXPECT_EQ(a.one.revive(32), 0b11111u);
  EXPECT_FALSE(a.one.has_something());
}

TEST(Block, IsFreeWhenNoneOfItsSlicesWasEverUsed) {
  owned_block a{100};
  a.one.retire_unused();
  EXPECT_TRUE(a.one.is_free());
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
        EXPECT_EQ(a.release(slice) == consequence::hand_over, in_use.empty());
      } else if (in_use.empty()) {
        ASSERT_EQ(a.one.revive(1), 1u);
        in_use.insert(0);
      } else {
        std::uint32_t const index = static_cast<std::uint32_t>(random() % a.one.words());
        word seen = a.one.at(index).peek();
        word const taken = lowest_ones(seen & ~a.one.empty(index), 1);
        if (taken == 0) continue;
        if (seen == ~word{0}) {
          ASSERT_TRUE(a.one.reserve_word());
        }
        ASSERT_TRUE(a.one.at(index).claim(seen, taken));
        if ((seen & ~a.one.empty(index)) == taken) a.one.count_emptied();
        EXPECT_TRUE(in_use.insert(index * bits_per_word + lowest_one(taken)).second);
      }
      ASSERT_EQ(a.one.is_free(), in_use.empty());
      ASSERT_EQ(a.one.has_something(), in_use.size() < slices);
    }
  }
}

}  // namespace
}  // namespace quarry
