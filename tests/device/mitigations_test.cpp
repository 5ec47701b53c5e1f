// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/mitigations.hpp"

#include <gtest/gtest.h>

#include <bit>

namespace quarry {
namespace mitigations_test {

constexpr mitigation all[] = {mitigation::canary, mitigation::poison, mitigation::quarantine,
                              mitigation::random_start};

TEST(Mitigations, AreABitEach) {
  std::uint32_t seen = 0;
  for (mitigation const one : all) {
    EXPECT_TRUE(std::has_single_bit(static_cast<std::uint32_t>(one)));
    EXPECT_EQ(seen & static_cast<std::uint32_t>(one), 0u);
    seen |= static_cast<std::uint32_t>(one);
  }
}

TEST(Mitigations, Combine) {
  auto const both = mitigation::canary | mitigation::poison;
  EXPECT_EQ(static_cast<std::uint32_t>(both), 3u);
  EXPECT_EQ(both | mitigation::none, both);
}

TEST(Mitigations, AreAllOnOrAllOff) {
  for (mitigation const one : all) EXPECT_EQ(is_on(one), is_on(mitigation::canary));
  EXPECT_FALSE(is_on(mitigation::none));
}

TEST(Mitigations, OfTheQuarantineHaveTheCanaryThatItNeeds) {
  EXPECT_TRUE(!is_on(mitigation::quarantine) || is_on(mitigation::canary));
}

}  // namespace mitigations_test
}  // namespace quarry
