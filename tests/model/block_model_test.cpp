// SPDX-License-Identifier: Apache-2.0
// Every interleaving of releases, double frees, claims and revivals of one block: the protocol of
// slice_return and slice_claim without their search.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace block_model_test {

/// A block whose slices are all in use, and who uses them. `neighbours` other blocks of its segment
/// are free, so that a lane can reserve a free block that is not this one.
class watched_block {
 public:
  explicit watched_block(std::uint32_t slices, std::uint32_t neighbours)
      : block_{words_.data(), state_, slices},
        slices_{slices},
        neighbours_{neighbours},
        free_blocks_{neighbours} {
    for (std::uint32_t slice = 0; slice < slices; ++slice) in_use_.insert(slice);
  }

  /// Releases all slices but those of `kept`.
  void release_all_but(std::set<std::uint32_t> const& kept) {
    for (std::uint32_t slice = 0; slice < slices_; ++slice) {
      if (!kept.contains(slice)) release(slice);
    }
  }

  void release(std::uint32_t slice) {
    in_use_.erase(slice);
    if (!free(slice)) problem_ = "a release of a slice in use was refused";
  }

  /// Requires that no lane claims the slice meanwhile.
  void double_free(std::uint32_t slice) {
    if (free(slice)) problem_ = "a double free was not noticed";
  }

  /// One of several frees of the slice, of which one must succeed. Requires that no lane claims it.
  void free_once(std::uint32_t slice) {
    in_use_.erase(slice);
    ++freed_by_several_[slice].calls;
    if (free(slice)) ++freed_by_several_[slice].successes;
  }

  /// Up to `count` slices of one word, none of `never`. As slice_claim::claim_in_block.
  std::set<std::uint32_t> claim(std::uint32_t count, std::set<std::uint32_t> const& never = {}) {
    block_state const seen = block_.peek();
    if (seen.is_free()) return revive();
    if (!seen.has_slices()) {
      withdraw();
      return {};
    }
    return claim_from_used(count, never);
  }

  /// As slice_claim::claim_from_used: by a lane that saw that there are slices, however long ago.
  std::set<std::uint32_t> claim_from_used(std::uint32_t count,
                                          std::set<std::uint32_t> const& never = {}) {
    block_state const before = block_.reserve(count);
    std::uint32_t const reserved = before.is_open_in(0) ? block::reserved_of(before, count) : 0;
    word taken = 0;
    bool from_full = false;
    std::uint32_t index = 0;
    for (; reserved != 0 && index < block_.words(); ++index) {
      word there = block_.at(index).peek();
      for (std::uint32_t const slice : never) {
        if (slice / bits_per_word == index) there &= ~(word{1} << slice % bits_per_word);
      }
      if (there == 0) continue;
      word const wanted = lowest_ones(there, reserved);
      word const old = block_.at(index).claim(wanted);
      taken = old & wanted;
      from_full = taken != 0 && old == block_.mask(index);
      if (taken != 0) break;
    }
    std::uint32_t const rest = count - count_ones(taken);
    auto const slices = took(index, taken);
    block_state const now = block_.leave(rest, from_full);
    if (rest != 0 && now.count() > 0) settle(now);
    if (taken == 0) withdraw();
    return slices;
  }

  /// As slice_claim::revive_block.
  std::set<std::uint32_t> revive() {
    if (!reserve_free_block()) {
      withdraw();
      return {};
    }
    word const taken = block_.revive(1);
    auto const slices = took(0, taken);
    if (taken != 0) {
      advertise();
    } else {
      ++free_blocks_;
      withdraw();
    }
    return slices;
  }

