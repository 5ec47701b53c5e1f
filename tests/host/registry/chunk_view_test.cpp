// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/chunk_view.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace chunk_view_test {

// What a view finds of a table's chunks is tested with the table: chunk_table_test.cpp.

TEST(Chunk, IsReadByOthersWhileItIsAUsers) {
  chunk one{};
  one.base = 4096;
  EXPECT_FALSE(chunk_array::read(one));  // it has no size
  one.set_size(128);
  one.set_requested(100);
  EXPECT_EQ(chunk_array::read(one).base, 4096u);
  EXPECT_EQ(bytes{chunk_array::read(one).size}, 100u);
  one.set_labelled();
  EXPECT_TRUE(chunk_array::read(one).is_labelled);
  one.set(one.get().set_cached());
  EXPECT_FALSE(chunk_array::read(one));
  one.set_free();
  EXPECT_FALSE(chunk_array::read(one));
}

TEST(Chunk, IsASliceBlockOnlyWhileItIsInUse) {
  chunk one{};
  one.base = 65536;
  one.set_requested(chunk::by_no_user);  // as the links of a chunk are that is alone in its list
  EXPECT_EQ(chunk_array::base_of_slices(one), 0u) << "removed: it has no size";
  one.set_size(65536);
  EXPECT_EQ(chunk_array::base_of_slices(one), 65536u);
  EXPECT_FALSE(chunk_array::read(one));
  one.set(one.get().set_cached());
  EXPECT_EQ(chunk_array::base_of_slices(one), 0u);
  one.set_free();
  EXPECT_EQ(chunk_array::base_of_slices(one), 0u);
}

TEST(ChunkView, FindsNothingWhereNothingIs) {
  chunk_view const none{};
  EXPECT_FALSE(none.find(0));
  EXPECT_FALSE(none.find(4096));
  EXPECT_FALSE(none.find(4097));
  none.for_each([](chunk_record const&) { ADD_FAILURE(); });
}

}  // namespace chunk_view_test
}  // namespace quarry::test
