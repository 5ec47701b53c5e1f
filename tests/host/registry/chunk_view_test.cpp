// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/chunk_view.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace chunk_view_test {

// chunk_table_test.cpp tests a view's lookups, together with the table.

TEST(Chunk, IsReadableWhileItIsAllocatedToAUser) {
  chunk tested{};
  tested.base = 4096;
  EXPECT_FALSE(chunk_array::read(tested));  // the chunk has no size
  tested.set_size(128);
  tested.set_requested(100);
  EXPECT_EQ(chunk_array::read(tested).base, 4096u);
  EXPECT_EQ(bytes{chunk_array::read(tested).size}, 100u);
  tested.set_labelled();
  EXPECT_TRUE(chunk_array::read(tested).is_labelled);
  tested.set(tested.get().set_cached());
  EXPECT_FALSE(chunk_array::read(tested));
  tested.set_free();
  EXPECT_FALSE(chunk_array::read(tested));
}

TEST(Chunk, IsASliceBlockOnlyWhileItIsInUse) {
  chunk tested{};
  tested.base = 65536;
  // A removed chunk that was alone in its list has the same value in its links.
  tested.set_requested(chunk::no_request);
  EXPECT_EQ(chunk_array::base_of_slices(tested), 0u) << "a removed chunk has no size";
  tested.set_size(65536);
  EXPECT_EQ(chunk_array::base_of_slices(tested), 65536u);
  EXPECT_FALSE(chunk_array::read(tested));
  tested.set(tested.get().set_cached());
  EXPECT_EQ(chunk_array::base_of_slices(tested), 0u);
  tested.set_free();
  EXPECT_EQ(chunk_array::base_of_slices(tested), 0u);
}

TEST(ChunkView, FindsNothingInAnEmptyView) {
  chunk_view const empty{};
  EXPECT_FALSE(empty.find(0));
  EXPECT_FALSE(empty.find(4096));
  EXPECT_FALSE(empty.find(4097));
  empty.for_each([](chunk_record const&) { ADD_FAILURE(); });
}

}  // namespace chunk_view_test
}  // namespace quarry::test
