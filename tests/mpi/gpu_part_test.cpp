// SPDX-License-Identifier: Apache-2.0
// How the ranks of a launch are divided among GPUs.
#include "mpi/gpu_part.hpp"

#include <gtest/gtest.h>

namespace quarry::mpi_test {
namespace {

using namespace quarry::mpi;

TEST(GpuParts, AreConsecutiveRanksInWholeBlocks) {
  auto const parts = divide_ranks(10, 2, 4);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].ranks, 8u);
  EXPECT_EQ(parts[0].blocks, 2u);
  EXPECT_EQ(parts[1].first_rank, 8u);
  EXPECT_EQ(parts[1].ranks, 2u);
  EXPECT_EQ(parts[1].first_block, 2u);
  EXPECT_EQ(parts[1].blocks, 1u);
}

TEST(GpuParts, LeaveGpusWithoutABlockOut) {
  EXPECT_EQ(divide_ranks(1, 2, 4).size(), 1u);
  EXPECT_EQ(divide_ranks(9, 8, 4).size(), 3u);
}

TEST(GpuParts, HaveEachRankOnceAndBlocksThatDifferByOneAtMost) {
  for (std::uint32_t const of_block : {1u, 4u, 32u})
    for (std::uint32_t gpus = 1; gpus <= 8; ++gpus)
      for (std::uint32_t ranks = 1; ranks <= 300; ++ranks) {
        auto const parts = divide_ranks(ranks, gpus, of_block);
        std::uint32_t rank = 0, block = 0, fewest = ~0u, most = 0;
        for (gpu_part const& part : parts) {
          ASSERT_EQ(part.first_rank, rank);
          ASSERT_EQ(part.first_block, block);
          ASSERT_EQ(part.blocks, (part.ranks + of_block - 1) / of_block);
          bool const is_last = &part == &parts.back();
          ASSERT_TRUE(is_last || part.ranks == part.blocks * of_block);
          rank += part.ranks;
          block += part.blocks;
          fewest = std::min(fewest, part.blocks);
          most = std::max(most, part.blocks);
        }
        ASSERT_EQ(rank, ranks);
        ASSERT_LE(parts.size(), gpus);
        ASSERT_GE(fewest, 1u);
        ASSERT_LE(most - fewest, 1u);
      }
}

}  // namespace
}  // namespace quarry::mpi_test
