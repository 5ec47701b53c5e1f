// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pieces.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace pieces_test {

TEST(PieceTable, SplitsAndMergesAPiece) {
  piece_table table;
  table.reserve();
  auto const first = table.add(4096, 256, no_piece, no_piece);
  EXPECT_TRUE(table.is_whole_block(first));
  table.reserve();
  auto const rest = table.split(first, 64);
  EXPECT_EQ(table[rest].begin, 4160u);
  EXPECT_EQ(table[rest].size(), 192u);
  EXPECT_EQ(table[rest].prev, first);
  EXPECT_FALSE(table.is_whole_block(first));
  table.merge_with_next(first);
  EXPECT_TRUE(table.is_whole_block(first));
  EXPECT_EQ(table[first].size(), 256u);
}

TEST(PieceTable, FindsOnlyWhatIsNotFree) {
  piece_table table;
  EXPECT_EQ(table.find(4096).id, no_piece);
  table.reserve();
  auto const one = table.add(4096, 256, no_piece, no_piece);
  EXPECT_EQ(table.find(4096).id, no_piece);
  table.set_in_use(one, 200);
  EXPECT_EQ(table.find(4096).id, one);
  EXPECT_EQ(table[one].asked(), 200u);
  EXPECT_EQ(table.find(4097).id, no_piece);
  table.set_free(table.find(4096));
  EXPECT_EQ(table.find(4096).id, no_piece);
}

/// Addresses that collide and those that do not, against a map.
TEST(PieceTable, AgreesWithAMapOfAddresses) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random{seed};
    piece_table table;
    std::map<std::uint64_t, piece_id> in_use;
    bytes const step = bytes{16} << seed * 3;
    for (int i = 0; i < 5000; ++i) {
      std::uint64_t const begin = (random() % 512 + 1) * step;
      auto const found = in_use.find(begin);
      ASSERT_EQ(table.find(begin).id, found == in_use.end() ? no_piece : found->second)
          << "seed " << seed;
      if (found != in_use.end()) {
        table.set_free(table.find(begin));
        table.remove(found->second);
        in_use.erase(found);
      } else {
        table.reserve();
        in_use[begin] = table.add(begin, 16, no_piece, no_piece);
        table.set_in_use(in_use[begin], 16);
      }
    }
    EXPECT_EQ(table.in_use(), in_use.size());
  }
}

TEST(PieceTable, HasRoomForThreePiecesOnceItMadeSome) {
  piece_table table;
  for (std::uint64_t n = 0; n < 300; ++n) {
    table.reserve();
    auto const version = table.public_book().version.seen();
    piece_id added[3];
    for (std::uint64_t i = 0; i < 3; ++i)
      added[i] = table.add((n * 3 + i + 1) * 16, 16, no_piece, no_piece);
    table.set_in_use(added[0], 16);
    ASSERT_EQ(table.public_book().version.seen(), version) << "moved its tables at " << n;
  }
}

/// Whatever the number of free pieces: so that the table of pieces grows, and its numbers need more
/// bits, also when the hash table is as full as it may be.
TEST(PieceTable, ReservesHoweverFullItsTablesAre) {
  for (std::uint64_t free = 0; free < 400; ++free) {
    piece_table table;
    std::uint64_t begin = 0;
    auto const add = [&] {
      table.reserve();
      return table.add(begin += 16, 16, no_piece, no_piece);
    };
    for (std::uint64_t i = 0; i < free; ++i) (void)add();
    for (int i = 0; i < 1500; ++i) ASSERT_NO_THROW(table.set_in_use(add(), 16)) << free;
    ASSERT_EQ(table.in_use(), 1500u);
  }
}

TEST(PieceTable, ShowsOthersWhatIsInUse) {
  piece_table table;
  table.keep_starts(7);
  table.reserve_starts(1 << 20, 1 << 20);
  auto const& book = table.public_book();
  EXPECT_FALSE(book.find(1 << 20));
  table.reserve();
  auto const one = table.add(1 << 20, 4096, no_piece, no_piece);
  EXPECT_FALSE(book.find(1 << 20));
  table.set_in_use(one, 4000);
  for (std::uint64_t const offset : {0, 1, 3999}) {
    auto const found = book.find((1 << 20) + offset);
    ASSERT_TRUE(found);
    EXPECT_EQ(found.begin, 1u << 20);
    EXPECT_EQ(found.size, 4000u);
  }
  EXPECT_FALSE(book.find((1 << 20) + 4000));
  EXPECT_EQ(book.owner.seen(), 7u);
  table.set_free(table.find(1 << 20));
  EXPECT_FALSE(book.find(1 << 20));
}

TEST(PieceTable, StaysSmallWhenFewPiecesLive) {
  piece_table table;
  for (int i = 0; i < 1'000'000; ++i) {
    table.reserve();
    auto const one =
        table.add(4096 + static_cast<std::uint64_t>(i % 977) * 16, 16, no_piece, no_piece);
    table.set_in_use(one, 16);
    table.set_free(table.find(table[one].begin));
    table.remove(one);
  }
  EXPECT_LE(table.footprint(), 3 * 4096u) << "a page for each of book, pieces and slots";
}

}  // namespace pieces_test
}  // namespace quarry::test
