// SPDX-License-Identifier: Apache-2.0
// Tables of handles against a set of those in use.
#include "mpi/support/ranks.hpp"

#include "mpi/handles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace quarry::test {
namespace handles_test {

TEST(Handles, AreFreeEntriesOfATableThatGrowsOnlyIfItIsFull) {
  auto const result = run_on_threads(1, [] {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937 numbers{seed};
      int value = 0;
      mpi::handle_table<int> table{};
      std::set<std::int32_t> used;
      for (int step = 0; step < 2000; ++step) {
        if (!used.empty() && numbers() % 5 < 2) {
          auto gone = used.begin();
          std::advance(gone, static_cast<long>(numbers() % used.size()));
          mpi::free_entry(table, *gone);
          used.erase(gone);
          continue;
        }
        std::uint32_t const before = table.capacity;
        std::int32_t const index = mpi::free_handle(table);
        ASSERT_GE(index, 0);
        ASSERT_LT(static_cast<std::uint32_t>(index), table.capacity);
        EXPECT_EQ(table.capacity != before, used.size() == before);
        EXPECT_TRUE(used.insert(index).second);
        EXPECT_EQ(table.entries[index], nullptr);
        EXPECT_EQ(static_cast<std::size_t>(std::distance(used.begin(), used.find(index))),
                  static_cast<std::size_t>(index))
            << "a lower one is free";
        table.entries[index] = &value;
      }
      for (std::uint32_t i = 0; i < table.capacity; ++i)
        EXPECT_EQ(table.entries[i] != nullptr, used.count(static_cast<std::int32_t>(i)) != 0);
      mpi::release(table.entries);
    }
  });
  EXPECT_EQ(result.status, 0);
}

/// A table of 100,000 handles, of which each second one was freed. The first handle is freed again
/// and again, far from the first hole, and then two are allocated.
TEST(Handles, AreFoundInFewLooksAmongAlternatingHoles) {
  auto const result = run_on_threads(1, [] {
    int value = 0;
    mpi::handle_table<int> table{};
    std::uint64_t looks = 0;
    auto const allocate = [&] {
      std::int32_t index = mpi::first_free(table, looks);
      if (index < 0) index = mpi::free_handle(table);
      table.entries[index] = &value;
      return index;
    };
    constexpr std::int32_t handles = 100'000;
    for (std::int32_t i = 0; i < handles; ++i) ASSERT_EQ(allocate(), i);
    EXPECT_LE(looks, 2 * std::uint64_t{handles});
    for (std::int32_t i = 1; i < handles; i += 2) mpi::free_entry(table, i);
    looks = 0;
    std::int32_t hole = 1;
    for (std::int32_t i = 0; i < handles / 4; ++i, hole += 2) {
      mpi::free_entry(table, 0);
      ASSERT_EQ(allocate(), 0);
      ASSERT_EQ(allocate(), hole);
    }
    EXPECT_LE(looks, std::uint64_t{handles}) << "four for each round of three calls";
    mpi::release(table.entries);
  });
  EXPECT_EQ(result.status, 0);
}

TEST(Handles, AreLowestFirstInATreeOfSeveralLevels) {
  for (std::uint32_t const entries : {1u, 64u, 65u, 4096u, 4097u, 300'000u}) {
    std::vector<word> words(mpi::free_entries::words(entries));
    mpi::free_entries tested{words.data(), entries};
    EXPECT_TRUE(tested.is_none());
    std::mt19937 numbers{entries};
    std::set<std::uint32_t> expected;
    for (int step = 0; step < 2000; ++step) {
      auto const entry = static_cast<std::uint32_t>(numbers() % entries);
      if (numbers() % 2 == 0) {
        tested.add(entry);
        expected.insert(entry);
      } else if (!expected.empty()) {
        auto const near = expected.lower_bound(entry);
        std::uint32_t const removed = near != expected.end() ? *near : *expected.begin();
        tested.remove(removed);
        expected.erase(removed);
      }
      ASSERT_EQ(tested.is_none(), expected.empty());
      if (!expected.empty()) {
        ASSERT_EQ(tested.first(), *expected.begin());
      }
    }
    for (std::uint32_t const each : expected) tested.remove(each);
    EXPECT_EQ(std::count(words.begin(), words.end(), 0), static_cast<std::ptrdiff_t>(words.size()));
  }
}

}  // namespace handles_test
}  // namespace quarry::test
