// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/base_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace base_table_test {

/// A table, and what its chunks would know.
class BaseTable : public testing::Test {
 protected:
  explicit BaseTable(std::uint64_t slots = 512, std::uint64_t numbers = 1024) {
    lay_out(slots, numbers);
  }
  ~BaseTable() override {
    type_stable_deallocate(type_stable_use::slots, table, base_table::bytes_of(table->slots()));
  }

  void lay_out(std::uint64_t slots, std::uint64_t numbers) {
    if (table != nullptr)
      type_stable_deallocate(type_stable_use::slots, table, base_table::bytes_of(table->slots()));
    table = static_cast<base_table*>(
        type_stable_allocate(type_stable_use::slots, base_table::bytes_of(slots)));
    table->lay_out(slots, numbers);
    chunks.assign(numbers, {});
  }
  void insert(std::uint64_t base, std::uint32_t number, bytes size, bool is_told = true) {
    chunks[number] = {base, size, false};
    table->insert(base, number, size, is_told);
  }
  void erase(std::uint64_t base) {
    table->erase(
        find(base).slot, [this](std::uint32_t number) { return chunks[number].base; },
        [&](std::uint32_t number, std::uint64_t slot) { moved[number] = slot; });
  }
  [[nodiscard]] base_table::location find(std::uint64_t base) const {
    return table->find(base, [this](std::uint32_t number) { return chunks[number].base; });
  }
  [[nodiscard]] chunk_record look(std::uint64_t base) {
    return table->look(base, table->life(), [this](std::uint32_t number) {
      ++requested;
      return chunks[number];
    });
  }

  base_table* table = nullptr;
  std::vector<chunk_record> chunks;
  std::map<std::uint32_t, std::uint64_t> moved;
  int requested = 0;
};

TEST_F(BaseTable, TellsASizeWithoutALookAtTheChunk) {
  insert(0x7000'0000'1230, 7, 100);
  auto const found = look(0x7000'0000'1230);
  EXPECT_EQ(found.base, 0x7000'0000'1230u);
  EXPECT_EQ(found.size, 100u);
  EXPECT_FALSE(found.is_labelled);
  EXPECT_EQ(requested, 0);
  EXPECT_EQ(find(0x7000'0000'1230).number, 7u);
}

TEST_F(BaseTable, AsksTheChunkForWhatHasNoCode) {
  insert(0x1000, 1, 1_GiB);
  insert(0x2000, 2, 100, false);
  insert(0x3000, 3, 100);
  table->set_asks(find(0x3000).slot);
  for (std::uint64_t const base : {0x1000, 0x2000, 0x3000}) {
    requested = 0;
    EXPECT_EQ(look(base).base, base);
    EXPECT_EQ(requested, 1);
  }
}

TEST_F(BaseTable, FindsNothingWhereNothingBegins) {
  EXPECT_FALSE(look(0x1000));
  EXPECT_EQ(find(0x1000).number, base_table::no_number);
  insert(0x1000, 0, 64);
  for (std::uint64_t const base : {0x1001, 0x1008, 0x1010, 0xff0, 0}) {
    EXPECT_FALSE(base % 16 == 0 && look(base)) << base;
    EXPECT_EQ(find(base).number, base_table::no_number) << base;
  }
}

TEST_F(BaseTable, HidesWhatIsNobodysUntilItHasASizeAgain) {
  insert(0x1000, 0, 64);
  auto const at = find(0x1000);
  table->set_nobodys(at.slot);
  EXPECT_FALSE(look(0x1000));
  EXPECT_EQ(find(0x1000).number, 0u);
  table->set_size(at.slot, 48);
  EXPECT_EQ(look(0x1000).size, 48u);
}

/// 2^48 has the hash of 0.
TEST_F(BaseTable, KeepsWhatLiesBeyondItsHashApart) {
  insert(base_table::end + 0x1000, 1, 64);
  insert(0x1000, 2, 32);
  EXPECT_EQ(look(0x1000).size, 32u);
  EXPECT_EQ(find(0x1000).number, 2u);
  EXPECT_EQ(find(base_table::end + 0x1000).number, 1u);
  EXPECT_EQ(look(base_table::end + 0x1000).size, 64u);
  table->set_size(find(base_table::end + 0x1000).slot, 16);
  EXPECT_EQ(look(base_table::end + 0x1000).size, 64u) << "the piece was not asked";
}

