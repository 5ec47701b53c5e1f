// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/slice_claim.hpp"

#include "quarry/device/detail/heap_internals.hpp"
#include "support/full_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace quarry {

using namespace detail;
namespace slice_claim_test {

constexpr std::uint32_t max_tries = 8;

struct full_heap : test::full_heap {
  using test::full_heap::full_heap;

  slice_request claim(std::uint32_t count) {
    slice_request request{&state, id, count};
    bool const found = slice_claim::claim_returned(request, max_tries);
    EXPECT_EQ(found, request.origin == slice_request::source::bits);
    return request;
  }
};

TEST(SliceClaim, FindsNothingIfNoSliceWasReleased) {
  full_heap a{2};
  EXPECT_EQ(a.claim(1).origin, slice_request::source::none);
  EXPECT_TRUE(a.state.class_tree(a.id).empty());
}

TEST(SliceClaim, TakesAtMostTheRequestedSlicesOfAWord) {
  full_heap a{1};
  a.release(0b10110, 0, 1);
  auto const grant = a.claim(2);
  EXPECT_EQ(grant.origin, slice_request::source::bits);
  EXPECT_EQ(grant.segment, 0u);
  EXPECT_EQ(grant.index, 1u);
  EXPECT_EQ(grant.value, 0b00110u);
  EXPECT_EQ(a.claim(2).value, 0b10000u) << "the remaining slice";
  EXPECT_EQ(a.claim(2).origin, slice_request::source::none);
}

TEST(SliceClaim, FindsASliceInAnySegment) {
  full_heap a{4};
  for (std::uint32_t segment = 0; segment < 4; ++segment) {
    a.release(1, segment, 0);
    auto const grant = a.claim(32);
    EXPECT_EQ(grant.segment, segment);
    EXPECT_EQ(grant.value, 1u);
  }
}

TEST(SliceClaim, ChoosesTheFullerOfTwoSegments) {
  full_heap a{2};
  ASSERT_EQ(a.state.blocks_of(a.id), 1u);
  a.release(0b11111, 0, 0);
  a.release(0b1, 1, 0);
  std::uint32_t switched = 0;
  for (std::uint32_t random = 0; random < 1000; ++random) {
    switched += slice_claim::fuller_of_two(a.state, a.id, 1, 0, mix(random));
    EXPECT_EQ(slice_claim::fuller_of_two(a.state, a.id, 1, 1, mix(random)), 1u);
  }
  EXPECT_GT(switched, 400u) << "half of the numbers select segment 1";
}

TEST(SliceClaim, ChoosesASegmentWithoutSlicesIfItIsTheFirst) {
  full_heap a{2};
  a.release(0b1, 0, 0);
  a.release(0b1, 1, 0);
  auto const grant = a.claim(1);
  std::uint32_t const empty = grant.segment;  // still in the tree
  for (std::uint32_t random = 0; random < 100; ++random) {
    EXPECT_EQ(slice_claim::fuller_of_two(a.state, a.id, 1, empty, mix(random)), empty)
        << "the search withdraws it";
    EXPECT_EQ(slice_claim::fuller_of_two(a.state, a.id, 1, 1 - empty, mix(random)), 1 - empty);
  }
}

TEST(SliceClaim, ChoosesASegmentWithEnoughSlices) {
  full_heap a{2};
  a.release(0b11111, 0, 0);
  a.release(0b11, 1, 0);
  for (std::uint32_t random = 0; random < 100; ++random)
    EXPECT_EQ(slice_claim::fuller_of_two(a.state, a.id, 3, 0, mix(random)), 0u);
}

TEST(SliceClaim, CountsTheSlicesOfAllBlocksOfASegment) {
  full_heap a{2, 16};
  ASSERT_EQ(a.state.blocks_of(a.id), 4u);
  a.release(0b11, 0, 0);                     // block 0
  a.release(0b11, 0, 3 * words_per_block);   // block 3
  a.release(0b111, 1, 1 * words_per_block);  // block 1
  EXPECT_EQ(slice_claim::free_slices(a.state, a.id, 0, 4), 4u);
  EXPECT_EQ(slice_claim::free_slices(a.state, a.id, 1, 4), 3u);
  for (std::uint32_t i = 0; i < words_per_block; ++i)
    a.release(~word{0}, 1, 2 * words_per_block + i);
  EXPECT_EQ(slice_claim::free_slices(a.state, a.id, 1, 4), 3u + slices_per_block) << "a free block";
}

/// Whether a claim chooses between two segments of `segment_bytes` with slices of `size` bytes.
bool chooses(bytes segment_bytes, std::uint32_t size) {
  heap const owner{
      {.bytes = 2 * segment_bytes, .segment_bytes = segment_bytes, .backend_kind = backend::cpu}};
  (void)test::fill(owner, size);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(size);
  auto const release = [&](word slices, std::uint32_t segment) {
    (void)slice_return::release(state, id, state.segments[segment].generation(),
                                state.block_at(id, segment, 0), segment, 0, slices);
  };
  release(0b11111, 0);
  release(0b1, 1);
  for (std::uint32_t random = 0; random < 100; ++random)
    if (slice_claim::fuller_of_two(state, id, 1, 0, mix(random)) == 1) return true;
  return false;
}

TEST(SliceClaim, ChoosesOnlyInSmallHeapsAndWhereASegmentHasFewBlocks) {
  EXPECT_TRUE(chooses(bytes{64} << 10, 16)) << "four blocks";
  EXPECT_FALSE(chooses(bytes{128} << 10, 16)) << "eight blocks";
  EXPECT_TRUE(chooses(bytes{512} << 10, 1024));
  EXPECT_FALSE(chooses(bytes{1024} << 10, 1024)) << "one block, but a large segment";
}

/// Replaces random ones of 1,000 allocations, which need 16 segments. (A class takes fresh slices
/// while more than two of the 32 segments are free.)
TEST(SliceClaim, SegmentsThatFewAllocationsUseBecomeFree) {
  full_heap a{32, 1024};
  std::vector<void*> all;
  for (auto const& each : a.owner.live_allocations()) all.push_back(each.address);
  std::mt19937 numbers{1};
  std::shuffle(all.begin(), all.end(), numbers);
  for (; all.size() > 1000; all.pop_back()) heap_internals::free_now(a.owner.ref(), all.back());
  for (int i = 0; i < 20'000; ++i) {
    void*& place = all[numbers() % all.size()];
    heap_internals::free_now(a.owner.ref(), place);
    place = a.owner.ref().malloc(test::net(1024));
    ASSERT_NE(place, nullptr);
  }
  EXPECT_GE(a.owner.stats().free_segments, bytes{64} * 1024);
  for (void* const each : all) heap_internals::free_now(a.owner.ref(), each);
}

TEST(SliceClaim, TakesSlicesOfAFullyReleasedWord) {
  full_heap a{1};
  a.release(~word{0}, 0, 0);
  EXPECT_EQ(a.claim(32).value, low_bits(32));
  EXPECT_EQ(a.claim(32).value, ~low_bits(32));
  EXPECT_EQ(a.claim(32).origin, slice_request::source::none);
}

TEST(SliceClaim, WithdrawsTheAdvertisementOfAnEmptyBlock) {
  full_heap a{1};
  a.release(1, 0, 0);
  (void)a.claim(1);
  EXPECT_TRUE(a.state.class_tree(a.id).contains(0)) << "the first claim does not check for more";
  (void)a.claim(1);
  EXPECT_FALSE(a.state.class_tree(a.id).contains(0));
  EXPECT_EQ(a.state.advertised_at(0, 0).load(simt::relaxed), 0u);
}

TEST(SliceClaim, RevivesABlockThatIsFree) {
  full_heap a{2, 32};
  block const first = a.state.block_at(a.id, 0, 0);
  for (std::uint32_t i = 0; i < first.words(); ++i) a.release(~word{0}, 0, i);
  ASSERT_TRUE(first.peek().is_free());
  auto const grant = a.claim(3);
  EXPECT_EQ(grant.segment, 0u);
  EXPECT_EQ(grant.index, 0u);
  EXPECT_EQ(grant.value, 0b111u);
  EXPECT_EQ(first.peek().count(), 1021);
  EXPECT_EQ(a.state.segments[0].free_blocks(), 0u);
  EXPECT_EQ(a.claim(1).origin, slice_request::source::bits) << "the revived block stays advertised";
}

TEST(SliceClaim, LeavesAFreeBlockThatAnotherLaneHasReserved) {
  full_heap a{2, 32};
  block const first = a.state.block_at(a.id, 0, 0);
  for (std::uint32_t i = 0; i < first.words(); ++i) a.release(~word{0}, 0, i);
  ASSERT_TRUE(a.state.segments[0].reserve_free_block());
  EXPECT_EQ(a.claim(1).origin, slice_request::source::none);
  EXPECT_TRUE(first.peek().is_free());
  slice_return::add_free_blocks(a.state, a.id, 0, 1);
  EXPECT_EQ(a.claim(1).origin, slice_request::source::bits);
}

/// A search for adjacent slices looks at one of a segment's masks of hints at a time. The number
/// that selects the segment must not decide which one.
TEST(SliceClaim, FindsAdjacentSlicesInEachMaskOfEachSegment) {
  if (is_on(mitigation::canary)) GTEST_SKIP() << "tests the heap beneath the mitigations";
  for (std::uint32_t segment = 0; segment < 2; ++segment) {
    for (std::uint32_t mask = 0; mask < 2; ++mask) {
      heap const owner{{.bytes = 8_MiB, .segment_bytes = 4_MiB, .backend_kind = backend::cpu}};
      auto& state = test::state_of(owner);
      size_class const id = size_class_of(32);
      (void)test::fill(owner, 32);
      std::uint32_t const index = (mask * bits_per_word + 5) * words_per_block;
      (void)slice_return::release(state, id, state.segments[segment].generation(),
                                  state.block_at(id, segment, index / words_per_block), segment,
                                  index, 0b11);
      for (std::uint32_t other = 0; other < 4; ++other)  // single slices everywhere
        (void)slice_return::release(state, id, state.segments[other / 2].generation(),
                                    state.block_at(id, other / 2, other % 2 * bits_per_word),
                                    other / 2, other % 2 * bits_per_word * words_per_block, 1);
      slice_request request{&state, id, 2};
      request.joined = 2;
      request.patience.spend();  // starts the clock
      EXPECT_TRUE(slice_claim::claim_returned(request, 200)) << segment << ", " << mask;
      EXPECT_EQ(request.segment, segment);
      EXPECT_EQ(request.index, index);
    }
  }
}

/// A lane that found the segment when it had class `stale`, and claims late.
TEST(SliceClaim, CancelsItsReservationInASegmentThatChangedItsClass) {
  full_heap a{1};
  size_class const stale = size_class_of(64);
  a.release(0b11, 0, 0);
  slice_request request{&a.state, stale, 1};
  request.generation = a.state.segments[0].generation() + 1;
  EXPECT_FALSE(slice_claim::claim_in_block(request, 0, 0));
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().count(), 2) << "it returned its reservation";
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().lanes_inside(), 0u);
  EXPECT_FALSE(slice_claim::claim_in_block(request, 0, 3))
      << "a block that the segment no longer has";
  EXPECT_EQ(request.origin, slice_request::source::none);
}

