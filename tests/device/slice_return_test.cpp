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

  word release(std::uint32_t index, word slices) {
    return slice_return::release(state, id, state.shapes[id].slices, 0, index, slices);
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
  a.expect_sound();
}

TEST(SliceReturn, WithdrawsAnAdvertisementOnlyIfNothingIsThere) {
  full_segment a{640};
  (void)a.release(0, 1);
  EXPECT_EQ(slice_return::withdraw(a.state, 0, 0), 0u);
  EXPECT_TRUE(a.is_advertised(0)) << "it looked again";
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
