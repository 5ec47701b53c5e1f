// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/slice_bitmap.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>

namespace quarry {

using namespace detail;
namespace slice_bitmap_test {

TEST(SliceWord, AReleaseReturnsTheOldBits) {
  word bits = 0b0100;
  slice_word const slices{bits};
  EXPECT_EQ(slices.release(0b0011), 0b0100u);
  EXPECT_EQ(slices.peek(), 0b0111u);
  EXPECT_EQ(slices.peek(), 0b0111u);
}

TEST(SliceWord, ShowsADoubleFreeByTheOldBit) {
  word bits = 0;
  slice_word const slices{bits};
  EXPECT_EQ(slices.release(0b1000) & 0b1000, 0u);
  EXPECT_EQ(slices.release(0b1000) & 0b1000, 0b1000u) << "it was free already";
  EXPECT_EQ(bits, 0b1000u) << "the word is unchanged";
}

TEST(SliceWord, AClaimGetsTheSlicesThatAreStillFree) {
  word bits = 0b1110;
  slice_word const slices{bits};
  EXPECT_EQ(slices.claim(0b0110), 0b1110u);
  EXPECT_EQ(bits, 0b1000u);
  EXPECT_EQ(slices.claim(0b1100), 0b1000u) << "one slice was taken meanwhile";
  EXPECT_EQ(slices.claim(0b1100), 0u);
  EXPECT_EQ(bits, 0u);
}

TEST(SliceWord, ResetStoresTheGivenBits) {
  word bits = 5;
  slice_word{bits}.reset(~word{0});
  EXPECT_EQ(bits, ~word{0});
}

/// Claims slices, writes to plain memory of each, and releases them.
class contested_word {
 public:
  void work(std::uint64_t seed, int steps) {
    std::mt19937_64 random{seed};
    slice_word const slices{bits_};
    for (int step = 0; step < steps; ++step) {
      word const seen = slices.peek() & ~low_bits(static_cast<std::uint32_t>(random() % 4));
      word const wanted = lowest_ones(seen, 2);
      word const taken = slices.claim(wanted) & wanted;
      for (word rest = taken; rest != 0; rest &= rest - 1) {
        if (std::exchange(owner_[lowest_one(rest)], seed) != 0) ++shared_;
      }
      simt::interleave();
      for (word rest = taken; rest != 0; rest &= rest - 1) owner_[lowest_one(rest)] = 0;
      if (taken != 0 && (slices.release(taken) & taken) != 0) ++shared_;
    }
  }
  [[nodiscard]] bool is_complete() const { return shared_ == 0 && bits_ == low_bits(6); }

 private:
  word bits_ = low_bits(6);
  std::array<std::uint64_t, 6> owner_{};
  std::atomic<std::uint32_t> shared_{0};
};

TEST(SliceWord, GivesEachSliceToOneLaneInFibers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    contested_word contested;
    simt::launch_fibers({1, 5}, {.seed = seed, .switches = 128},
                        [&] { contested.work(1 + simt::this_place().rank(), 20); });
    ASSERT_TRUE(contested.is_complete()) << "seed " << seed;
  }
}

TEST(SliceWord, GivesEachSliceToOneLaneOnThreads) {
  contested_word contested;
  simt::launch_threads({1, 4}, 4, [&] { contested.work(1 + simt::this_place().rank(), 5000); });
  EXPECT_TRUE(contested.is_complete());
}

}  // namespace slice_bitmap_test
}  // namespace quarry
