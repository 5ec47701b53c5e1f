// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of releases, double frees, claims and revivals of one block. This is the
// protocol of slice_return and slice_claim without their search.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/detail/block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace block_model_test {

/// A block whose slices are all in use, and the set of these slices. `neighbours` other blocks of
/// its segment are free, so a lane can reserve a free block other than this one.
class watched_block {
 public:
  explicit watched_block(std::uint32_t slices, std::uint32_t neighbours)
      : block_{words_.data(), state_, slices},
        slices_{slices},
        neighbours_{neighbours},
        free_blocks_{neighbours} {
    for (std::uint32_t slice = 0; slice < slices; ++slice) in_use_.insert(slice);
  }

  /// Releases all slices except `kept`.
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
    if (free(slice)) problem_ = "a double free was not reported";
  }

  /// One of several frees of the slice. Exactly one of them must succeed. Requires that no lane
  /// claims the slice.
  void free_once(std::uint32_t slice) {
    in_use_.erase(slice);
    ++freed_by_several_[slice].calls;
    if (free(slice)) ++freed_by_several_[slice].successes;
  }

  /// Claims up to `count` slices of one word, and none of `excluded`. As
  /// slice_claim::claim_in_block.
  std::set<std::uint32_t> claim(std::uint32_t count, std::set<std::uint32_t> const& excluded = {}) {
    block_state const seen = block_.peek();
    if (seen.is_free()) return revive();
    if (!seen.has_slices()) {
      withdraw();
      return {};
    }
    return claim_from_used(count, excluded);
  }

  /// As slice_claim::claim_from_used, by a lane that saw slices at some earlier time.
  std::set<std::uint32_t> claim_from_used(std::uint32_t count,
                                          std::set<std::uint32_t> const& excluded = {}) {
    block_state const old_state = block_.reserve(count);
    std::uint32_t const reserved =
        old_state.is_open_in(0) ? block::reserved_of(old_state, count) : 0;
    word taken = 0;
    bool was_full = false;
    std::uint32_t index = 0;
    for (; reserved != 0 && index < block_.words(); ++index) {
      word available = block_.word_at(index).peek();
      for (std::uint32_t const slice : excluded) {
        if (slice / bits_per_word == index) available &= ~(word{1} << slice % bits_per_word);
      }
      if (available == 0) continue;
      word const wanted = lowest_ones(available, reserved);
      word const old = block_.word_at(index).claim(wanted);
      taken = old & wanted;
      was_full = taken != 0 && old == block_.mask(index);
      if (taken != 0) break;
    }
    std::uint32_t const rest = count - count_ones(taken);
    auto const slices = record_claim(index, taken);
    block_state const state = block_.leave(rest, was_full);
    if (rest != 0 && state.count() > 0) follow_late(state);
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
    auto const slices = record_claim(0, taken);
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
    block_state const state{state_};
    std::uint32_t free_slices = 0;
    std::int32_t full_words = 0;
    for (std::uint32_t i = 0; i < block_.words(); ++i) {
      if ((words_[i] & ~block_.mask(i)) != 0) return "bits without slices are set";
      if (state.is_free()) continue;  // then the bits have no meaning
      free_slices += count_ones(words_[i]);
      full_words += words_[i] == block_.mask(i) ? 1 : 0;
    }
    if (state.lanes_inside() != 0) return "a lane is counted inside";
    if (state.full_words() != full_words) return "the count of full words is wrong";
    if (state.count() != static_cast<std::int32_t>(free_slices))
      return std::to_string(free_slices) + " slices are free, and the state counts " +
             std::to_string(state.count());
    if (in_use_.empty()) {
      if (!state.is_free()) return "all slices are free and the block is not";
      if (free_blocks_ != 1 + neighbours_)
        return "the segment counts " + std::to_string(free_blocks_) + " free blocks";
    } else {
      if (state.is_closed()) return "the block is closed and a slice is in use";
      if (free_blocks_ != neighbours_) return "the segment counts this block as free";
      if (free_slices + in_use_.size() != slices_) return "a slice was lost";
    }
    if (advertised_ == 0 && (free_slices != 0 || in_use_.empty()))
      return "there are slices to claim, and the block is not advertised";
    return "";
  }

 private:
  struct several_frees {
    std::uint32_t calls = 0;
    std::uint32_t successes = 0;
  };

  /// As slice_return::release and the functions that it calls. Returns whether the slice was in
  /// use.
  bool free(std::uint32_t slice) {
    std::uint32_t const index = slice / bits_per_word;
    word const bit = word{1} << slice % bits_per_word;
    block_state const old_state = block_.announce(1);
    if (!old_state.is_open_in(0)) {
      follow_late(block_.retract(1));
      return false;
    }
    if (old_state.count() <= 0) simt::atomic_ref<word>{advertised_}.fetch_or(1, simt::relaxed);
    word const old = block_.word_at(index).release(bit);
    bool const was_free = (old & bit) != 0;
    word const full = block_.mask(index);
    bool const fills_word = old != full && (old | bit) == full;
    block_state state = fills_word ? block_.count_full_words(1)
                                   : block_state{old_state.bits() + block_state::one_slice};
    if (was_free) state = block_.retract(1);
    if (block_.close(state)) ++free_blocks_;
    return !was_free;
  }

  /// As slice_return::follow_late.
  void follow_late(block_state state) {
    bool const is_free = block_.close(state);
    if (state.count() > 0) advertise();
    if (is_free) ++free_blocks_;
  }

  /// As slice_return::advertise: does not write a bit that is already set.
  void advertise() {
    simt::atomic_ref<word> const advertised{advertised_};
    if (advertised.load(simt::relaxed) == 0) advertised.fetch_or(1, simt::relaxed);
  }

  void withdraw() {
    simt::atomic_ref<word>{advertised_}.fetch_and(0, simt::relaxed);
    if (block_.may_have_slices()) advertise();
  }

  /// The segment's count: one access, and then a plain variable, because lanes switch only at
  /// accesses.
  bool reserve_free_block() {
    simt::interleave();
    if (free_blocks_ == 0) return false;
    --free_blocks_;
    return true;
  }

  std::set<std::uint32_t> record_claim(std::uint32_t index, word taken) {
    std::set<std::uint32_t> slices;
    for (word rest = taken; rest != 0; rest &= rest - 1) {
      std::uint32_t const slice = index * bits_per_word + lowest_one(rest);
      if (slice >= slices_) problem_ = "a slice outside the block was allocated";
      if (!in_use_.insert(slice).second)
        problem_ = "slice " + std::to_string(slice) + " was allocated twice";
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

/// Explores `lanes` on a block in which only `in_use` is in use.
void expect_all_interleavings_hold(std::uint32_t slices, std::set<std::uint32_t> const& in_use,
                                   std::vector<operation> const& lanes, std::uint32_t preemptions) {
  for (std::uint32_t const neighbours : {0u, 1u}) {
    SCOPED_TRACE(std::to_string(neighbours) + " other free blocks in its segment");
    expect_all_schedules_hold(
        [&] {
          auto const observed = std::make_shared<watched_block>(slices, neighbours);
          observed->release_all_but(in_use);
          scenario run;
          for (operation const& lane : lanes)
            run.lanes.emplace_back([observed, &lane] { lane(*observed); });
          run.check = [observed] { return observed->check(); };
          return run;
        },
        {.preemptions = preemptions});
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
operation claim(std::uint32_t count, std::set<std::uint32_t> const& excluded = {}) {
  return [count, excluded](watched_block& block) { (void)block.claim(count, excluded); };
}
operation claim_from_used(std::uint32_t count, std::set<std::uint32_t> const& excluded = {}) {
  return [count, excluded](watched_block& block) { (void)block.claim_from_used(count, excluded); };
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

/// Sizes of blocks: one slice, a few slices, one word, and two words of which the second is short.
class BlockModel : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(BlockModel, TheLastReleaseAndAClaimNeverShareASlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0}, {release(0), claim(1)}, 100);
  expect_all_interleavings_hold(GetParam(), {0}, {release(0), claim_and_release(2)}, 4);
}

TEST_P(BlockModel, TheLastReleaseAndTwoClaimsWithReleasesLoseNoSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0},
                                {release(0), claim_and_release(1), claim_and_release(2)}, 2);
}

TEST_P(BlockModel, TheLastReleaseAClaimAndARevivalLoseNoSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {0}, {release(0), claim(1), revive_and_release()}, 3);
}

