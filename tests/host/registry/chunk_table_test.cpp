// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/chunk_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {

using namespace detail;
namespace chunk_table_test {

TEST(ChunkTable, SplitsAndMergesAChunk) {
  chunk_table table;
  table.reserve();
  auto const first = table.add(4096, 256, no_chunk, no_chunk);
  EXPECT_TRUE(table.is_whole_block(first));
  table.reserve();
  auto const remainder = table.split(first, 64);
  EXPECT_EQ(table[remainder].base, 4160u);
  EXPECT_EQ(table[remainder].size(), 192u);
  EXPECT_EQ(table[remainder].prev, first);
  EXPECT_FALSE(table.is_whole_block(first));
  table.merge_with_next(first);
  EXPECT_TRUE(table.is_whole_block(first));
  EXPECT_EQ(table[first].size(), 256u);
}

TEST(ChunkTable, FindsOnlyAllocatedChunks) {
  chunk_table table;
  EXPECT_EQ(table.find(4096).id, no_chunk);
  table.reserve();
  auto const id = table.add(4096, 256, no_chunk, no_chunk);
  EXPECT_EQ(table.find(4096).id, no_chunk);
  table.set_in_use(id, 200);
  EXPECT_EQ(table.find(4096).id, id);
  EXPECT_EQ(table[id].requested(), 200u);
  EXPECT_EQ(table.find(4097).id, no_chunk);
  table.set_free(table.find(4096));
  EXPECT_EQ(table.find(4096).id, no_chunk);
}

/// Uses addresses that collide and addresses that do not, and compares the table with a map.
TEST(ChunkTable, AgreesWithAMapOfAddresses) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random{seed};
    chunk_table table;
    std::map<std::uint64_t, chunk_id> in_use;
    bytes const step = bytes{16} << seed * 3;
    for (int i = 0; i < 5000; ++i) {
      std::uint64_t const base = (random() % 512 + 1) * step;
      auto const found = in_use.find(base);
      ASSERT_EQ(table.find(base).id, found == in_use.end() ? no_chunk : found->second)
          << "seed " << seed;
      if (found != in_use.end()) {
        table.set_free(table.find(base));
        table.remove(found->second);
        in_use.erase(found);
      } else {
        table.reserve();
        in_use[base] = table.add(base, 16, no_chunk, no_chunk);
        table.set_in_use(in_use[base], 16);
      }
    }
    EXPECT_EQ(table.in_use(), in_use.size());
  }
}

TEST(ChunkTable, HasRoomForThreeChunksAfterReserve) {
  chunk_table table;
  for (std::uint64_t n = 0; n < 300; ++n) {
    table.reserve();
    auto const version = table.public_view().version.load_acquire();
    chunk_id added[3];
    for (std::uint64_t i = 0; i < 3; ++i)
      added[i] = table.add((n * 3 + i + 1) * 16, 16, no_chunk, no_chunk);
    table.set_in_use(added[0], 16);
    ASSERT_EQ(table.public_view().version.load_acquire(), version)
        << "the table moved at n = " << n;
  }
}

/// reserve() works for any number of free chunks, also when the chunk table grows, its numbers need
/// more bits, and the hash table is as full as it may be.
TEST(ChunkTable, ReservesAtAnyFillOfItsTables) {
  for (std::uint64_t free = 0; free < 400; ++free) {
    chunk_table table;
    std::uint64_t base = 0;
    auto const add = [&] {
      table.reserve();
      return table.add(base += 16, 16, no_chunk, no_chunk);
    };
    for (std::uint64_t i = 0; i < free; ++i) (void)add();
    for (int i = 0; i < 1500; ++i) ASSERT_NO_THROW(table.set_in_use(add(), 16)) << free;
    ASSERT_EQ(table.in_use(), 1500u);
  }
}

TEST(ChunkTable, ShowsReadersTheAllocatedChunks) {
  chunk_table table;
  table.keep_starts(7);
  table.reserve_starts(1 << 20, 1 << 20);
  auto const& view = table.public_view();
  EXPECT_FALSE(view.find(1 << 20));
  table.reserve();
  auto const id = table.add(1 << 20, 4096, no_chunk, no_chunk);
  EXPECT_FALSE(view.find(1 << 20));
  table.set_in_use(id, 4000);
  for (std::uint64_t const offset : {0, 1, 3999}) {
    auto const found = view.find((1 << 20) + offset);
    ASSERT_TRUE(found);
    EXPECT_EQ(found.base, 1u << 20);
    EXPECT_EQ(found.size, 4000u);
  }
  EXPECT_FALSE(view.find((1 << 20) + 4000));
  EXPECT_EQ(view.owner.load_acquire(), 7u);
  table.set_free(table.find(1 << 20));
  EXPECT_FALSE(view.find(1 << 20));
}

TEST(ChunkTable, StaysSmallWithFewChunks) {
  chunk_table table;
  for (int i = 0; i < 1'000'000; ++i) {
    table.reserve();
    auto const id =
        table.add(4096 + static_cast<std::uint64_t>(i % 977) * 16, 16, no_chunk, no_chunk);
    table.set_in_use(id, 16);
    table.set_free(table.find(table[id].base));
    table.remove(id);
  }
  EXPECT_LE(table.footprint(), 3 * 4096u) << "one page each for the view, the chunks and the slots";
}

}  // namespace chunk_table_test
}  // namespace quarry::test