  [[nodiscard]] std::string check() const {
    if (!problem_.empty()) return problem_;
    for (auto const& [slice, freed] : freed_by_several_) {
      if (freed.successes != 1)
        return "slice " + std::to_string(slice) + " was freed " + std::to_string(freed.successes) +
               " times by " + std::to_string(freed.calls) + " lanes";
    }
    std::uint32_t back = 0;
    for (std::uint32_t i = 0; i < block_.words(); ++i) {
      if ((words_[i] & ~block_.mask(i)) != 0) return "bits without slices are set";
      back += count_ones(words_[i]);
    }
    block_state const now{state_};
    if (now.inside() != 0) return "a lane is still inside";
    std::int32_t full_words = 0;
    for (std::uint32_t i = 0; i < block_.words(); ++i)
      full_words += words_[i] == block_.mask(i) ? 1 : 0;
    if (now.full_words() != full_words) return "full words are counted wrongly";
    if (now.count() != static_cast<std::int32_t>(back))
      return std::to_string(back) + " slices are back, and the state says " +
             std::to_string(now.count());
    if (in_use_.empty()) {
      if (!now.is_free()) return "all slices are back and the block is not free";
      if (back != 0) return "a free block has bits set";
      if (free_blocks_ != 1 + neighbours_)
        return "the segment counts " + std::to_string(free_blocks_) + " free blocks";
    } else {
      if (now.is_closed()) return "the block is closed and a slice is in use";
      if (free_blocks_ != neighbours_) return "the segment counts a free block that is not";
      if (back + in_use_.size() != slices_) return "a slice was lost";
    }
    if (advertised_ == 0 && (back != 0 || in_use_.empty()))
      return "there is something to claim, and no hint of it";
    return "";
  }

 private:
  struct several_frees {
    std::uint32_t calls = 0;
    std::uint32_t successes = 0;
  };

  /// As slice_return::release and what it calls. Whether the slice was in use.
  bool free(std::uint32_t slice) {
    std::uint32_t const index = slice / bits_per_word;
    word const bit = word{1} << slice % bits_per_word;
    block_state const before = block_.announce(1);
    if (!before.is_open_in(0)) {
      settle(block_.retract(1));
      return false;
    }
    word const old = block_.at(index).release(bit);
    bool const is_twice = (old & bit) != 0;
    word const full = block_.mask(index);
    bool const fills_word = old != full && (old | bit) == full;
    block_state now = fills_word ? block_.count_full_words(1)
                                 : block_state{before.bits() + block_state::one_slice};
    if (before.count() > 0 && !is_twice && !block_.is_complete(now)) return true;
    if (is_twice) now = block_.retract(1);
    settle(now);
    return !is_twice;
  }

  /// As slice_return::settle.
  void settle(block_state now) {
    bool const is_free = block_.close(now);
    if (now.count() > 0) advertise();
    if (is_free) ++free_blocks_;
  }

  /// As slice_return::advertise: a bit that is one is not set again.
  void advertise() {
    simt::atomic_ref<word> const advertised{advertised_};
    if (advertised.load(simt::relaxed) == 0) advertised.fetch_or(1, simt::relaxed);
  }

  void withdraw() {
    simt::atomic_ref<word>{advertised_}.fetch_and(0, simt::relaxed);
    if (block_.has_something()) advertise();
  }

  /// The segment's count: one access, and then a plain variable, since lanes change only at
  /// accesses.
  bool reserve_free_block() {
    simt::interleave();
    if (free_blocks_ == 0) return false;
    --free_blocks_;
    return true;
  }

  std::set<std::uint32_t> took(std::uint32_t index, word taken) {
    std::set<std::uint32_t> slices;
    for (word rest = taken; rest != 0; rest &= rest - 1) {
      std::uint32_t const slice = index * bits_per_word + lowest_one(rest);
      if (slice >= slices_) problem_ = "a slice that the block does not have was handed out";
      if (!in_use_.insert(slice).second)
        problem_ = "slice " + std::to_string(slice) + " was handed out twice";
      slices.insert(slice);
    }
    return slices;
  }

  std::array<word, words_per_block> words_{};
  word state_ = 0;
  word advertised_ = 0;
  block block_;
  std::uint32_t slices_;
  std::uint32_t neighbours_;
  std::uint32_t free_blocks_;
  std::set<std::uint32_t> in_use_;
  std::map<std::uint32_t, several_frees> freed_by_several_;
  std::string problem_;
};

using operation = std::function<void(watched_block&)>;

/// Explores `lanes` from a block of which only `in_use` is not back.
void expect_all_interleavings_hold(std::uint32_t slices, std::set<std::uint32_t> const& in_use,
                                   std::vector<operation> const& lanes, std::uint32_t preemptions) {
  for (std::uint32_t const neighbours : {0u, 1u}) {
    auto const result = explore(
        [&] {
          auto const observed = std::make_shared<watched_block>(slices, neighbours);
          observed->release_all_but(in_use);
          scenario run;
          for (operation const& one : lanes)
            run.lanes.emplace_back([observed, &one] { one(*observed); });
          run.check = [observed] { return observed->check(); };
          return run;
        },
        {.preemptions = preemptions});
    EXPECT_EQ(result.failure, "") << "with " << neighbours << " other free blocks in its segment";
    EXPECT_TRUE(result.complete);
    std::cout << "  " << result.schedules << " schedules with at most " << preemptions
              << " preemptions\n";
  }
}

