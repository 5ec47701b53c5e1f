// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/quick_lists.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>

namespace quarry::test {

using namespace detail;
namespace quick_lists_test {

struct QuickLists : testing::Test {
  chunk_table table;
  quick_lists lists{0};

  chunk_id put(bytes units) {
    table.reserve();
    chunk_id const id = table.add(units, units, no_chunk, no_chunk);
    lists.put(table[id], id, units);
    return id;
  }
};

TEST_F(QuickLists, ReturnTheLatestChunkOfASize) {
  put(5);
  auto const latest = put(5);
  EXPECT_EQ(lists.pop(table, 5), latest);
  EXPECT_EQ(lists.count(), 1u);
}

TEST_F(QuickLists, ReturnNoSmallerAndNoMuchLargerChunk) {
  put(100);
  EXPECT_EQ(lists.pop(table, 101), no_chunk);
  EXPECT_EQ(lists.pop(table, 85), no_chunk);
  EXPECT_NE(lists.pop(table, 97), no_chunk);
  EXPECT_EQ(lists.pop(table, 97), no_chunk) << "the lists no longer have the chunk";
}

/// Programs request the same sizes repeatedly.
TEST_F(QuickLists, ReuseAWholeChunkForItsSize) {
  for (bytes units = 1; units < 5000; ++units) {
    bytes const rounded = quick_lists::whole(units, 0);
    ASSERT_LE(rounded, units + units / 32) << units;
    auto const id = put(rounded);
    ASSERT_EQ(lists.pop(table, units), id) << units;
    table.remove(id);
  }
}

TEST_F(QuickLists, CountInUnits) {
  quick_lists coarse{8};
  table.reserve();
  auto const id = table.add(4096, 256 * 5, no_chunk, no_chunk);
  coarse.put(table[id], id, 256 * 5);
  EXPECT_EQ(coarse.pop(table, 256 * 4), no_chunk) << "one unit of five is more than an eighth";
  EXPECT_EQ(coarse.pop(table, 256 * 5), id);
}

TEST_F(QuickLists, PopAllReturnsEachChunkOnce) {
  std::set<chunk_id> all;
  for (bytes const units : {bytes{1}, bytes{1}, bytes{63}, bytes{64}, bytes{1000}, bytes{1} << 47})
    all.insert(put(units));
  lists.pop_all(table, [&](chunk_id id) { EXPECT_EQ(all.erase(id), 1u); });
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(lists.count(), 0u);
  EXPECT_EQ(lists.pop(table, 1), no_chunk);
}

TEST_F(QuickLists, PayIfTheReusedChunksAreAtLeastHalfOfTheChunksLeft) {
  EXPECT_TRUE(lists.pays()) << "no chunk was put into the lists";
  for (bytes const units : {5, 5, 7, 9}) put(units);
  EXPECT_FALSE(lists.pays());
  EXPECT_NE(lists.pop(table, 5), no_chunk);
  EXPECT_FALSE(lists.pays()) << "one chunk was reused, three are left";
  EXPECT_NE(lists.pop(table, 5), no_chunk);
  EXPECT_TRUE(lists.pays());
  lists.pop_all(table, [](chunk_id) {});
  put(5);
  EXPECT_FALSE(lists.pays()) << "reuse before take_all does not count";
}

/// Compares the lists with a multiset of sizes. A chunk that the lists return is large enough and
/// not too large. The lists return no chunk only if no chunk would do.
TEST_F(QuickLists, AgreeWithAMultisetOfSizes) {
  std::mt19937_64 random{1};
  std::multiset<bytes> sizes;
  for (int step = 0; step < 20'000; ++step) {
    bytes const units = (random() >> (random() % 40 + 23)) + 1;
    if (random() % 2 == 0) {
      put(units);
      sizes.insert(units);
      continue;
    }
    chunk_id const id = lists.pop(table, units);
    if (id == no_chunk) {
      // The lookup reads three lists of this width or more. The first list starts within one width
      // of `units`. (The lookup reads one list below 16 units, two below 32.)
      bytes const width =
          units <= 64 ? 1 : bytes{1} << (63 - 5 - static_cast<bytes>(std::countl_zero(units - 1)));
      bytes const end = units < 16 ? units + 1 : units < 32 ? units + 2 : units + 2 * width + 1;
      auto const next = sizes.lower_bound(units + width - 1);
      ASSERT_TRUE(next == sizes.end() || *next >= end)
          << units << " with " << (next == sizes.end() ? 0 : *next);
      continue;
    }
    bytes const size = table[id].size();
    ASSERT_GE(size, units);
    ASSERT_LE(size, units + units / 8);
    sizes.erase(sizes.find(size));
    table.remove(id);
  }
  EXPECT_EQ(lists.count(), sizes.size());
}

}  // namespace quick_lists_test
}  // namespace quarry::test
