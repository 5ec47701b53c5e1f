// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/slice_return.hpp"

#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace quarry {
namespace {

/// A heap of one segment, every slice of which is handed out.
struct full_segment {
  explicit full_segment(std::uint32_t size)
      : owner{test::small_heap(1)}, state{test::state_of(owner)}, id{size_class_of(size)} {
    while (owner.ref().malloc(size - hardening::padded(0)) != nullptr) {
    }
  }

  [[nodiscard]] block block_of(std::uint32_t index) const {
    return state.block_at(id, 0, index / words_per_block);
  }
  word release(std::uint32_t index, word slices) {
    return slice_return::release(state, id, block_of(index), 0, index, slices);
  }
  void release_all_of_block(std::uint32_t index) {
    block const of = state.block_at(id, 0, index);
    for (std::uint32_t i = 0; i < of.words(); ++i)
      EXPECT_EQ(release(index * words_per_block + i, ~of.empty(i)), 0u);
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

TEST(SliceReturn, AdvertisesTheBlockOfTheFirstSliceBack) {
  full_segment a{32};
  EXPECT_FALSE(a.is_advertised(1));
  EXPECT_EQ(a.release(words_per_block + 3, 1), 0u);
  EXPECT_TRUE(a.is_advertised(1));
  EXPECT_FALSE(a.is_advertised(0));
  EXPECT_TRUE(a.state.class_tree(a.id).contains(0));
  a.expect_sound();
}

TEST(SliceReturn, TellsWhichSlicesWereBackAlready) {
  full_segment a{640};
  EXPECT_EQ(a.release(0, 0b0110), 0u);
  EXPECT_EQ(a.release(0, 0b0011), 0b0010u);
  EXPECT_EQ(a.release(0, 0b0111), 0b0111u);
  EXPECT_EQ(a.block_of(0).count(), 3) << "what was not in use is not counted";
  a.expect_sound();
}

TEST(SliceReturn, RefusesSlicesOfAFreeBlockAndChangesNothing) {
  full_segment a{32};
  a.release_all_of_block(0);
  ASSERT_TRUE(a.block_of(0).is_free());
  EXPECT_EQ(a.release(0, 1), 1u);
  EXPECT_EQ(a.release(3, 0b1010), 0b1010u);
  EXPECT_EQ(a.block_of(0).count(), block::free);
  EXPECT_EQ(a.state.segments[0].free_blocks(), 1u);
  a.expect_sound();
}

TEST(SliceReturn, FreesABlockWhoseLastSliceComesBackAmongDoubleFrees) {
  full_segment a{32};
  block const first = a.block_of(0);
  for (std::uint32_t i = 0; i < first.words(); ++i)
    EXPECT_EQ(a.release(i, i == 5 ? ~word{0b100} : ~word{0}), 0u);
  EXPECT_EQ(a.release(5, 0b111), 0b011u);
  EXPECT_TRUE(first.is_free());
  a.expect_sound();
}

TEST(SliceReturn, FreesABlockByTheLastReservationThatIsGivenUp) {
  full_segment a{32};
  block const first = a.block_of(0);
  EXPECT_EQ(a.release(0, ~word{0}), 0u);
  ASSERT_EQ(block::reserved_of(first.reserve(7), 7), 7u);
  for (std::uint32_t i = 1; i < first.words(); ++i) EXPECT_EQ(a.release(i, ~word{0}), 0u);
  EXPECT_FALSE(first.is_free());
  slice_return::return_reserved(a.state, 0, 0, 3, first.peek());
  EXPECT_FALSE(first.is_free());
  slice_return::return_reserved(a.state, 0, 0, 4, first.peek());
  EXPECT_TRUE(first.is_free());
  EXPECT_EQ(a.state.segments[0].free_blocks(), 1u);
  a.expect_sound();
}

TEST(SliceReturn, AdvertisesAgainWhatAReservationKeptFromOthers) {
  full_segment a{640};
  EXPECT_EQ(a.release(0, 1), 0u);
  ASSERT_EQ(block::reserved_of(a.block_of(0).reserve(1), 1), 1u);
  EXPECT_EQ(slice_return::withdraw(a.state, 0, 0), 0u);
  EXPECT_FALSE(a.is_advertised(0)) << "all is reserved";
  slice_return::return_reserved(a.state, 0, 0, 1, a.block_of(0).peek());
  EXPECT_TRUE(a.is_advertised(0));
  a.expect_sound();
}

TEST(SliceReturn, WithdrawsAnAdvertisementOnlyIfNothingIsThere) {
  full_segment a{640};
  (void)a.release(0, 1);
  EXPECT_EQ(slice_return::withdraw(a.state, 0, 0), 0u);
  EXPECT_TRUE(a.is_advertised(0)) << "it looked again";
  a.expect_sound();
}

TEST(SliceReturn, WithdrawsALateAdvertisementOfAnEarlierUse) {
  full_segment a{640};
  size_class const other = size_class_of(48);
  slice_return::advertise(a.state, other, 0, 2);
  EXPECT_FALSE(a.is_advertised(2)) << "the segment has no such block";
  slice_return::advertise(a.state, other, 0, 0);
  EXPECT_FALSE(a.is_advertised(0)) << "nothing of it is back";
  a.expect_sound();
}

TEST(SliceReturn, AddsNothingToAUseThatBeganAfterTheReservation) {
  heap const owner{{.bytes = 2_MiB, .segment_bytes = 2_MiB, .where = machine::cpu, .seed = 1}};
  heap_state& state = test::state_of(owner);
  std::vector<void*> all;
  for (void* one = owner.ref().malloc(24 - hardening::padded(0)); one != nullptr;
       one = owner.ref().malloc(24 - hardening::padded(0))) {
    all.push_back(one);
  }
  ASSERT_GT(state.blocks_of(size_class_of(24)), slice_return::few_blocks) << "all states are wiped";
  constexpr std::uint32_t index = 100;
  ASSERT_LT(state.blocks_of(size_class_of(24)), index) << "it reserves where no block is";
  word const before = state.block_at(0, 0, index).reserve(32);
  for (void* const one : all) owner.ref().release(one);
  ASSERT_EQ(state.segment_tree().count(), 1u);
  slice_return::return_reserved(state, 0, index, 32, before);
  EXPECT_EQ(state.block_at(0, 0, index).count(), 0);
  for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
}

TEST(SliceReturn, AdvertisesNoBlockThatTheSegmentDoesNotHave) {
  full_segment a{640};
  block const none = a.state.block_at(0, 0, 3);
  slice_return::return_reserved(a.state, 0, 3, 5, none.reserve(5));
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(a.state.advertised_at(0, 0).load(simt::relaxed), 0u);
  a.expect_sound();
}

TEST(SliceReturn, GivesTheSegmentBackWithItsLastSliceInWhateverOrderTheyCome) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    full_segment a{seed % 2 == 0 ? 32u : 640u};
    std::set<std::uint32_t> in_use;
    for (std::uint32_t slice = 0; slice < a.state.shapes[a.id].slices; ++slice)
      in_use.insert(slice);
    while (!in_use.empty()) {
      EXPECT_TRUE(a.state.segment_tree().empty());
      auto const after = in_use.lower_bound(static_cast<std::uint32_t>(random() % 2048));
      auto const slice = after == in_use.end() ? *in_use.begin() : *after;
      in_use.erase(slice);
      ASSERT_EQ(a.release(slice / bits_per_word, word{1} << slice % bits_per_word), 0u);
      if (random() % 128 == 0) a.expect_sound();
    }
    EXPECT_TRUE(a.state.segment_tree().contains(0));
    a.expect_sound();
  }
}

}  // namespace
}  // namespace quarry
