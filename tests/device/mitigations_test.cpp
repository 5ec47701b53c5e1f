// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/mitigations.hpp"

#include "quarry/device/heap_ref.hpp"

#include <gtest/gtest.h>

#include <bit>

namespace quarry {
namespace mitigations_test {

constexpr mitigation all[] = {mitigation::canary, mitigation::poison, mitigation::quarantine,
                              mitigation::random_start};

TEST(Mitigations, HaveDistinctBits) {
  std::uint32_t seen = 0;
  for (mitigation const element : all) {
    EXPECT_TRUE(std::has_single_bit(static_cast<std::uint32_t>(element)));
    EXPECT_EQ(seen & static_cast<std::uint32_t>(element), 0u);
    seen |= static_cast<std::uint32_t>(element);
  }
}

TEST(Mitigations, Combine) {
  auto const combined = mitigation::canary | mitigation::poison;
  EXPECT_EQ(static_cast<std::uint32_t>(combined), 3u);
  EXPECT_EQ(combined | mitigation::none, combined);
}

TEST(Mitigations, AreAllOnOrAllOff) {
  for (mitigation const element : all) EXPECT_EQ(is_on(element), is_on(mitigation::canary));
  EXPECT_FALSE(is_on(mitigation::none));
}

TEST(Mitigations, IncludeTheCanaryIfTheyIncludeTheQuarantine) {
  EXPECT_TRUE(!is_on(mitigation::quarantine) || is_on(mitigation::canary));
}

/// Its build is 0, which no heap has.
TEST(Mitigations, AHeapRefWithoutAHeapIsUnusable) {
  heap_ref const none;
  EXPECT_EQ(none.malloc(16), nullptr);
  EXPECT_EQ(none.aligned_malloc(64, 16), nullptr);
  EXPECT_FALSE(none.owns(&none));
  none.free(const_cast<heap_ref*>(&none));
}

}  // namespace mitigations_test
}  // namespace quarry