TEST_P(BlockModel, TwoRevivalsOfAFreeBlockLoseNoSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(GetParam(), {}, {revive_and_release(), revive_and_release()}, 4);
  expect_all_interleavings_hold(GetParam(), {},
                                {revive_and_release(), claim_and_release(1), claim(1)}, 2);
}

INSTANTIATE_TEST_SUITE_P(OfSlices, BlockModel, ::testing::Values(1, 3, 64, 70),
                         ::testing::PrintToStringParamName());

TEST(BlockUnderAllInterleavings, TheLastReleasesOfTwoWordsFreeTheBlock) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(70, {0, 64}, {release(0), release(64)}, 100);
    expect_all_interleavings_hold(70, {0, 64}, {release(0), release(64), claim(1)}, 3);
    expect_all_interleavings_hold(70, {0, 64}, {release(0), release(64), claim_and_release(1)}, 2);
  }
}

TEST(BlockUnderAllInterleavings, AnyOfThreeReleasesMayBeTheLast) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {0, 1, 2}, {release(0), release(1), release(2)}, 4);
}

TEST(BlockUnderAllInterleavings, ClaimsOfMoreSlicesThanAreFreeLoseNoSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {0}, {release(0), claim(3), claim_and_release(2)}, 3);
  expect_all_interleavings_hold(70, {0}, {release(0), claim(70), claim(70)}, 3);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeIsReportedDuringTheLastRelease) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(3, {0}, {release(0), double_free(2)}, 100);
    expect_all_interleavings_hold(70, {0}, {release(0), double_free(65)}, 100);
  }
}

