// SPDX-License-Identifier: Apache-2.0
// Every interleaving of releases, claims and revivals of one block: slice_supply's protocol without its search.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <memory>
#include <set>

namespace quarry::test {
namespace {

/// A block whose slices are all in use, and who uses them. `neighbours` other blocks of its segment are free, so that a lane
/// can reserve a free block that is not this one.
class watched_block {
 public:
  explicit watched_block(std::uint32_t slices, std::uint32_t neighbours)
      : block_{words_.data(), state_, slices},
        slices_{slices},
        neighbours_{neighbours},
        free_blocks_{neighbours} {
    for (std::uint32_t i = 0; i < block_.words(); ++i) words_[i] = block_.empty(i);
    for (std::uint32_t slice = 0; slice < slices; ++slice) in_use_.insert(slice);
  }

  /// Gives back all slices but those of `kept`.
  void release_all_but(std::set<std::uint32_t> const& kept) {
    for (std::uint32_t slice = 0; slice < slices_; ++slice) {
      if (!kept.contains(slice)) release(slice);
    }
  }

  /// As slice_supply::release.
  void release(std::uint32_t slice) {
    in_use_.erase(slice);
    std::uint32_t const index = slice / bits_per_word;
    word const bit = word{1} << slice % bits_per_word;
    word const before = block_.at(index).release(bit);
    if ((before & bit) != 0) problem_ = "a slice in use was free";
    bool const first_hole = (before & ~block_.empty(index)) == 0;
    bool const whole = (before | bit) == ~word{0};
    if (first_hole || whole) count(first_hole, whole);
  }

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// One slice of a word, or of the block if it is free; `none` if neither has one. As slice_supply::claim_in_block.
  std::uint32_t claim() {
    if (block_.is_free()) return revive();
    for (std::uint32_t index = 0; index < block_.words(); ++index) {
      word const taken = claim_in_word(index);
      if (taken != 0) return took(index, taken);
    }
    return none;
  }

  std::uint32_t revive() {
    if (!reserve_free_block()) return none;
    word const taken = block_.revive(1);
    if (taken != 0) return took(0, taken);
    ++free_blocks_;
    return none;
  }

  [[nodiscard]] std::string check() const {
    if (!problem_.empty()) return problem_;
    std::uint32_t whole = 0;
    std::uint32_t holed = 0;
    std::uint32_t back = 0;
    for (std::uint32_t i = 0; i < block_.words(); ++i) {
      if ((words_[i] & block_.empty(i)) != block_.empty(i))
        return "bits without slices are not ones";
      whole += words_[i] == ~word{0} ? 1 : 0;
      holed += words_[i] != block_.empty(i) ? 1 : 0;
      back += count_ones(words_[i] & ~block_.empty(i));
    }
    if (in_use_.empty()) {
      if (!block_.is_free() || state_ != block::free)
        return "all slices are back and the block is not free";
      if (back != 0) return "a free block has bits set";
      return free_blocks_ == 1 + neighbours_
                 ? ""
                 : "the segment counts " + std::to_string(free_blocks_) + " free blocks";
    }
    if (block_.is_free()) return "the block is free and a slice is in use";
    if (free_blocks_ != neighbours_) return "the segment counts a free block that is not";
    if (back + in_use_.size() != slices_) return "a slice was lost";
    if (state_ != (word{holed} << 32 | whole)) {
      return "the state says " + std::to_string(state_ >> 32) + " holed and " +
             std::to_string(state_ & 0xffffffff) + " whole words of " + std::to_string(holed) +
             " and " + std::to_string(whole);
    }
    return "";
  }

 private:
  void count(bool first_hole, bool whole) {
    auto const next = block_.count_release(first_hole, whole);
    if (next == block::consequence::hand_over) ++free_blocks_;
    if (next == block::consequence::refused) problem_ = "a release of a slice in use was refused";
  }

  /// The segment's count: one access, and then a plain variable, since lanes change only at accesses.
  bool reserve_free_block() {
    simt::interleave();
    if (free_blocks_ == 0) return false;
    --free_blocks_;
    return true;
  }

