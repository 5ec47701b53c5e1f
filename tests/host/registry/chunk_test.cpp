// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/chunk.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace chunk_test {

TEST(Chunk, KeepsItsSizeInEveryState) {
  chunk tested{};
  tested.base = 4096;
  tested.set_size((bytes{1} << 47) + 16);
  tested.set_requested(bytes{1} << 46 | 5);
  EXPECT_EQ(tested.size(), (bytes{1} << 47) + 16);
  EXPECT_EQ(tested.requested(), bytes{1} << 46 | 5);
  EXPECT_FALSE(tested.get().has_flags());
  tested.set_owner(chunk_owners - 1);
  EXPECT_EQ(tested.owner(), chunk_owners - 1);
  tested.set_labelled();
  EXPECT_TRUE(tested.is_labelled());
  tested.set(tested.get().set_cached());
  EXPECT_TRUE(tested.is_cached());
  EXPECT_FALSE(tested.is_labelled());
  tested.set(tested.get().not_cached());
  EXPECT_FALSE(tested.get().has_flags());
  tested.set_free();
  EXPECT_TRUE(tested.is_free());
  EXPECT_EQ(tested.size(), (bytes{1} << 47) + 16);
  EXPECT_EQ(tested.owner(), chunk_owners - 1);
}

TEST(Chunk, ItsStateDefinesTheMeaningOfItsLinks) {
  chunk tested{};
  tested.set_requested(bytes{7} << 32 | 5);
  EXPECT_EQ(tested.requested(), bytes{7} << 32 | 5);
  tested.set_slot(3);  // cached
  tested.set_next_cached(4);
  EXPECT_EQ(tested.slot(), 3u);
  EXPECT_EQ(tested.next_cached(), 4u);
  tested.prev_free() = 8;  // free, in a list
  tested.next_free() = no_chunk;
  chunk const& seen = tested;
  EXPECT_EQ(seen.prev_free(), 8u);
  EXPECT_EQ(seen.next_free(), no_chunk);
  tested.set_order(std::uint64_t{1} << 40 | 9);  // free, in an order
  EXPECT_EQ(tested.order(), std::uint64_t{1} << 40 | 9);
  EXPECT_EQ(tested.size(), 0u) << "links are no part of the size";
}

}  // namespace chunk_test
}  // namespace quarry::test
