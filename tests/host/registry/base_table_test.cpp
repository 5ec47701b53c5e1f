// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/base_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace base_table_test {

/// A table, and the chunks that its entries refer to.
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
  void insert(std::uint64_t base, std::uint32_t number, bytes size, bool stores_size = true) {
    chunks[number] = {base, size, false};
    table->insert(base, number, size, stores_size);
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
      ++chunk_reads;
      return chunks[number];
    });
  }

  base_table* table = nullptr;
  std::vector<chunk_record> chunks;
  std::map<std::uint32_t, std::uint64_t> moved;
  int chunk_reads = 0;
};

TEST_F(BaseTable, FindsASizeWithoutReadingTheChunk) {
  insert(0x7000'0000'1230, 7, 100);
  auto const found = look(0x7000'0000'1230);
  EXPECT_EQ(found.base, 0x7000'0000'1230u);
  EXPECT_EQ(found.size, 100u);
  EXPECT_FALSE(found.is_labelled);
  EXPECT_EQ(chunk_reads, 0);
  EXPECT_EQ(find(0x7000'0000'1230).number, 7u);
}

TEST_F(BaseTable, ReadsTheChunkIfTheEntryHasNoSizeCode) {
  insert(0x1000, 1, 1_GiB);
  insert(0x2000, 2, 100, false);
  insert(0x3000, 3, 100);
  table->set_needs_chunk(find(0x3000).slot);
  for (std::uint64_t const base : {0x1000, 0x2000, 0x3000}) {
    chunk_reads = 0;
    EXPECT_EQ(look(base).base, base);
    EXPECT_EQ(chunk_reads, 1);
  }
}

TEST_F(BaseTable, FindsNothingAtAddressesThatAreNoBase) {
  EXPECT_FALSE(look(0x1000));
  EXPECT_EQ(find(0x1000).number, base_table::no_number);
  insert(0x1000, 0, 64);
  for (std::uint64_t const base : {0x1001, 0x1008, 0x1010, 0xff0, 0}) {
    EXPECT_FALSE(base % 16 == 0 && look(base)) << base;
    EXPECT_EQ(find(base).number, base_table::no_number) << base;
  }
}

TEST_F(BaseTable, HidesAnUnownedEntryUntilItHasASizeAgain) {
  insert(0x1000, 0, 64);
  auto const at = find(0x1000);
  table->set_unallocated(at.slot);
  EXPECT_FALSE(look(0x1000));
  EXPECT_EQ(find(0x1000).number, 0u);
  table->set_size(at.slot, 48);
  EXPECT_EQ(look(0x1000).size, 48u);
}

/// 2^48 has the hash of 0.
TEST_F(BaseTable, DistinguishesAddressesBeyondTheRangeOfItsHash) {
  insert(base_table::end + 0x1000, 1, 64);
  insert(0x1000, 2, 32);
  EXPECT_EQ(look(0x1000).size, 32u);
  EXPECT_EQ(find(0x1000).number, 2u);
  EXPECT_EQ(find(base_table::end + 0x1000).number, 1u);
  EXPECT_EQ(look(base_table::end + 0x1000).size, 64u);
  table->set_size(find(base_table::end + 0x1000).slot, 16);
  EXPECT_EQ(look(base_table::end + 0x1000).size, 64u) << "the lookup did not read the chunk";
}

TEST_F(BaseTable, HasBitsForTheRequestedNumberOfChunks) {
  for (std::uint64_t const numbers : {64ull, 1000ull, 1ull << 20, 1ull << 31}) {
    table->lay_out(std::max<std::uint64_t>(64, base_table::min_slots(numbers)), numbers);
    EXPECT_TRUE(table->has_bits_for(numbers - 1)) << numbers;
    EXPECT_FALSE(table->has_bits_for(numbers * 2)) << numbers;
  }
  table->lay_out(512, 1024);
}