operation release(std::uint32_t slice) {
  return [slice](watched_block& block) { block.release(slice); };
}
operation double_free(std::uint32_t slice) {
  return [slice](watched_block& block) { block.double_free(slice); };
}
operation free_once(std::uint32_t slice) {
  return [slice](watched_block& block) { block.free_once(slice); };
}
operation claim(std::uint32_t count, std::set<std::uint32_t> const& never = {}) {
  return [count, never](watched_block& block) { (void)block.claim(count, never); };
}
operation claim_from_used(std::uint32_t count, std::set<std::uint32_t> const& never = {}) {
  return [count, never](watched_block& block) { (void)block.claim_from_used(count, never); };
}
operation claim_from_used_and_release(std::uint32_t count) {
  return [count](watched_block& block) {
    for (std::uint32_t const slice : block.claim_from_used(count)) block.release(slice);
  };
}
operation claim_and_release(std::uint32_t count) {
  return [count](watched_block& block) {
    for (std::uint32_t const slice : block.claim(count)) block.release(slice);
  };
}
operation revive_and_release() {
  return [](watched_block& block) {
    for (std::uint32_t const slice : block.revive()) block.release(slice);
  };
}

/// Sizes of blocks: one slice, a few, one word, and two words of which the second is short.
class BlockModel : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(BlockModel, TheLastReleaseAndAClaimNeverShareASlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0}, {release(0), claim(1)}, 100);
  expect_all_interleavings_hold(GetParam(), {0}, {release(0), claim_and_release(2)}, 4);
}

TEST_P(BlockModel, TheLastReleaseTwoClaimsAndTheirReleases) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0},
                                {release(0), claim_and_release(1), claim_and_release(2)}, 2);
}

TEST_P(BlockModel, TheLastReleaseAClaimAndARevival) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0}, {release(0), claim(1), revive_and_release()}, 3);
}

TEST_P(BlockModel, TwoRevivalsOfAFreeBlock) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {}, {revive_and_release(), revive_and_release()}, 4);
  expect_all_interleavings_hold(GetParam(), {},
                                {revive_and_release(), claim_and_release(1), claim(1)}, 2);
}

INSTANTIATE_TEST_SUITE_P(OfSlices, BlockModel, ::testing::Values(1, 3, 64, 70),
                         ::testing::PrintToStringParamName());

TEST(BlockUnderAllInterleavings, TheLastReleasesOfTwoWordsOneByItsBitsAndOneByItsCountFirst) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(70, {0, 64}, {release(0), release(64)}, 100);
    expect_all_interleavings_hold(70, {0, 64}, {release(0), release(64), claim(1)}, 3);
    expect_all_interleavings_hold(70, {0, 64}, {release(0), release(64), claim_and_release(1)}, 2);
  }
}

TEST(BlockUnderAllInterleavings, ThreeReleasesOfWhichAnyIsTheLast) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {0, 1, 2}, {release(0), release(1), release(2)}, 4);
}

TEST(BlockUnderAllInterleavings, ClaimsOfMoreThanThereIsAndTheReleasesOfTheRest) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {0}, {release(0), claim(3), claim_and_release(2)}, 3);
  expect_all_interleavings_hold(70, {0}, {release(0), claim(70), claim(70)}, 3);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeAndTheLastRelease) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(3, {0}, {release(0), double_free(2)}, 100);
    expect_all_interleavings_hold(70, {0}, {release(0), double_free(65)}, 100);
  }
}

/// Lanes that reserve together more than there is, while slices come back one by one: the last to
/// give up what it has too much may be the one that brings the count above zero.
TEST(BlockUnderAllInterleavings, OverReservationsBySeveralWithReleasesInBetween) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(5, {0, 1, 2, 3}, {release(0), release(1), claim_from_used(3)}, 5);
    expect_all_interleavings_hold(
        5, {0, 1, 2, 3}, {release(0), release(1), claim_from_used(4), claim_from_used(2)}, 2);
  }
  expect_all_interleavings_hold(
      70, {0, 64}, {release(64), claim_from_used(32), claim_from_used(32), claim(32)}, 2);
  expect_all_interleavings_hold(
      3, {0, 1}, {release(0), claim_from_used_and_release(3), claim_from_used(3)}, 3);
}

