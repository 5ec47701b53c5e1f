// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/growth_policy.hpp"

#include <gtest/gtest.h>

#include <random>

namespace quarry::test {

using namespace detail;
namespace growth_policy_test {

TEST(GrowthPolicy, ExactTakesTheNeededRoom) {
  auto const policy = growth_policy::exact();
  EXPECT_EQ(policy.capacity_for(10, 100, 0), 10u);
  EXPECT_EQ(policy.capacity_for(100, 10, 0), 100u);
}

TEST(GrowthPolicy, GeometricNeverShrinks) {
  auto const policy = growth_policy::geometric(2);
  EXPECT_EQ(policy.capacity_for(10, 8, 0), 20u);
  EXPECT_EQ(policy.capacity_for(1, 20, 0), 20u);
  EXPECT_EQ(policy.capacity_for(20, 20, 0), 20u);
}

TEST(GrowthPolicy, HysteresisKeepsTheRoomBetweenItsBounds) {
  auto const policy = growth_policy::hysteresis(1.5, 0.5);
  EXPECT_EQ(policy.capacity_for(100, 0, 0), 150u);
  EXPECT_EQ(policy.capacity_for(150, 150, 0), 150u);
  EXPECT_EQ(policy.capacity_for(75, 150, 0), 150u);
  EXPECT_EQ(policy.capacity_for(74, 150, 0), 111u);
}

TEST(GrowthPolicy, HistoryTakesThePeakOfTheNextSizes) {
  auto const policy = growth_policy::from_history({10, 50, 20, 20, 20, 5}, 2);
  EXPECT_EQ(policy.capacity_for(10, 0, 0), 50u);
  EXPECT_EQ(policy.capacity_for(50, 50, 1), 50u);
  EXPECT_EQ(policy.capacity_for(20, 50, 2), 20u);
  EXPECT_EQ(policy.capacity_for(100, 50, 2), 125u) << "the history is too small for this size";
  EXPECT_EQ(policy.capacity_for(100, 50, 99), 125u) << "the history has ended";
}

TEST(GrowthPolicy, RefusesInvalidParameters) {
  EXPECT_THROW((void)growth_policy::geometric(1), bad_argument);
  EXPECT_THROW((void)growth_policy::geometric(17), bad_argument);
  EXPECT_THROW((void)growth_policy::hysteresis(1.5, 0), bad_argument);
  EXPECT_THROW((void)growth_policy::hysteresis(1.5, 0.7), bad_argument);
  EXPECT_THROW((void)growth_policy::from_history({}), bad_argument);
  EXPECT_THROW((void)growth_policy::from_history({1}, 0), bad_argument);
}

TEST(GrowthPolicy, AlwaysGivesEnoughRoomAndIsStable) {
  std::mt19937 random{1};
  std::vector<std::size_t> history(100);
  for (auto& size : history) size = random() % 1000;
  for (auto const& policy : {growth_policy::exact(), growth_policy::geometric(),
                             growth_policy::hysteresis(), growth_policy::from_history(history)}) {
    std::size_t capacity = 0;
    for (std::size_t change = 0; change < 1000; ++change) {
      std::size_t const size = random() % 1000;
      capacity = policy.capacity_for(size, capacity, change);
      ASSERT_GE(capacity, size);
      ASSERT_EQ(policy.capacity_for(size, capacity, change), capacity)
          << "the same size changes the capacity again";
    }
  }
}

}  // namespace growth_policy_test
}  // namespace quarry::test