TEST(SliceClaim, CancelsItsRevivalInASegmentThatChangedItsClass) {
  full_heap a{2, 32};
  block const first = a.state.block_at(a.id, 0, 0);
  for (std::uint32_t i = 0; i < first.words(); ++i) a.release(~word{0}, 0, i);
  slice_request request{&a.state, size_class_of(640), 1};
  EXPECT_EQ(slice_claim::revive_block(request, 0, 0), 0u);
  EXPECT_TRUE(first.peek().is_free());
  EXPECT_EQ(a.state.segments[0].free_blocks(), 1u);
}

TEST(SliceClaim, RemovesASegmentOfAnotherClassFromItsTree) {
  full_heap a{1};
  size_class const stale = size_class_of(64);
  a.release(1, 0, 0);
  a.state.class_tree(stale).insert(0);
  slice_request request{&a.state, stale, 1};
  EXPECT_FALSE(slice_claim::claim_returned(request, max_tries));
  EXPECT_TRUE(a.state.class_tree(stale).empty());
  EXPECT_TRUE(a.state.class_tree(a.id).contains(0));
  EXPECT_EQ(a.claim(1).value, 1u);
}

TEST(SliceClaim, FindsNothingAndLosesNothingBeforeTheBitsOfAnAnnouncedReleaseAreSet) {
  full_heap a{1};
  block const only = a.state.block_at(a.id, 0, 0);
  (void)only.announce(2);
  slice_return::advertise(a.state, a.id, 0, 0);
  EXPECT_EQ(a.claim(2).origin, slice_request::source::none);
  EXPECT_EQ(only.peek().count(), 2);
  (void)only.word_at(0).release(0b11);
  EXPECT_EQ(a.claim(2).value, 0b11u);
}

}  // namespace slice_claim_test
}  // namespace quarry