TEST(BlockUnderAllInterleavings, AnOverReservationMeetsABlockThatBecomesFreeAndIsRevived) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {0}, {release(0), claim_from_used(3)}, 100);
  expect_all_interleavings_hold(3, {0}, {release(0), claim_from_used(2), revive_and_release()}, 3);
  expect_all_interleavings_hold(70, {}, {claim_from_used(5), revive_and_release()}, 5);
  expect_all_interleavings_hold(3, {},
                                {claim_from_used(5), claim_from_used_and_release(2), claim(2)}, 3);
  expect_all_interleavings_hold(3, {},
                                {claim_from_used(5), claim_from_used(1), revive_and_release()}, 3);
}

/// What a double free does must never stand in for a slice that is not back, or that is reserved.
TEST(BlockUnderAllInterleavings, TwoDoubleFreesAndTheLastReleases) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(3, {0}, {release(0), double_free(1), double_free(2)}, 3);
    expect_all_interleavings_hold(3, {0, 1}, {release(0), release(1), double_free(2)}, 3);
  }
}

TEST(BlockUnderAllInterleavings, DoubleFreesOfAFreeBlock) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {}, {double_free(1), double_free(2)}, 100);
}

/// What a double free adds for a moment must not keep the release of another slice from being
/// advertised.
TEST(BlockUnderAllInterleavings, ADoubleFreeARemovedAdvertisementAndAReleaseOfAnotherSlice) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(5, {0, 1},
                                  {release(0), double_free(2), claim(3, {2}), claim(1, {2})}, 2);
    expect_all_interleavings_hold(5, {0, 1}, {release(0), double_free(2), claim(4, {2})}, 5);
  }
}

TEST(BlockUnderAllInterleavings, ADoubleFreeOfAFreeBlockAndAReservationInIt) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {}, {double_free(1), claim_from_used(2)}, 100);
  expect_all_interleavings_hold(3, {}, {double_free(1), claim_from_used(2), double_free(2)}, 3);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeAndAClaimOfAnotherSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(4, {0}, {double_free(2), claim(1, {2})}, 100);
  expect_all_interleavings_hold(4, {0}, {double_free(2), claim(3, {2})}, 100);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeAClaimOfAllAndAReleaseOfWhichMoreAreInUse) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(4, {0, 1}, {release(0), double_free(3), claim(3, {3})}, 3);
}

TEST(BlockUnderAllInterleavings, TwoDoubleFreesAClaimOfAllAndARelease) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(5, {0, 1},
                                {release(0), double_free(3), double_free(4), claim(5, {3, 4})}, 3);
}

/// Lanes that free the same pointer at the same time: one succeeds, whatever others do meanwhile,
/// and the memory goes where it would have gone without the second free.
TEST(BlockUnderAllInterleavings, TwoFreesOfOneSliceOfWhichOneSucceeds) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const slices : {2u, 70u}) {
    expect_all_interleavings_hold(slices, {0}, {free_once(0), free_once(0)}, 100);
    expect_all_interleavings_hold(slices, {1}, {free_once(1), free_once(1), claim(1, {1})}, 4);
    expect_all_interleavings_hold(slices, {1}, {free_once(1), free_once(1), revive_and_release()},
                                  4);
    expect_all_interleavings_hold(slices, {0, 1}, {free_once(0), free_once(0), release(1)}, 4);
    expect_all_interleavings_hold(
        slices, {1}, {free_once(1), free_once(1), claim_from_used(2, {1}), claim(1, {1})}, 2);
  }
}

TEST(BlockUnderAllInterleavings, ThreeFreesOfOneSliceOfWhichOneSucceeds) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(2, {0}, {free_once(0), free_once(0), free_once(0)}, 4);
  expect_all_interleavings_hold(
      3, {0}, {free_once(0), free_once(0), free_once(0), claim_from_used(3, {0})}, 2);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeThatMeetsTheRevivalOfItsBlock) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {}, {double_free(2), claim(1, {2})}, 100);
  expect_all_interleavings_hold(3, {0}, {release(0), double_free(2), claim(1, {2})}, 3);
}

/// Each reserved when the block had slices, and comes late.
TEST(BlockUnderAllInterleavings, FourLateClaimers) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      3, {0}, {claim_from_used(2), claim_from_used(2), claim_from_used(2), release(0)}, 2);
  expect_all_interleavings_hold(
      3, {}, {claim_from_used(2), claim_from_used(2), claim_from_used(2), claim_from_used(1)}, 3);
}

}  // namespace block_model_test
}  // namespace quarry::test
