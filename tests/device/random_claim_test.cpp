// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/random_claim.hpp"

#include "quarry/device/detail/heap_internals.hpp"
#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"
#include "support/full_heap.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace quarry {

using namespace detail;
namespace random_claim_test {

struct full_heap : test::full_heap {
  using test::full_heap::full_heap;

  random_claim::slices_of_word find(std::uint32_t count, std::uint32_t random) {
    return random_claim::find(state, id, count, random);
  }
};

TEST(RandomClaim, FindsNothingIfNoSliceWasReleased) {
  full_heap a{2};
  for (std::uint32_t random = 0; random < 100; ++random)
    EXPECT_EQ(a.find(1, mix(random)).slices, 0u);
}

TEST(RandomClaim, PrefersTheFullerOfTwoSegments) {
  full_heap a{2};
  a.release(0b11111, 0, 0);
  a.release(0b1, 1, 0);
  int of_fuller = 0;
  for (std::uint32_t random = 0; random < 1000; ++random)
    of_fuller += a.find(1, mix(random)).segment == 1 ? 1 : 0;
  EXPECT_GT(of_fuller, 650) << "three quarters of the pairs";
}

/// Of the words that it reads, it prefers one with as many freed slices as wanted.
TEST(RandomClaim, FindsAWordWithEnoughSlices) {
  full_heap a{1};
  a.release(0b1, 0, 0);
  a.release(0b1111, 0, 1);
  for (std::uint32_t random = 0; random < 100; ++random) {
    auto const found = a.find(4, mix(random));
    EXPECT_EQ(found.index, 1u);
    EXPECT_EQ(found.slices, 0b1111u);
    EXPECT_EQ(found.segment, 0u);
    EXPECT_EQ(found.generation, a.state.segments[0].generation());
  }
}

TEST(RandomClaim, FindsSlicesInAnySegmentAndBlock) {
  full_heap a{4, 32};  // two blocks a segment
  std::set<std::pair<std::uint32_t, std::uint32_t>> places, found_places;
  for (std::uint32_t segment = 0; segment < 4; ++segment) {
    for (std::uint32_t index : {0u, words_per_block}) {
      for (std::uint32_t i = 0; i < words_per_block; ++i) a.release(1, segment, index + i);
      places.emplace(segment, index);
    }
  }
  for (std::uint32_t random = 0; random < 1000; ++random) {
    auto const found = a.find(1, mix(random));
    ASSERT_EQ(found.slices, 1u);
    found_places.emplace(found.segment, found.index / words_per_block * words_per_block);
  }
  EXPECT_EQ(found_places, places);
}

/// A segment with more than 64 blocks has several masks of hints. One random number selects both.
TEST(RandomClaim, FindsSlicesInEachMaskOfEachSegment) {
  heap const owner{{.bytes = 4_MiB, .segment_bytes = 2_MiB, .backend_kind = backend::cpu}};
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(16 + hardening::padded(0));
  ASSERT_EQ(state.masks_per_segment(), 2u);
  if (is_on(mitigation::canary)) GTEST_SKIP() << "16 B have no class of their own";
  (void)test::fill(owner, 16);
  for (std::uint32_t segment = 0; segment < 2; ++segment) {
    for (std::uint32_t word_index = 0; word_index < 128 * words_per_block; ++word_index)
      (void)slice_return::release(state, id, state.segments[segment].generation(),
                                  state.block_at(id, segment, word_index / words_per_block),
                                  segment, word_index, 1);
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> found;
  for (std::uint32_t random = 0; random < 1000; ++random) {
    auto const slices = random_claim::find(state, id, 1, mix(random));
    ASSERT_EQ(slices.slices, 1u);
    found.emplace(slices.segment, slices.index / words_per_block / bits_per_word);
  }
  EXPECT_EQ(found.size(), 4u);
}

TEST(RandomClaim, ClaimsAtMostTheWantedSlicesThatAreStillFree) {
  full_heap a{1};
  a.release(0b10110, 0, 1);
  auto const found = a.find(2, 0);
  EXPECT_EQ(random_claim::claim_found(a.state, a.id, found, 2), 0b00110u);
  EXPECT_EQ(random_claim::claim_found(a.state, a.id, found, 2), 0u) << "other lanes were faster";
  EXPECT_EQ(random_claim::claim_found(a.state, a.id, a.find(2, 0), 2), 0b10000u);
  EXPECT_EQ(random_claim::claim_found(a.state, a.id, found, 1), 0u);
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().count(), 0);
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().lanes_inside(), 0u);
}

TEST(RandomClaim, CancelsItsReservationInALaterUseOfTheSegment) {
  full_heap a{1};
  a.release(0b11, 0, 0);
  auto found = a.find(1, 0);
  found.generation = block_state::next_generation(found.generation);
  EXPECT_EQ(random_claim::claim_found(a.state, a.id, found, 1), 0u);
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().count(), 2);
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().lanes_inside(), 0u);
}

