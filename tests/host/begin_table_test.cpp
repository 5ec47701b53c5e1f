// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/begin_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace quarry::test {
namespace begin_table_test {

/// A table, and what its pieces would know.
class BeginTable : public testing::Test {
 protected:
  explicit BeginTable(std::uint64_t slots = 512, std::uint64_t numbers = 1024) {
    lay_out(slots, numbers);
  }
  ~BeginTable() override {
    lasting_deallocate(lasting_use::slots, table, begin_table::bytes_of(table->slots()));
  }

  void lay_out(std::uint64_t slots, std::uint64_t numbers) {
    if (table != nullptr)
      lasting_deallocate(lasting_use::slots, table, begin_table::bytes_of(table->slots()));
    table = static_cast<begin_table*>(
        lasting_allocate(lasting_use::slots, begin_table::bytes_of(slots)));
    table->lay_out(slots, numbers);
    pieces.assign(numbers, {});
  }
  void insert(std::uint64_t begin, std::uint32_t number, bytes size, bool is_told = true) {
    pieces[number] = {begin, size, false};
    table->insert(begin, number, size, is_told);
  }
  void erase(std::uint64_t begin) {
    table->erase(
        find(begin).slot, [this](std::uint32_t number) { return pieces[number].begin; },
        [&](std::uint32_t number, std::uint64_t slot) { moved[number] = slot; });
  }
  [[nodiscard]] begin_table::place find(std::uint64_t begin) const {
    return table->find(begin, [this](std::uint32_t number) { return pieces[number].begin; });
  }
  [[nodiscard]] piece_record look(std::uint64_t begin) {
    return table->look(begin, table->life(), [this](std::uint32_t number) {
      ++asked;
      return pieces[number];
    });
  }

