// SPDX-License-Identifier: Apache-2.0
#include "mpi/thread_copy.hpp"
#include "mpi/copy_blocks.hpp"
#include "mpi/copy_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace quarry::test {
namespace thread_copy_test {

using namespace quarry::mpi;

std::vector<unsigned char> random_bytes(std::size_t size, std::mt19937_64& random) {
  std::vector<unsigned char> result(size);
  for (auto& byte : result) byte = static_cast<unsigned char>(random());
  return result;
}

TEST(ThreadCopy, TheSharedMemoryOfAllBlocksFitsItsPart) {
  for (std::uint64_t blocks = 0; blocks <= 8; ++blocks) {
    for (std::uint32_t used : {0u, 1000u, 20'000u, 70'000u}) {
      std::uint32_t const size = copy_pool::bytes_for(blocks, 256, used);
      SCOPED_TRACE(testing::Message() << blocks << ' ' << used);
      ASSERT_LE((size == 0 ? 0 : size + used + copy_pool::bytes_of_system) * blocks,
                copy_pool::bytes_of_processor);
      ASSERT_EQ(size != 0, blocks >= 1 && blocks <= 2 && used < 30'000);
      if (size == 0) continue;
      ASSERT_EQ((size - copy_pool::header_bytes) % (copy_pool::pieces * 128), 0u);
    }
  }
  EXPECT_EQ(copy_pool::bytes_for(1, 1024, 0), 0u);
  // a job for each rank whose warp has other lanes to help it
  EXPECT_EQ(copy_pool::bytes_of_jobs(1024, 0), 0u);
  EXPECT_EQ(copy_pool::bytes_of_jobs(1024, 4), 64 * copy_pool::bytes_of_job);
  EXPECT_EQ(copy_pool::bytes_of_jobs(1024, 5), 32 * copy_pool::bytes_of_job);
  EXPECT_EQ(copy_pool::bytes_of_jobs(1024, mpi::helper_warp_shift), 0u);
}

TEST(ThreadCopy, ThePartsTileTheCopyAndStayInTheSource) {
  for (std::uint64_t to = 0; to < 16; ++to) {
    for (std::uint64_t from = 64; from < 80; ++from) {
      for (bytes size = 0; size < 150; ++size) {
        auto const parts = parts_of(to, from, size);
        SCOPED_TRACE(testing::Message() << to << ' ' << from << ' ' << size);
        ASSERT_EQ(parts.head + parts.granules * granule_bytes + parts.tail, size);
        ASSERT_EQ((to + parts.shift) % 16, from % 16);
        ASSERT_LT(parts.head, parts.granules != 0 ? 32u : 64u);
        ASSERT_LT(parts.tail, 32u);
        if (parts.granules == 0) continue;
        ASSERT_EQ((to + parts.head) % 16, 0u);
        ASSERT_EQ((from + parts.head - parts.shift) % 16, 0u);
        ASSERT_GE(parts.head, parts.shift);
        if (parts.shift == 0) continue;
        ASSERT_LE(parts.head - parts.shift + (parts.granules + 1) * granule_bytes, size);
      }
    }
  }
}

TEST(ThreadCopy, CopiesOfRandomSizesAndAlignmentsDoWhatMemcpyDoes) {
  constexpr std::uint64_t seed = 5;
  std::mt19937_64 random{seed};
  for (int round = 0; round < 20'000; ++round) {
    std::size_t const size = random() % (round % 10 == 0 ? 2000 : 200);
    std::size_t const to = random() % 33;
    std::size_t const from = random() % 33;
    auto const source = random_bytes(size + 64, random);
    auto target = random_bytes(size + 64, random);
    auto expected = target;
    std::memcpy(expected.data() + to, source.data() + from, size);
    copy_by_thread(target.data() + to, source.data() + from, size);
    ASSERT_EQ(target, expected) << "seed " << seed << " round " << round << ": " << size
                                << " bytes from " << from << " to " << to;
  }
}

TEST(ThreadCopy, MovesAndFillsOfRandomSizesAndAlignmentsDoWhatTheCLibraryDoes) {
  constexpr std::uint64_t seed = 7;
  std::mt19937_64 random{seed};
  for (int round = 0; round < 20'000; ++round) {
    std::size_t const unit = std::size_t{1} << random() % 4;
    std::size_t const size = random() % 200 / unit * unit;
    std::size_t const to = random() % 100 / unit * unit;
    std::size_t const from = random() % 100 / unit * unit;
    auto memory = random_bytes(400, random);
    auto expected = memory;
    std::memmove(expected.data() + to, expected.data() + from, size);
    move_by_thread(memory.data() + to, memory.data() + from, size);
    ASSERT_EQ(memory, expected) << "seed " << seed << " round " << round << ": " << size
                                << " bytes from " << from << " to " << to;
    auto const value = static_cast<unsigned char>(random());
    std::memset(expected.data() + to, value, size);
    fill_by_thread(memory.data() + to, value, size);
    ASSERT_EQ(memory, expected) << "seed " << seed << " round " << round << ": " << size
                                << " bytes at " << to;
  }
}

TEST(ThreadCopy, BlocksOfRandomSizesAndPlacesMoveByteByByte) {
  constexpr std::uint64_t seed = 6;
  std::mt19937_64 random{seed};
  for (int round = 0; round < 5'000; ++round) {
    auto const unit = std::size_t{1} << random() % 5;
    auto const size = static_cast<std::uint32_t>(unit * (1 + random() % 6));
    std::size_t const blocks = 1 + random() % 20;
    auto const gap = static_cast<std::int64_t>(unit * (random() % 4));
    std::int64_t const stride = size + gap;
    bool const has_table = random() % 2 == 0;
    std::vector<block_row> rows;
    for (std::size_t i = 0; i < blocks; ++i)
      rows.push_back({static_cast<std::int64_t>(i) * stride, size, 1, 0});
    std::shuffle(rows.begin(), rows.end(), random);
    block_places const spread{stride, has_table ? rows.data() : nullptr};
    block_places const packed{size, nullptr};
    bool const packs = random() % 2 == 0;
    auto const extent = static_cast<std::size_t>(stride) * blocks;
    auto const source = random_bytes(extent + 64, random);
    auto target = random_bytes(extent + 64, random);
    auto expected = target;
    for (std::size_t i = 0; i < blocks; ++i) {
      auto const place = has_table ? rows[i].offset : static_cast<std::int64_t>(i) * stride;
      auto const at = static_cast<std::size_t>(place);
      std::memcpy(expected.data() + (packs ? i * size : at),
                  source.data() + (packs ? at : i * size), size);
    }
    copy_blocks(reinterpret_cast<char*>(target.data()), packs ? packed : spread,
                reinterpret_cast<char const*>(source.data()), packs ? spread : packed, blocks, size,
                unit);
    ASSERT_EQ(target, expected) << "seed " << seed << " round " << round;
  }
}

}  // namespace thread_copy_test
}  // namespace quarry::test
