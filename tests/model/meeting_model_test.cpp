// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of ranks that meet several times. The model runs the steps of a meeting
// themselves, and not a copy of the protocol.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/small_reduction.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quarry::test {
namespace meeting_model_test {

constexpr std::uint32_t kind = 1;
constexpr std::uint32_t numbers = 3;  // that each rank adds
constexpr mpi::small_reduction sum{mpi::small_reduction::number::uint64, MPI_SUM};

/// Blocks of ranks, and what ranks have seen.
class observed_meetings {
 public:
  observed_meetings(std::uint32_t ranks, std::uint32_t block_ranks)
      : ranks_{ranks}, block_ranks_{block_ranks}, blocks_((ranks + block_ranks - 1) / block_ranks) {
    counters_.resize(mpi::block_place::kinds * mpi::seat::counter_stride);
    values_.resize(2 * mpi::values_of(blocks()));
  }

  /// As if `meetings` meetings were complete.
  void begin(std::uint64_t meetings) {
    for (auto& block : blocks_) {
      block = {};
      block.meetings = static_cast<std::uint32_t>(meetings);
      block.expected[kind] = meetings * blocks();
    }
    counters_.assign(counters_.size(), 0);
    counters_[kind * mpi::seat::counter_stride] = meetings * blocks();
    values_.assign(values_.size(), 0);
    broadcast_[0] = broadcast_[1] = 0;
    begun_ = 0;
    problem_.clear();
  }

  /// The ranks' numbers are added. Rank `meeting` % ranks also sends a number to all ranks.
  void meet(std::uint32_t rank, std::uint32_t meeting) {
    std::uint32_t const block = rank / block_ranks_, first = block * block_ranks_;
    mpi::seat const at{
        blocks_[block], counters_.data(), block, blocks(), std::min(block_ranks_, ranks_ - first),
        rank - first,   block_ranks_};
    mpi::arrival const arrived{at, kind};
    ++begun_;
    if (meeting % ranks_ == rank) broadcast_[arrived.number() % 2] = 100 + meeting;
    for (std::uint32_t i = 0; i < numbers; ++i)
      at.place.slots[mpi::block_place::slot(i * mpi::block_place::padded(at.members) + at.own)] =
          value(rank, meeting) * (i + 1);
    simt::lane_group const alone = simt::lane_group::alone();
    if (arrived.arrive(alone)) {
      mpi::small_reduction_work const work{
          at, sum, numbers, values_.data() + arrived.number() % 2 * mpi::values_of(blocks())};
      if (!mpi::represent_block(at, arrived, alone, work, 1))
        while (!arrived.is_complete()) simt::pause();
      mpi::finish_block(at, arrived, alone, work);
    }
    while (!arrived.is_published()) simt::pause();
    // Each rank has arrived, and has not finished two meetings more than this one.
    if (begun_ < ranks_ * (meeting + 1)) problem_ = "a rank went on before another had arrived";
    std::uint64_t expected = 0;
    for (std::uint32_t i = 0; i < ranks_; ++i) expected += value(i, meeting);
    for (std::uint32_t i = 0; i < numbers; ++i)
      if (at.place.results[i] != expected * (i + 1)) problem_ = "a rank got another sum";
    simt::interleave();
    if (broadcast_[arrived.number() % 2] != 100 + meeting) problem_ = "a rank got another number";
  }

  [[nodiscard]] std::string check() const {
    for (auto const& block : blocks_)
      if (block.arrived[kind] != 0) return "a block's counter did not return to 0";
    return problem_;
  }

 private:
  [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }
  [[nodiscard]] static std::uint64_t value(std::uint32_t rank, std::uint32_t meeting) {
    return std::uint64_t{1} << (8 * meeting + rank);
  }

  std::uint32_t ranks_, block_ranks_;
  std::vector<mpi::block_place> blocks_;
  std::vector<std::uint64_t> counters_, values_;
  std::uint64_t broadcast_[2] = {};
  std::uint64_t begun_ = 0;
  std::string problem_;
};

/// `complete` meetings precede.
void explore_all(std::uint32_t ranks, std::uint32_t block_ranks, std::uint32_t meetings,
                 explore_options options, std::uint64_t complete = 0) {
  observed_meetings observed{ranks, block_ranks};
  expect_all_schedules_hold(
      [&] {
        observed.begin(complete);
        scenario run;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
          run.lanes.emplace_back([&, rank] {
            for (std::uint32_t meeting = 0; meeting < meetings; ++meeting)
              observed.meet(rank, meeting);
          });
        run.check = [&] { return observed.check(); };
        return run;
      },
      options);
}

TEST(MeetingModel, TwoRanksOfABlockMeetThreeTimes) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(2, 2, 3, {.preemptions = 5});
}

TEST(MeetingModel, TwoBlocksOfOneRankMeetThreeTimes) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(2, 1, 3, {.preemptions = 4});
}

TEST(MeetingModel, TwoBlocksOfTwoRanksMeetTwice) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(4, 2, 2, {.preemptions = 1});
}

TEST(MeetingModel, ABlockCanBeSmallerThanOthers) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(3, 2, 3, {.preemptions = 2});
}

TEST(MeetingModel, NumbersOfMeetingsWrap) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(3, 2, 3, {.preemptions = 2}, 0xfffffffe);
}

}  // namespace meeting_model_test
}  // namespace quarry::test