  begin_table* table = nullptr;
  std::vector<piece_record> pieces;
  std::map<std::uint32_t, std::uint64_t> moved;
  int asked = 0;
};

TEST_F(BeginTable, TellsASizeWithoutALookAtThePiece) {
  insert(0x7000'0000'1230, 7, 100);
  auto const found = look(0x7000'0000'1230);
  EXPECT_EQ(found.begin, 0x7000'0000'1230u);
  EXPECT_EQ(found.size, 100u);
  EXPECT_FALSE(found.is_noted);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(find(0x7000'0000'1230).number, 7u);
}

TEST_F(BeginTable, AsksThePieceForWhatHasNoCode) {
  insert(0x1000, 1, 1_GiB);
  insert(0x2000, 2, 100, false);
  insert(0x3000, 3, 100);
  table->set_asks(find(0x3000).slot);
  for (std::uint64_t const begin : {0x1000, 0x2000, 0x3000}) {
    asked = 0;
    EXPECT_EQ(look(begin).begin, begin);
    EXPECT_EQ(asked, 1);
  }
}

TEST_F(BeginTable, FindsNothingWhereNothingBegins) {
  EXPECT_FALSE(look(0x1000));
  EXPECT_EQ(find(0x1000).number, begin_table::no_number);
  insert(0x1000, 0, 64);
  for (std::uint64_t const begin : {0x1001, 0x1008, 0x1010, 0xff0, 0}) {
    EXPECT_FALSE(begin % 16 == 0 && look(begin)) << begin;
    EXPECT_EQ(find(begin).number, begin_table::no_number) << begin;
  }
}

TEST_F(BeginTable, HidesWhatIsNobodysUntilItHasASizeAgain) {
  insert(0x1000, 0, 64);
  auto const at = find(0x1000);
  table->set_nobodys(at.slot);
  EXPECT_FALSE(look(0x1000));
  EXPECT_EQ(find(0x1000).number, 0u);
  table->set_size(at.slot, 48);
  EXPECT_EQ(look(0x1000).size, 48u);
}

/// 2^48 has the hash of 0.
TEST_F(BeginTable, KeepsWhatLiesBeyondItsHashApart) {
  insert(begin_table::end + 0x1000, 1, 64);
  insert(0x1000, 2, 32);
  EXPECT_EQ(look(0x1000).size, 32u);
  EXPECT_EQ(find(0x1000).number, 2u);
  EXPECT_EQ(find(begin_table::end + 0x1000).number, 1u);
  EXPECT_EQ(look(begin_table::end + 0x1000).size, 64u);
  table->set_size(find(begin_table::end + 0x1000).slot, 16);
  EXPECT_EQ(look(begin_table::end + 0x1000).size, 64u) << "the piece was not asked";
}

TEST_F(BeginTable, HasBitsForAsManyNumbersAsWereSaid) {
  for (std::uint64_t const numbers : {64ull, 1000ull, 1ull << 20, 1ull << 31}) {
    table->lay_out(std::max<std::uint64_t>(64, begin_table::least_slots(numbers)), numbers);
    EXPECT_TRUE(table->has_bits_for(numbers - 1)) << numbers;
    EXPECT_FALSE(table->has_bits_for(numbers * 2)) << numbers;
  }
  table->lay_out(512, 1024);
}

/// Pieces of one size, side by side: what a pool of one size sees.
TEST_F(BeginTable, SpreadsBeginsThatLieEvenly) {
  std::vector<bytes> steps;
  for (std::uint32_t shift = 4; shift <= 21; ++shift) steps.push_back(bytes{1} << shift);
  for (bytes step = 48; step < 128_KiB; step += 16 * 97) steps.push_back(step);
  for (bytes const step : {33760, 46368, 62672, 125344, 337600})
    steps.push_back(step);  // a product's
  for (bytes const step : steps) {
    for (std::uint32_t const count : {300u, 3000u}) {
      lay_out(count * 5 / 3, count);
      for (std::uint32_t i = 0; i < count; ++i) insert(0x7f12'3456'7000 + i * step, i, 16);
      std::uint32_t same = 0;
      for (std::uint32_t i = 0; i < count; ++i) same += find(pieces[i].begin).number == i;
      EXPECT_EQ(same, count);
      double const mean = static_cast<double>(table->total_displacement()) / count;
      EXPECT_LE(mean, 6) << count << " words, " << step << " bytes apart";
    }
  }
}

/// An outgrown table may be the same pool's again, with another layout: what is read of it in
/// between must not count.
TEST_F(BeginTable, TellsNothingInAnotherLife) {
  insert(0x1000, 0, 64);
  auto const life = table->life();
  EXPECT_TRUE(look(0x1000));
  auto const look_in = [&](std::uint64_t which) {
    return table->look(0x1000, which, [](std::uint32_t) { return piece_record{}; });
  };
  EXPECT_TRUE(look_in(life));
  EXPECT_FALSE(look_in(life + 1));
  lay_out(512, 4096);
  insert(0x1000, 0, 64);
  EXPECT_NE(table->life(), life);
  EXPECT_FALSE(look_in(life));
  EXPECT_TRUE(look_in(table->life()));
}

/// Begins that collide on purpose, too: clusters of hundreds, which wrap around, against a map.
TEST_F(BeginTable, AgreesWithAMap) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random{seed};
    std::uint64_t const slots = seed % 3 == 0 ? 101 : 700;
    lay_out(slots, 1024);
    std::map<std::uint64_t, std::uint32_t> model;
    std::vector<std::uint32_t> unused;
    for (std::uint32_t i = 0; i < 1024; ++i) unused.push_back(i);
    std::vector<std::uint64_t> begins;
    while (begins.size() < slots) {
      std::uint64_t const begin =
          (random() % (std::uint64_t{1} << (seed % 2 == 0 ? 44 : 10)) + 1) * 16;
      if (seed % 4 != 0 || begin_table::home(begin, slots) % 350 < 3) begins.push_back(begin);
    }
    moved.clear();
    for (int i = 0; i < 20'000; ++i) {
      std::uint64_t const begin = begins[random() % begins.size()];
      auto const it = model.find(begin);
      auto const found = find(begin);
      ASSERT_EQ(found.number, it == model.end() ? begin_table::no_number : it->second)
          << "seed " << seed;
      piece_record const seen = look(begin);
      if (it == model.end()) {
        ASSERT_FALSE(seen) << "seed " << seed;
        if (model.size() * 4 >= slots * 3) continue;
        std::uint32_t const number = unused.back();
        unused.pop_back();
        insert(begin, number, random() % 20'000, random() % 4 != 0);
        model[begin] = number;
        continue;
      }
      bool const is_nobodys = moved.contains(it->second);
      ASSERT_EQ(static_cast<bool>(seen), !is_nobodys) << "seed " << seed;
      if (is_nobodys) {
        ASSERT_EQ(moved[it->second], found.slot) << "nobody was told that it moved";
      } else {
        ASSERT_EQ(seen.size, pieces[it->second].size) << "seed " << seed;
      }
      switch (random() % 4) {
        case 0:
          table->set_nobodys(found.slot);
          moved[it->second] = found.slot;
          break;
        case 1: {
          pieces[it->second] = {begin, random() % 20'000, false};
          table->set_size(found.slot, pieces[it->second].size);
          moved.erase(it->second);
          break;
        }
        default:
          erase(begin);
          moved.erase(it->second);
          unused.push_back(it->second);
          model.erase(it);
      }
    }
  }
}

/// Who looks never sees a size that was never there, whatever is written meanwhile.
TEST_F(BeginTable, ShowsOtherThreadsASizeThatWasThere) {
  insert(0x1000, 0, 16);
  std::atomic<bool> is_over{false};
  std::thread other{[&] {
    std::mt19937 random{1};
    for (int i = 0; i < 100'000; ++i) {
      auto const at = find(0x1000);
      if (i % 2 == 0) {
        table->set_nobodys(at.slot);
      } else {
        table->set_size(at.slot, 16 * (1 + random() % 4));
      }
    }
    is_over = true;
  }};
  while (!is_over) {
    auto const found =
        table->look(0x1000, table->life(), [](std::uint32_t) { return piece_record{}; });
    if (found) {
      EXPECT_TRUE(found.size % 16 == 0 && found.size <= 64) << found.size;
    }
  }
  other.join();
}

}  // namespace begin_table_test
}  // namespace quarry::test
