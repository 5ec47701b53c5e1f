// SPDX-License-Identifier: Apache-2.0
// Every interleaving of lanes that make blocks of a segment free, visit it, and give it back for its next use.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/segment_table.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace quarry::test {
namespace {

/// A segment of one block, all in use. Its next use has `next_blocks`, one of which comes back.
class watched_segment {
 public:
  explicit watched_segment(std::uint32_t next_blocks) : next_blocks_{next_blocks} {}

  void free_the_block() {
    if (entry_.add_free_blocks(1, 1)) give_back();
  }

  /// As slice_supply::claim_in_segment, by a lane that finds nothing to claim.
  void visit() {
    bool const entered = entry_.enter();
    if (entry_.leave(entered && uses_ == 0 ? 1 : 0)) give_back();
  }

  void reserve() {
    bool const entered = entry_.enter();
    if (entered && uses_ == 0 && entry_.reserve_free_block() && entry_.add_free_blocks(1, 1))
      problem_ = "given back under a visitor";
    if (entry_.leave(entered && uses_ == 0 ? 1 : 0)) give_back();
  }

  [[nodiscard]] std::string check() const {
    if (!problem_.empty()) return problem_;
    if (uses_ != 1) return "the segment was given back " + std::to_string(uses_) + " times";
    if (entry_.has_visitors()) return "a visitor is left behind";
    return entry_.free_blocks() == (next_blocks_ > 1 ? 1u : 0u)
               ? ""
               : "the next use's blocks are miscounted";
  }

 private:
  void give_back() {
    if (++uses_ != 1) return;
    entry_.end_retirement(1);
    if (next_blocks_ > 1 && entry_.add_free_blocks(1, next_blocks_))
      problem_ = "a use with blocks in use was given back";
  }

  segment_entry entry_{};
  std::uint32_t next_blocks_;
  std::uint32_t uses_ = 0;
  std::string problem_;
};

using operation = void (*)(watched_segment&);

void expect_all_interleavings_hold(std::uint32_t next_blocks, std::vector<operation> const& lanes) {
  auto const result = explore(
      [&] {
        auto const watched = std::make_shared<watched_segment>(next_blocks);
        scenario run;
        for (operation const one : lanes) run.lanes.emplace_back([watched, one] { one(*watched); });
        run.check = [watched] { return watched->check(); };
        return run;
      },
      {.preemptions = 100});
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.complete);
  std::cout << "  " << result.schedules << " schedules\n";
}

void free_the_block(watched_segment& segment) { segment.free_the_block(); }
void visit(watched_segment& segment) { segment.visit(); }
void reserve(watched_segment& segment) { segment.reserve(); }

TEST(SegmentModel, IsGivenBackOnceByTheLastReleaseOrTheLastVisitor) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(1, {free_the_block, visit});
  expect_all_interleavings_hold(1, {free_the_block, visit, visit});
  expect_all_interleavings_hold(1, {free_the_block, reserve});
  expect_all_interleavings_hold(1, {free_the_block, reserve, visit});
}

/// The next use may have as many free blocks as a lane saw that was about to give this one back.
TEST(SegmentModel, IsNotGivenBackInItsNextUseByALaneOfThisOne) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(4, {free_the_block, visit});
  expect_all_interleavings_hold(4, {free_the_block, reserve});
}

}  // namespace
}  // namespace quarry::test
