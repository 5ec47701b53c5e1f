// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/simulated_pages.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace simulated_pages_test {

TEST(SimulatedPages, RecordTheAddressOfEachPage) {
  simulated_pages pages{4096};
  auto const base = pages.reserve(1 << 20);
  pages.map(base, 8192);
  EXPECT_TRUE(pages.is_mapped(base + 4100));
  pages.move(base, base + 65536, 4096);
  EXPECT_FALSE(pages.is_mapped(base));
  EXPECT_TRUE(pages.is_mapped(base + 65536));
  EXPECT_EQ(pages.reserved(), 8192u);
  EXPECT_EQ(pages.mistakes(), 0u);
}

TEST(SimulatedPages, CountMistakesAndRefuseMoreThanTheirLimit) {
  simulated_pages pages{4096, 8192};
  auto const base = pages.reserve(1 << 20);
  EXPECT_THROW(pages.map(base, 12288), out_of_memory);
  pages.map(base, 8192);
  EXPECT_THROW(pages.map(base + 8192, 4096), out_of_memory);
  pages.unmap(base + 65536, 4096);
  pages.move(base, base + 4096, 4096);
  EXPECT_EQ(pages.mistakes(), 2u);
}

}  // namespace simulated_pages_test
}  // namespace quarry::test
