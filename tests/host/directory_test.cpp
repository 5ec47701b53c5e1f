// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/directory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {
namespace directory_test {

// where no pool of this program has anything
constexpr std::uint64_t somewhere = std::uint64_t{3} << 44;

std::multiset<piece_book const*> books_at(std::uint64_t address) {
  std::multiset<piece_book const*> result;
  while (!directory::visit(address, [&](piece_book const& one) { result.insert(&one); }))
    result.clear();
  return result;
}

TEST(Directory, KnowsWhoHasABlockInAGranule) {
  piece_book one, other;
  directory::add(one, somewhere + 100, 3 * directory::granule);
  EXPECT_EQ(directory::only_one(somewhere), &one);
  EXPECT_EQ(directory::only_one(somewhere + 3 * directory::granule), &one);
  EXPECT_EQ(directory::only_one(somewhere + 4 * directory::granule), nullptr);
  directory::add(other, somewhere + directory::granule, 16);
  EXPECT_EQ(directory::only_one(somewhere + directory::granule), nullptr);
  EXPECT_EQ(books_at(somewhere + directory::granule),
            (std::multiset<piece_book const*>{&one, &other}));
  directory::remove(one, somewhere + 100, 3 * directory::granule);
  EXPECT_EQ(books_at(somewhere), std::multiset<piece_book const*>{});
  EXPECT_EQ(books_at(somewhere + directory::granule), std::multiset<piece_book const*>{&other});
  directory::remove(other, somewhere + directory::granule, 16);
  EXPECT_EQ(books_at(somewhere + directory::granule), std::multiset<piece_book const*>{});
}

TEST(Directory, LeavesOutWhatLiesBeyondItsEnd) {
  piece_book one;
  directory::add(one, address_starts::end - 16, 32);
  directory::add(one, ~std::uint64_t{0} - 8, 32);
  EXPECT_EQ(books_at(address_starts::end - 16), std::multiset<piece_book const*>{});
  EXPECT_EQ(books_at(~std::uint64_t{0}), std::multiset<piece_book const*>{});
  directory::remove(one, address_starts::end - 16, 32);
}

TEST(Directory, AgreesWithAMap) {
  std::vector<piece_book> books(5);
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random{seed};
    std::multimap<piece_book const*, std::pair<std::uint64_t, bytes>> blocks;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0 && !blocks.empty()) {
        auto const gone =
            std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random() % blocks.size()));
        directory::remove(*gone->first, gone->second.first, gone->second.second);
        blocks.erase(gone);
      } else {
        auto& book = books[random() % books.size()];
        std::uint64_t const begin = somewhere + random() % (20 * directory::granule);
        bytes const size = 1 + random() % (3 * directory::granule);
        directory::add(book, begin, size);
        blocks.insert({&book, {begin, size}});
      }
      std::uint64_t const granule = somewhere / directory::granule + random() % 24;
      std::set<piece_book const*> expected;
      for (auto const& [book, block] : blocks) {
        if (block.first / directory::granule <= granule &&
            granule <= (block.first + block.second - 1) / directory::granule)
          expected.insert(book);
      }
      auto const found = books_at(granule * directory::granule);
      ASSERT_EQ(found, std::multiset<piece_book const*>(expected.begin(), expected.end()))
          << "seed " << seed << " step " << step;
    }
    for (auto const& [book, block] : blocks) directory::remove(*book, block.first, block.second);
  }
}

/// A book that stays is always found, while others come to its granule and go.
TEST(Directory, FindsWhatStaysWhileOthersComeAndGo) {
  piece_book stays;
  std::vector<piece_book> come_and_go(2);
  directory::add(stays, somewhere, 16);
  std::vector<std::thread> threads;
  std::atomic<bool> is_over{false};
  for (auto& one : come_and_go) {
    threads.emplace_back([&] {
      for (int i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
        std::uint64_t const at = somewhere + static_cast<std::uint64_t>(i % 3) * directory::granule;
        directory::add(one, at, 16);
        directory::remove(one, at, 16);
      }
    });
  }
  int missed = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    bool is_there = false;
    while (!directory::visit(somewhere,
                             [&](piece_book const& book) { is_there |= &book == &stays; })) {
    }
    missed += !is_there;
  }
  is_over = true;
  EXPECT_EQ(missed, 0);
  for (auto& each : threads) each.join();
  directory::remove(stays, somewhere, 16);
  EXPECT_TRUE(books_at(somewhere).empty());
}

}  // namespace directory_test
}  // namespace quarry::test