/// A full word of a block whose last word is short stays counted correctly (the audit checks it).
TEST(RandomClaim, TakesSlicesOfFullWords) {
  full_heap a{1};
  std::uint32_t const words = a.state.block_at(a.id, 0, 0).words();
  ASSERT_NE(a.state.block_at(a.id, 0, 0).mask(words - 1), ~word{0});
  a.release(a.state.block_at(a.id, 0, 0).mask(words - 1), 0, words - 1);
  auto const found = a.find(1, ~0u);
  ASSERT_EQ(found.index, words - 1);
  EXPECT_EQ(random_claim::claim_found(a.state, a.id, found, 1), 1u);
  EXPECT_EQ(a.state.block_at(a.id, 0, 0).peek().full_words(), 0);
}

TEST(RandomClaim, ClaimsNothingWhileThereAreFreshSlices) {
  size_class const id = size_class_of(640);
  for (std::uint32_t segments : {32u, 1u}) {
    auto const owner = test::small_heap(segments);
    void* const first = owner.ref().malloc(test::net(640));
    ASSERT_NE(owner.ref().malloc(test::net(640)), nullptr);
    owner.ref().free(first);
    auto const got = random_claim::claim(heap_internals::handle_of(owner.ref()), id, 0);
    EXPECT_EQ(got.slice, nullptr);
    EXPECT_EQ(got.is_roomy, segments == 32) << "else the class has tickets";
  }
}

TEST(RandomClaim, LeavesACounterThatMustBeRewoundToTheSearch) {
  full_heap a{1};
  a.release(1, 0, 0);
  auto const handle = heap_internals::handle_of(a.owner.ref());
  EXPECT_EQ(random_claim::claim(handle, a.id, ticket_counter::ticket_limit).slice, nullptr);
  EXPECT_NE(random_claim::claim(handle, a.id, ticket_counter::ticket_limit - 1).slice, nullptr);
}

/// Lanes of four classes claim freed slices in one call. Twice as many were freed as they want.
TEST(RandomClaim, LanesOfSeveralClassesGetDifferentFreedSlices) {
  QUARRY_TEST_USES_FIBERS();
  constexpr std::uint32_t sizes[] = {32, 128, 640, 2048};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const owner = test::small_heap(8);
    std::set<void*> in_use;
    for (std::uint32_t const size : sizes) {  // two segments each
      std::vector<void*> slices;
      while (slices.size() < 2 * 65536 / size)
        slices.push_back(owner.ref().malloc(test::net(size)));
      for (std::size_t i = 0; i < slices.size(); ++i) {
        if (i % (slices.size() / 16) == 0 && i / (slices.size() / 16) < 16)
          owner.ref().free(slices[i]);
        else
          in_use.insert(slices[i]);
      }
    }
    void* got[simt::warp_size] = {};
    simt::launch_fibers({1, simt::warp_size}, {.seed = seed}, [&, ref = owner.ref()] {
      std::uint32_t const lane = simt::this_place().thread;
      got[lane] = ref.malloc(test::net(sizes[lane % 4]));
    });
    for (void* const slice : got) {
      EXPECT_NE(slice, nullptr) << "seed " << seed;
      EXPECT_TRUE(in_use.insert(slice).second) << "seed " << seed;
    }
  }
}

/// Lanes of one warp use a heap without free segments and a heap with many: some lanes claim freed
/// slices, and others get fresh ones, by the word of one of the heaps.
TEST(RandomClaim, LanesOfTwoHeapsGetSlicesOfTheirHeap) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    heap const heaps[] = {test::small_heap(4), test::small_heap(64)};
    std::set<void*> all_of_full;
    for (void* const slice : test::fill(heaps[0], 640)) {
      if (all_of_full.size() % 3 == 0) heaps[0].ref().free(slice);  // 136 of 408
      all_of_full.insert(slice);
    }
    void* got[64] = {};
    simt::launch_fibers({1, 64}, {.seed = seed},
                        [&, full = heaps[0].ref(), roomy = heaps[1].ref()] {
                          std::uint32_t const lane = simt::this_place().thread;
                          got[lane] = (lane % 2 == 0 ? full : roomy).malloc(test::net(640));
                        });
    std::set<void*> different;
    for (std::uint32_t lane = 0; lane < 64; ++lane) {
      ASSERT_NE(got[lane], nullptr) << "seed " << seed << ", lane " << lane;
      EXPECT_TRUE(different.insert(got[lane]).second) << "seed " << seed << ", lane " << lane;
      EXPECT_EQ(all_of_full.count(got[lane]), lane % 2 == 0 ? 1u : 0u);
    }
    for (heap const& each : heaps) {
      for (auto const& problem : each.audit()) ADD_FAILURE() << problem;
    }
  }
}

}  // namespace random_claim_test
}  // namespace quarry
