// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/page_source.hpp"

#include "quarry/platform/simulated_pages.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace page_source_test {

struct pages_that_may_throw_in_unmap : simulated_pages {
  using simulated_pages::simulated_pages;
  void unmap(std::uint64_t, bytes) {}
};

TEST(PageSource, RequiresAnUnmapThatDoesNotThrow) {
  EXPECT_TRUE(page_source<simulated_pages>);
  EXPECT_FALSE(page_source<pages_that_may_throw_in_unmap>);
  EXPECT_FALSE(page_source<int>);
}

}  // namespace page_source_test
}  // namespace quarry::test
