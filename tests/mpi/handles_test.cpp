// SPDX-License-Identifier: Apache-2.0
// Tables of handles against a set of those in use.
#include "mpi/support/ranks.hpp"

#include "mpi/handles.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

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

/// The index behind the entries says where the search begins.
TEST(Handles, OfATableInUseAreFoundWithoutASearch) {
  auto const result = run_on_threads(1, [] {
    int value = 0;
    mpi::handle_table<int> table{};
    for (std::int32_t i = 0; i < 100; ++i) {
      EXPECT_EQ(mpi::free_handle(table), i);
      EXPECT_EQ(mpi::first_free(table), static_cast<std::uintptr_t>(i));
      table.entries[i] = &value;
    }
    mpi::free_entry(table, 30);
    mpi::free_entry(table, 40);
    EXPECT_EQ(mpi::first_free(table), 30u);
    EXPECT_EQ(mpi::free_handle(table), 30);
    mpi::release(table.entries);
  });
  EXPECT_EQ(result.status, 0);
}

}  // namespace handles_test
}  // namespace quarry::test