/// Several lanes together reserve more slices than are free, while slices are released one by one.
/// The last lane that returns its surplus may be the lane that brings the count above zero.
TEST(BlockUnderAllInterleavings, SurplusReservationsOfSeveralLanesHideNoRelease) {
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

TEST(BlockUnderAllInterleavings,
     ASurplusReservationRemainsValidAfterTheBlockBecomesFreeAndIsRevived) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {0}, {release(0), claim_from_used(3)}, 100);
  expect_all_interleavings_hold(3, {0}, {release(0), claim_from_used(2), revive_and_release()}, 3);
  expect_all_interleavings_hold(70, {}, {claim_from_used(5), revive_and_release()}, 5);
  expect_all_interleavings_hold(3, {},
                                {claim_from_used(5), claim_from_used_and_release(2), claim(2)}, 3);
  expect_all_interleavings_hold(3, {},
                                {claim_from_used(5), claim_from_used(1), revive_and_release()}, 3);
}

/// A double free must never count as a slice that is still in use or reserved.
TEST(BlockUnderAllInterleavings, TwoDoubleFreesAreReportedDuringTheLastReleases) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(3, {0}, {release(0), double_free(1), double_free(2)}, 3);
    expect_all_interleavings_hold(3, {0, 1}, {release(0), release(1), double_free(2)}, 3);
  }
}

TEST(BlockUnderAllInterleavings, DoubleFreesOfAFreeBlockAreReported) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {}, {double_free(1), double_free(2)}, 100);
}

/// A double free adds to the count briefly. This must not keep the release of another slice from
/// being advertised.
TEST(BlockUnderAllInterleavings, ADoubleFreeDoesNotHideTheReleaseOfAnotherSlice) {
  QUARRY_TEST_USES_FIBERS();
  {
    expect_all_interleavings_hold(5, {0, 1},
                                  {release(0), double_free(2), claim(3, {2}), claim(1, {2})}, 2);
    expect_all_interleavings_hold(5, {0, 1}, {release(0), double_free(2), claim(4, {2})}, 5);
  }
}

TEST(BlockUnderAllInterleavings, ADoubleFreeInAFreeBlockIsReportedDuringAReservation) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {}, {double_free(1), claim_from_used(2)}, 100);
  expect_all_interleavings_hold(3, {}, {double_free(1), claim_from_used(2), double_free(2)}, 3);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeIsReportedDuringAClaimOfAnotherSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(4, {0}, {double_free(2), claim(1, {2})}, 100);
  expect_all_interleavings_hold(4, {0}, {double_free(2), claim(3, {2})}, 100);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeIsReportedDuringAClaimOfAllSlicesAndARelease) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(4, {0, 1}, {release(0), double_free(3), claim(3, {3})}, 3);
}

TEST(BlockUnderAllInterleavings, TwoDoubleFreesAreReportedDuringAClaimOfAllSlicesAndARelease) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(5, {0, 1},
                                {release(0), double_free(3), double_free(4), claim(5, {3, 4})}, 3);
}

/// Several lanes free the same pointer at the same time. One free succeeds whatever other lanes do
/// meanwhile, and the memory is freed as if only this free had happened.
TEST(BlockUnderAllInterleavings, OneOfTwoFreesOfASliceSucceeds) {
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

TEST(BlockUnderAllInterleavings, OneOfThreeFreesOfASliceSucceeds) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(2, {0}, {free_once(0), free_once(0), free_once(0)}, 4);
  expect_all_interleavings_hold(
      3, {0}, {free_once(0), free_once(0), free_once(0), claim_from_used(3, {0})}, 2);
}

TEST(BlockUnderAllInterleavings, ADoubleFreeIsReportedDuringTheRevivalOfItsBlock) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(3, {}, {double_free(2), claim(1, {2})}, 100);
  expect_all_interleavings_hold(3, {0}, {release(0), double_free(2), claim(1, {2})}, 3);
}

/// Each claimer saw slices earlier and reserves late.
TEST(BlockUnderAllInterleavings, FourLateClaimersLoseNoSlice) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      3, {0}, {claim_from_used(2), claim_from_used(2), claim_from_used(2), release(0)}, 2);
  expect_all_interleavings_hold(
      3, {}, {claim_from_used(2), claim_from_used(2), claim_from_used(2), claim_from_used(1)}, 3);
}

}  // namespace block_model_test
}  // namespace quarry::test
