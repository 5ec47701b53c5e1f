// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/chunk.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace chunk_test {

TEST(Chunk, KeepsItsSizeWhateverItIsUsedFor) {
  chunk one{};
  one.base = 4096;
  one.set_size((bytes{1} << 47) + 16);
  one.set_requested(bytes{1} << 46 | 5);
  EXPECT_EQ(one.size(), (bytes{1} << 47) + 16);
  EXPECT_EQ(one.requested(), bytes{1} << 46 | 5);
  EXPECT_FALSE(one.get().has_flags());
  one.set_owner(chunk_owners - 1);
  EXPECT_EQ(one.owner(), chunk_owners - 1);
  one.set_labelled();
  EXPECT_TRUE(one.is_labelled());
  one.set(one.get().set_cached());
  EXPECT_TRUE(one.is_cached());
  EXPECT_FALSE(one.is_labelled());
  one.set(one.get().not_cached());
  EXPECT_FALSE(one.get().has_flags());
  one.set_free();
  EXPECT_TRUE(one.is_free());
  EXPECT_EQ(one.size(), (bytes{1} << 47) + 16);
  EXPECT_EQ(one.owner(), chunk_owners - 1);
}

TEST(Chunk, ItsLinksMeanWhatItsStateSays) {
  chunk one{};
  one.set_requested(bytes{7} << 32 | 5);
  EXPECT_EQ(one.requested(), bytes{7} << 32 | 5);
  one.set_slot(3);  // cached
  one.set_next_cached(4);
  EXPECT_EQ(one.slot(), 3u);
  EXPECT_EQ(one.next_cached(), 4u);
  one.prev_free() = 8;  // free, in a list
  one.next_free() = no_chunk;
  chunk const& seen = one;
  EXPECT_EQ(seen.prev_free(), 8u);
  EXPECT_EQ(seen.next_free(), no_chunk);
  one.set_order(std::uint64_t{1} << 40 | 9);  // free, in an order
  EXPECT_EQ(one.order(), std::uint64_t{1} << 40 | 9);
  EXPECT_EQ(one.size(), 0u) << "links are no part of the size";
}

}  // namespace chunk_test
}  // namespace quarry::test
