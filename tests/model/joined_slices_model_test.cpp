// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of two frees of joined slices, after the first of which the slices are
// joined again with others.
#include "quarry/device/detail/joined_slices.hpp"

#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <string>

namespace quarry::test {

using namespace detail;
namespace joined_slices_model_test {

constexpr word five = low_bits(5);
constexpr word seven = low_bits(7);

/// Lanes that free the allocation at slice 0. The lane that gets its five slices allocates them
/// again, together with the two slices after them.
class observed_joins {
 public:
  void begin() {
    joins_ = 0;
    state_.joins = &joins_;
    state_.segment_shift = 16;
    joined_slices::join(state_, 0, 0, five, 5);
    frees_of_five_ = frees_of_seven_ = 0;
    problem_.clear();
  }

  void free() {
    word const slices = joined_slices::separate(state_, 0, 0);
    if (slices == five) {
      ++frees_of_five_;
      joined_slices::join(state_, 0, 0, seven, 7);
    } else if (slices == seven) {
      ++frees_of_seven_;
    } else if (slices != 0) {
      problem_ = "a lane freed a part of an allocation";
    }
  }

  [[nodiscard]] std::string check() const {
    if (!problem_.empty()) return problem_;
    if (frees_of_five_ != 1) return "not exactly one lane freed the allocation";
    word const expected = frees_of_seven_ == 0 ? seven & ~word{1} : 0;
    return joins_ == expected ? "" : "the joins are those of no allocation";
  }

 private:
  heap_state state_{};
  word joins_ = 0;
  int frees_of_five_ = 0;
  int frees_of_seven_ = 0;
  std::string problem_;
};

TEST(JoinedSlicesModel, EachFreeGetsAWholeAllocationOrNothing) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const lanes : {2u, 3u}) {
    observed_joins observed;
    auto const result = explore(
        [&] {
          observed.begin();
          scenario run;
          for (std::uint32_t lane = 0; lane < lanes; ++lane)
            run.lanes.emplace_back([&] { observed.free(); });
          run.check = [&] { return observed.check(); };
          return run;
        },
        {.preemptions = 6});
    EXPECT_EQ(result.failure, "");
    EXPECT_TRUE(result.complete);
    std::cout << lanes << " lanes: " << result.schedules << " schedules\n";
  }
}

}  // namespace joined_slices_model_test
}  // namespace quarry::test
