// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/piece_book.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace piece_book_test {

// What a book finds of a table's pieces is tested with the table: pieces_test.cpp.

TEST(Piece, KeepsItsSizeWhateverItIsUsedFor) {
  piece one{};
  one.begin = 4096;
  one.set_size((bytes{1} << 47) + 16);
  one.set_asked(bytes{1} << 46 | 5);
  EXPECT_EQ(one.size(), (bytes{1} << 47) + 16);
  EXPECT_EQ(one.asked(), bytes{1} << 46 | 5);
  EXPECT_FALSE(one.get().has_flags());
  one.set_owner(piece_owners - 1);
  EXPECT_EQ(one.owner(), piece_owners - 1);
  one.set_noted();
  EXPECT_TRUE(one.is_noted());
  one.set(one.get().set_aside());
  EXPECT_TRUE(one.is_set_aside());
  EXPECT_FALSE(one.is_noted());
  one.set(one.get().not_aside());
  EXPECT_FALSE(one.get().has_flags());
  one.set_free();
  EXPECT_TRUE(one.is_free());
  EXPECT_EQ(one.size(), (bytes{1} << 47) + 16);
  EXPECT_EQ(one.owner(), piece_owners - 1);
}

TEST(Piece, IsReadByOthersWhileItIsAUsers) {
  piece one{};
  one.begin = 4096;
  EXPECT_FALSE(piece_array::read(one));  // it has no size
  one.set_size(128);
  one.set_asked(100);
  EXPECT_EQ(piece_array::read(one).begin, 4096u);
  EXPECT_EQ(bytes{piece_array::read(one).size}, 100u);
  one.set_noted();
  EXPECT_TRUE(piece_array::read(one).is_noted);
  one.set(one.get().set_aside());
  EXPECT_FALSE(piece_array::read(one));
  one.set_free();
  EXPECT_FALSE(piece_array::read(one));
}

TEST(Piece, IsASliceBlockOnlyWhileItIsInUse) {
  piece one{};
  one.begin = 65536;
  one.set_asked(piece::by_no_user);  // as the links of a piece are that is alone in its list
  EXPECT_EQ(piece_array::begin_of_slices(one), 0u) << "removed: it has no size";
  one.set_size(65536);
  EXPECT_EQ(piece_array::begin_of_slices(one), 65536u);
  EXPECT_FALSE(piece_array::read(one));
  one.set(one.get().set_aside());
  EXPECT_EQ(piece_array::begin_of_slices(one), 0u);
  one.set_free();
  EXPECT_EQ(piece_array::begin_of_slices(one), 0u);
}

TEST(PieceBook, FindsNothingWhereNothingIs) {
  piece_book const none{};
  EXPECT_FALSE(none.find(0));
  EXPECT_FALSE(none.find(4096));
  EXPECT_FALSE(none.find(4097));
  none.for_each([](piece_record const&) { ADD_FAILURE(); });
}

}  // namespace piece_book_test
}  // namespace quarry::test