/// Chunks of one size lie side by side, as in a pool that serves one size.
TEST_F(BaseTable, SpreadsEvenlySpacedBaseAddresses) {
  std::vector<bytes> steps;
  for (std::uint32_t shift = 4; shift <= 21; ++shift) steps.push_back(bytes{1} << shift);
  for (bytes step = 48; step < 128_KiB; step += 16 * 97) steps.push_back(step);
  for (bytes const step : {33760, 46368, 62672, 125344, 337600})
    steps.push_back(step);  // sizes that are products
  for (bytes const step : steps) {
    for (std::uint32_t const count : {300u, 3000u}) {
      lay_out(count * 5 / 3, count);
      for (std::uint32_t i = 0; i < count; ++i) insert(0x7f12'3456'7000 + i * step, i, 16);
      std::uint32_t found = 0;
      for (std::uint32_t i = 0; i < count; ++i) found += find(chunks[i].base).number == i;
      EXPECT_EQ(found, count);
      double const mean = static_cast<double>(table->total_displacement()) / count;
      EXPECT_LE(mean, 6) << count << " words, " << step << " bytes apart";
    }
  }
}

/// The same pool may reuse an outgrown table with another layout. A reader must not trust an entry
/// that it read before the change.
TEST_F(BaseTable, FindsNothingWithTheNumberOfAnEarlierLife) {
  insert(0x1000, 0, 64);
  auto const life = table->life();
  EXPECT_TRUE(look(0x1000));
  auto const look_in = [&](std::uint64_t number) {
    return table->look(0x1000, number, [](std::uint32_t) { return chunk_record{}; });
  };
  EXPECT_TRUE(look_in(life));
  EXPECT_FALSE(look_in(life + 1));
  lay_out(512, 4096);
  insert(0x1000, 0, 64);
  EXPECT_NE(table->life(), life);
  EXPECT_FALSE(look_in(life));
  EXPECT_TRUE(look_in(table->life()));
}

/// Base addresses collide on purpose. Clusters have hundreds of entries and wrap around. The test
/// compares the table with a map.
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
      auto const entry = model.find(base);
      auto const found = find(base);
      ASSERT_EQ(found.number, entry == model.end() ? base_table::no_number : entry->second)
          << "seed " << seed;
      chunk_record const seen = look(base);
      if (entry == model.end()) {
        ASSERT_FALSE(seen) << "seed " << seed;
        if (model.size() * 4 >= slots * 3) continue;
        std::uint32_t const number = unused.back();
        unused.pop_back();
        insert(base, number, random() % 20'000, random() % 4 != 0);
        model[base] = number;
        continue;
      }
      bool const is_unowned = moved.contains(entry->second);
      ASSERT_EQ(static_cast<bool>(seen), !is_unowned) << "seed " << seed;
      if (is_unowned) {
        ASSERT_EQ(moved[entry->second], found.slot) << "the chunk does not know its new slot";
      } else {
        ASSERT_EQ(seen.size, chunks[entry->second].size) << "seed " << seed;
      }
      switch (random() % 4) {
        case 0:
          table->set_unallocated(found.slot);
          moved[entry->second] = found.slot;
          break;
        case 1: {
          chunks[entry->second] = {base, random() % 20'000, false};
          table->set_size(found.slot, chunks[entry->second].size);
          moved.erase(entry->second);
          break;
        }
        default:
          erase(base);
          moved.erase(entry->second);
          unused.push_back(entry->second);
          model.erase(entry);
      }
    }
  }
}

/// A reader never sees a size that no writer stored, at any time of the writes.
TEST_F(BaseTable, ShowsOtherThreadsOnlySizesThatWereStored) {
  insert(0x1000, 0, 16);
  std::atomic<bool> is_over{false};
  std::thread writer{[&] {
    std::mt19937 random{1};
    for (int i = 0; i < 100'000; ++i) {
      auto const at = find(0x1000);
      if (i % 2 == 0) {
        table->set_unallocated(at.slot);
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
  writer.join();
}

}  // namespace base_table_test
}  // namespace quarry::test