TEST_F(BaseTable, HasBitsForAsManyNumbersAsWereSaid) {
  for (std::uint64_t const numbers : {64ull, 1000ull, 1ull << 20, 1ull << 31}) {
    table->lay_out(std::max<std::uint64_t>(64, base_table::min_slots(numbers)), numbers);
    EXPECT_TRUE(table->has_bits_for(numbers - 1)) << numbers;
    EXPECT_FALSE(table->has_bits_for(numbers * 2)) << numbers;
  }
  table->lay_out(512, 1024);
}

/// Chunks of one size, side by side: what a pool of one size sees.
TEST_F(BaseTable, SpreadsBeginsThatLieEvenly) {
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
      for (std::uint32_t i = 0; i < count; ++i) same += find(chunks[i].base).number == i;
      EXPECT_EQ(same, count);
      double const mean = static_cast<double>(table->total_displacement()) / count;
      EXPECT_LE(mean, 6) << count << " words, " << step << " bytes apart";
    }
  }
}

/// An outgrown table may be the same pool's again, with another layout: what is read of it in
/// between must not count.
TEST_F(BaseTable, TellsNothingInAnotherLife) {
  insert(0x1000, 0, 64);
  auto const life = table->life();
  EXPECT_TRUE(look(0x1000));
  auto const look_in = [&](std::uint64_t which) {
    return table->look(0x1000, which, [](std::uint32_t) { return chunk_record{}; });
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
TEST_F(BaseTable, AgreesWithAMap) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random{seed};
    std::uint64_t const slots = seed % 3 == 0 ? 101 : 700;
    lay_out(slots, 1024);
    std::map<std::uint64_t, std::uint32_t> model;
    std::vector<std::uint32_t> unused;
    for (std::uint32_t i = 0; i < 1024; ++i) unused.push_back(i);
    std::vector<std::uint64_t> bases;
    while (bases.size() < slots) {
      std::uint64_t const base =
          (random() % (std::uint64_t{1} << (seed % 2 == 0 ? 44 : 10)) + 1) * 16;
      if (seed % 4 != 0 || base_table::home(base, slots) % 350 < 3) bases.push_back(base);
    }
    moved.clear();
    for (int i = 0; i < 20'000; ++i) {
      std::uint64_t const base = bases[random() % bases.size()];
      auto const it = model.find(base);
      auto const found = find(base);
      ASSERT_EQ(found.number, it == model.end() ? base_table::no_number : it->second)
          << "seed " << seed;
      chunk_record const seen = look(base);
      if (it == model.end()) {
        ASSERT_FALSE(seen) << "seed " << seed;
        if (model.size() * 4 >= slots * 3) continue;
        std::uint32_t const number = unused.back();
        unused.pop_back();
        insert(base, number, random() % 20'000, random() % 4 != 0);
        model[base] = number;
        continue;
      }
      bool const is_nobodys = moved.contains(it->second);
      ASSERT_EQ(static_cast<bool>(seen), !is_nobodys) << "seed " << seed;
      if (is_nobodys) {
        ASSERT_EQ(moved[it->second], found.slot) << "nobody was told that it moved";
      } else {
        ASSERT_EQ(seen.size, chunks[it->second].size) << "seed " << seed;
      }
      switch (random() % 4) {
        case 0:
          table->set_nobodys(found.slot);
          moved[it->second] = found.slot;
          break;
        case 1: {
          chunks[it->second] = {base, random() % 20'000, false};
          table->set_size(found.slot, chunks[it->second].size);
          moved.erase(it->second);
          break;
        }
        default:
          erase(base);
          moved.erase(it->second);
          unused.push_back(it->second);
          model.erase(it);
      }
    }
  }
}

/// Who looks never sees a size that was never there, whatever is written meanwhile.
TEST_F(BaseTable, ShowsOtherThreadsASizeThatWasThere) {
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
        table->look(0x1000, table->life(), [](std::uint32_t) { return chunk_record{}; });
    if (found) {
      EXPECT_TRUE(found.size % 16 == 0 && found.size <= 64) << found.size;
    }
  }
  other.join();
}

}  // namespace base_table_test
}  // namespace quarry::test
