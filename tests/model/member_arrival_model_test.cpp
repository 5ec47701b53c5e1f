// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of members of a communicator that meet several times. The model runs the
// steps of a meeting themselves, and not a copy of the protocol.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/member_arrival.hpp"

#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <string>

namespace quarry::test {
namespace member_arrival_model_test {

constexpr std::uint32_t phase = 1u << 31;

/// Members that meet, and what they have seen.
class observed_members {
 public:
  explicit observed_members(std::uint32_t members) : members_{members} {}

  void begin(std::uint32_t counter) {
    counter_ = counter;
    published_[0] = published_[1] = 0;
    begun_ = 0;
    problem_.clear();
  }

  /// Member `meeting` % members sends a number to all, in the place of this turn.
  void meet(std::uint32_t member, std::uint32_t meeting) {
    std::uint32_t& published = published_[meeting % 2];
    ++begun_;
    if (meeting % members_ == member) published = 100 + meeting;
    mpi::member_arrival arrived{counter_, members_};
    if (!arrived.arrive(simt::lane_group::alone(), member == 0))
      while (!arrived.is_complete()) simt::pause();
    if (begun_ < members_ * (meeting + 1)) problem_ = "a member left before another had arrived";
    simt::interleave();
    if (published != 100 + meeting) problem_ = "a member got another number";
  }

  [[nodiscard]] std::string check() const {
    return counter_ % phase == 0 ? problem_ : "the counter has arrivals of no meeting";
  }

 private:
  std::uint32_t members_;
  std::uint32_t counter_ = 0;
  std::uint32_t published_[2] = {};
  std::uint32_t begun_ = 0;
  std::string problem_;
};

void explore_all(std::uint32_t members, std::uint32_t meetings, explore_options options) {
  observed_members observed{members};
  for (std::uint32_t const counter : {0u, phase}) {
    expect_all_schedules_hold(
        [&] {
          observed.begin(counter);
          scenario run;
          for (std::uint32_t member = 0; member < members; ++member)
            run.lanes.emplace_back([&, member] {
              for (std::uint32_t meeting = 0; meeting < meetings; ++meeting)
                observed.meet(member, meeting);
            });
          run.check = [&] { return observed.check(); };
          return run;
        },
        options);
  }
}

TEST(MemberArrivalModel, TwoMembersMeetFourTimes) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(2, 4, {.preemptions = 6});
}

TEST(MemberArrivalModel, ThreeMembersMeetThreeTimes) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(3, 3, {.preemptions = 2});
}

TEST(MemberArrivalModel, FourMembersMeetTwice) {
  QUARRY_TEST_USES_FIBERS();
  explore_all(4, 2, {.preemptions = 1});
}

}  // namespace member_arrival_model_test
}  // namespace quarry::test
