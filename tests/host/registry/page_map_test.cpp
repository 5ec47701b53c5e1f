// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/page_map.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace page_map_test {

// no pool of this program has memory at this address
constexpr std::uint64_t unused_address = std::uint64_t{3} << 44;

std::multiset<chunk_view const*> views_at(std::uint64_t address) {
  std::multiset<chunk_view const*> result;
  while (!page_map::visit(address, [&](chunk_view const& view) { result.insert(&view); }))
    result.clear();
  return result;
}

TEST(PageMap, FindsThePoolsThatHaveABlockInAPage) {
  chunk_view first, second;
  page_map::add(first, unused_address + 100, 3 * page_map::map_page);
  EXPECT_EQ(page_map::only_view(unused_address), &first);
  EXPECT_EQ(page_map::only_view(unused_address + 3 * page_map::map_page), &first);
  EXPECT_EQ(page_map::only_view(unused_address + 4 * page_map::map_page), nullptr);
  page_map::add(second, unused_address + page_map::map_page, 16);
  EXPECT_EQ(page_map::only_view(unused_address + page_map::map_page), nullptr);
  EXPECT_EQ(views_at(unused_address + page_map::map_page),
            (std::multiset<chunk_view const*>{&first, &second}));
  page_map::remove(first, unused_address + 100, 3 * page_map::map_page);
  EXPECT_EQ(views_at(unused_address), std::multiset<chunk_view const*>{});
  EXPECT_EQ(views_at(unused_address + page_map::map_page),
            std::multiset<chunk_view const*>{&second});
  page_map::remove(second, unused_address + page_map::map_page, 16);
  EXPECT_EQ(views_at(unused_address + page_map::map_page), std::multiset<chunk_view const*>{});
}

TEST(PageMap, IgnoresAddressesBeyondItsEnd) {
  chunk_view view;
  page_map::add(view, object_starts::end - 16, 32);
  page_map::add(view, ~std::uint64_t{0} - 8, 32);
  EXPECT_EQ(views_at(object_starts::end - 16), std::multiset<chunk_view const*>{});
  EXPECT_EQ(views_at(~std::uint64_t{0}), std::multiset<chunk_view const*>{});
  page_map::remove(view, object_starts::end - 16, 32);
}

TEST(PageMap, AgreesWithAMap) {
  std::vector<chunk_view> views(5);
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random{seed};
    std::multimap<chunk_view const*, std::pair<std::uint64_t, bytes>> blocks;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0 && !blocks.empty()) {
        auto const freed =
            std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random() % blocks.size()));
        page_map::remove(*freed->first, freed->second.first, freed->second.second);
        blocks.erase(freed);
      } else {
        auto& view = views[random() % views.size()];
        std::uint64_t const base = unused_address + random() % (20 * page_map::map_page);
        bytes const size = 1 + random() % (3 * page_map::map_page);
        page_map::add(view, base, size);
        blocks.insert({&view, {base, size}});
      }
      std::uint64_t const map_page = unused_address / page_map::map_page + random() % 24;
      std::set<chunk_view const*> expected;
      for (auto const& [view, block] : blocks) {
        if (block.first / page_map::map_page <= map_page &&
            map_page <= (block.first + block.second - 1) / page_map::map_page)
          expected.insert(view);
      }
      auto const found = views_at(map_page * page_map::map_page);
      ASSERT_EQ(found, std::multiset<chunk_view const*>(expected.begin(), expected.end()))
          << "seed " << seed << " step " << step;
    }
    for (auto const& [view, block] : blocks) page_map::remove(*view, block.first, block.second);
  }
}

/// A lookup always finds a view that stays, while other views enter and leave its page.
TEST(PageMap, FindsAViewWhileOtherViewsComeAndGo) {
  chunk_view kept_view;
  std::vector<chunk_view> changing_views(2);
  page_map::add(kept_view, unused_address, 16);
  std::vector<std::thread> threads;
  std::atomic<bool> is_over{false};
  for (auto& item : changing_views) {
    threads.emplace_back([&] {
      for (int i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
        std::uint64_t const at =
            unused_address + static_cast<std::uint64_t>(i % 3) * page_map::map_page;
        page_map::add(item, at, 16);
        page_map::remove(item, at, 16);
      }
    });
  }
  int missed = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    bool is_there = false;
    while (!page_map::visit(unused_address,
                            [&](chunk_view const& view) { is_there |= &view == &kept_view; })) {
    }
    missed += !is_there;
  }
  is_over = true;
  EXPECT_EQ(missed, 0);
  for (auto& each : threads) each.join();
  page_map::remove(kept_view, unused_address, 16);
  EXPECT_TRUE(views_at(unused_address).empty());
}

}  // namespace page_map_test
}  // namespace quarry::test