  /// As slice_supply::claim_in_word and claim_in_whole_word.
  word claim_in_word(std::uint32_t index) {
    auto const bits = block_.at(index);
    word const unused = block_.empty(index);
    word seen = bits.peek();
    while ((seen & ~unused) != 0 && seen != ~word{0}) {
      word const wanted = lowest_ones(seen & ~unused, 1);
      if (!bits.claim(seen, wanted)) continue;
      if ((seen & ~wanted & ~unused) == 0) block_.count_emptied();
      return wanted;
    }
    if (seen != ~word{0} || !block_.reserve_word()) return 0;
    word const wanted = lowest_ones(~unused, 1);
    seen = ~word{0};
    if (bits.claim(seen, wanted)) {
      if ((~wanted & ~unused) == 0) block_.count_emptied();
      return wanted;
    }
    count(false, true);
    return 0;
  }

  std::uint32_t took(std::uint32_t index, word taken) {
    std::uint32_t const slice = index * bits_per_word + lowest_one(taken);
    if (slice >= slices_) problem_ = "a slice that the block does not have was handed out";
    if (!in_use_.insert(slice).second)
      problem_ = "slice " + std::to_string(slice) + " was handed out twice";
    return slice;
  }

  std::array<word, words_per_block> words_{};
  word state_ = 0;
  block block_;
  std::uint32_t slices_;
  std::uint32_t neighbours_;
  std::uint32_t free_blocks_;
  std::set<std::uint32_t> in_use_;
  std::string problem_;
};

using operation = void (*)(watched_block&);

/// Explores `lanes` from a block of which only `in_use` is not back.
void expect_all_interleavings_hold(std::uint32_t slices, std::set<std::uint32_t> const& in_use,
                                   std::vector<operation> const& lanes, std::uint32_t preemptions) {
  for (std::uint32_t const neighbours : {0u, 1u}) {
    auto const result = explore(
        [&] {
          auto const watched = std::make_shared<watched_block>(slices, neighbours);
          watched->release_all_but(in_use);
          scenario run;
          for (operation const one : lanes)
            run.lanes.emplace_back([watched, one] { one(*watched); });
          run.check = [watched] { return watched->check(); };
          return run;
        },
        {.preemptions = preemptions});
    EXPECT_EQ(result.failure, "") << "with " << neighbours << " other free blocks in its segment";
    EXPECT_TRUE(result.complete);
    std::cout << "  " << result.schedules << " schedules with at most " << preemptions
              << " preemptions\n";
  }
}

void release_first(watched_block& block) { block.release(0); }
void release_64(watched_block& block) { block.release(64); }
void claim(watched_block& block) { (void)block.claim(); }
void claim_and_release(watched_block& block) {
  auto const slice = block.claim();
  if (slice != watched_block::none) block.release(slice);
}
void revive_and_release(watched_block& block) {
  auto const slice = block.revive();
  if (slice != watched_block::none) block.release(slice);
}

/// Sizes of blocks: one word, a part of one, two words, and two of which the second is short.
class BlockModel : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(BlockModel, TheLastReleaseAndAClaimNeverShareASlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0}, {release_first, claim}, 100);
  expect_all_interleavings_hold(GetParam(), {0}, {release_first, claim_and_release}, 4);
}

TEST_P(BlockModel, TheLastReleaseTwoClaimsAndTheirReleases) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0},
                                {release_first, claim_and_release, claim_and_release}, 2);
}

TEST_P(BlockModel, TheLastReleaseAClaimAndARevival) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0}, {release_first, claim, revive_and_release}, 3);
}

TEST_P(BlockModel, TwoRevivalsOfAFreeBlock) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {}, {revive_and_release, revive_and_release}, 4);
  expect_all_interleavings_hold(GetParam(), {}, {revive_and_release, claim_and_release, claim}, 2);
}

INSTANTIATE_TEST_SUITE_P(OfSlices, BlockModel, ::testing::Values(1, 40, 64, 70, 128),
                         ::testing::PrintToStringParamName());

TEST(BlockOfTwoWordsModel, TheLastReleasesOfBothWordsAndAClaim) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(128, {0, 64}, {release_first, release_64, claim}, 3);
  expect_all_interleavings_hold(70, {0, 64}, {release_first, release_64, claim_and_release}, 3);
}

TEST(BlockOfTwoWordsModel, AClaimThatReservedAWordKeepsTheBlockFromBecomingFree) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(128, {64}, {release_64, claim, claim}, 3);
  expect_all_interleavings_hold(128, {64}, {release_64, claim_and_release, claim_and_release}, 2);
}

}  // namespace
}  // namespace quarry::test
