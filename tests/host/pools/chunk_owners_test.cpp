// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/chunk_owners.hpp"

#include "quarry/host/pools/free_chunks.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace quarry::test {

using namespace detail;
namespace chunk_owners_test {

TEST(ChunkOwners, ASingleOwnerTakesNoSpace) {
  EXPECT_EQ(sizeof(one_owner::indices<segregated_fit>), sizeof(segregated_fit));
  EXPECT_TRUE(std::is_empty_v<one_owner::id>);
}

TEST(ChunkOwners, ASingleOwnerOwnsEachChunkAndWritesNoMark) {
  chunk tested;
  tested.set_owner(7);
  one_owner::set(tested, {});
  EXPECT_EQ(tested.owner(), 7u);
  EXPECT_TRUE(one_owner::is_owner(tested, one_owner::owner_of(tested)));
}

TEST(ChunkOwners, EachOfManyOwnersHasItsIndex) {
  chunk_table table;
  many_owners::indices<segregated_fit> free;
  free.add();
  EXPECT_TRUE(free.has(1));
  EXPECT_FALSE(free.has(2));
  table.reserve();
  chunk_id const id = table.add(4096, 64, no_chunk, no_chunk);
  many_owners::set(table[id], 1);
  free[many_owners::owner_of(table[id])].insert(table, id);
  EXPECT_FALSE(many_owners::is_owner(table[id], many_owners::common));
  EXPECT_EQ(free[many_owners::common].find(table, 64), no_chunk);
  EXPECT_EQ(free[1].find(table, 64), id);
  EXPECT_EQ(free.count(table), 1u);
}

}  // namespace chunk_owners_test
}  // namespace quarry::test
