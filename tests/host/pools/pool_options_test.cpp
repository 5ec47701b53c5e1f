// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/pool_options.hpp"

#include "quarry/host/pools/cuda_async_pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/stream_pool.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace pool_options_test {

using namespace quarry::literals;

TEST(PoolOptions, FillInBlockSizesAndRoundThemToTheAlignment) {
  pool_options const usual = checked({});
  EXPECT_EQ(usual.first_block, 64_MiB);
  EXPECT_EQ(usual.next_block, 8_MiB);
  pool_options const odd = checked({.first_block = 1000, .next_block = 1, .alignment = 256});
  EXPECT_EQ(odd.first_block, 1024u);
  EXPECT_EQ(odd.next_block, 256u);
}

TEST(PoolOptions, HaveNoLimitInAnyPoolUnlessOneIsSet) {
  EXPECT_EQ(pool_options{}.max_bytes, no_limit);
  EXPECT_EQ(stream_pool_options{}.max_bytes, no_limit);
  EXPECT_EQ(stitched_options{}.max_bytes, no_limit);
  EXPECT_EQ(cuda_async_options{}.max_bytes, no_limit);
  EXPECT_EQ(cuda_async_options{}.kept, no_limit);
}

TEST(PoolOptions, AreRefusedIfTheyAreInvalid) {
  bytes const too_large = max_bytes_at_once + 1;
  for (pool_options const& wrong :
       {pool_options{.first_block = too_large}, pool_options{.next_block = too_large},
        pool_options{.growth_percent = 1001}, pool_options{.alignment = 3},
        pool_options{.alignment = 8}, pool_options{.alignment = 32_KiB},
        pool_options{.red_zone = 64_KiB + 1}})
    EXPECT_THROW((void)checked(wrong), bad_argument);
}

}  // namespace pool_options_test
}  // namespace quarry::test
