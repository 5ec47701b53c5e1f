// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/host_lane.hpp"

#include <gtest/gtest.h>

#include <set>

namespace quarry::simt {
namespace host_lane_test {

/// A lane that only counts its calls of interleave.
class counting_lane final : public host_lane {
 public:
  using host_lane::host_lane;

  lane_mask coalesce(void const*) override { return 1; }
  std::array<std::uint64_t, warp_size> const& exchange(lane_mask, std::uint64_t,
                                                       char const*) override {
    return values_;
  }
  void block_barrier() override {}
  void grid_barrier() override {}
  void interleave() override { ++interleaved; }
  std::uint64_t& block_word() override { return word_; }
  void pause() override {}

  int interleaved = 0;

 private:
  std::array<std::uint64_t, warp_size> values_{};
  std::uint64_t word_ = 0;
};

TEST(Place, RanksLanesByBlockAndThread) {
  std::set<std::uint64_t> ranks;
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (std::uint32_t thread = 0; thread < 5; ++thread) {
      place const position{block, thread, 3, 5};
      EXPECT_EQ(position.count(), 15u);
      EXPECT_LT(position.rank(), position.count());
      ranks.insert(position.rank());
    }
  }
  EXPECT_EQ(ranks.size(), 15u);
}

TEST(Place, CountsBeyond32Bits) {
  place const last{(1u << 31) - 1, 1023, 1u << 31, 1024};
  EXPECT_EQ(last.count(), std::uint64_t{1} << 41);
  EXPECT_EQ(last.rank(), last.count() - 1);
}

TEST(HostLane, ItsLaneIsItsThreadModuloTheWarpSize) {
  EXPECT_EQ((counting_lane{{1, 0, 2, 100}}.lane()), 0u);
  EXPECT_EQ((counting_lane{{1, 31, 2, 100}}.lane()), 31u);
  EXPECT_EQ((counting_lane{{1, 70, 2, 100}}.lane()), 6u);
}

TEST(HostLane, ItsInterleaveIsCalledAtEachPointWhereLanesMaySwitch) {
  counting_lane lane{{0, 0, 1, 1}};
  current_lane = &lane;
  interleave();
  interleave();
  current_lane = nullptr;
  EXPECT_EQ(lane.interleaved, 2);
}

TEST(HostLane, CurrentLaneIsNullOutsideALaunchAndInterleaveDoesNothing) {
  EXPECT_EQ(current_lane, nullptr);
  interleave();
}

}  // namespace host_lane_test
}  // namespace quarry::simt
