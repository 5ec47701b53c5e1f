// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_memory.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace quarry;
using quarry::bytes;
using quarry::pool_options;
using quarry::simulated_resource;
using fallback_pool = quarry::pool<simulated_resource>;

/// A planned pool whose places can be closed. It keeps what it is told of frees.
class closable_pool : public planned_memory<simulated_resource, fallback_pool> {
 public:
  explicit closable_pool(plan const& served, pool_options const& fallback = {.next_block = 4096})
      : planned_memory{"closable_pool", served, fallback, 64, {}, false, simulated_resource{}} {}

  void* allocate(bytes size, bytes alignment = 1) {
    return allocate_by_plan(
        size, alignment, [&](bytes offset, bytes) { return !closed.contains(offset); },
        [&] { return fallback().allocate(size, alignment); });
  }
  bool deallocate(void* pointer) {
    return deallocate_by_plan(
        pointer, [&](bytes offset, bytes granted) { freed.emplace_back(offset, granted); },
        [&] {
          freed_in_fallback.push_back(pointer);
          (void)fallback().try_deallocate(pointer);
        });
  }
  [[nodiscard]] auto counts() const { return count_all(); }

  std::set<bytes> closed;
  std::vector<std::pair<bytes, bytes>> freed;
  std::vector<void*> freed_in_fallback;
};

plan two_places() {
  return {.size = 512, .period_begin = 0, .allocations = {{256, 0, 2}, {256, 256, 3}}};
}

TEST(PlannedMemory, ServesFromTheFallbackIfThePoolMayNotUseAPlace) {
  closable_pool tested{two_places()};
  tested.closed = {256};
  void* const first = tested.allocate(200);
  void* const second = tested.allocate(256);
  EXPECT_EQ(tested.counts().planned, 1u);
  EXPECT_EQ(tested.counts().occupied, 1u);
  EXPECT_EQ(tested.counts().fallback.allocations_in_use, 1u);
  EXPECT_TRUE(tested.deallocate(first));
  EXPECT_TRUE(tested.deallocate(second));
  EXPECT_EQ(tested.freed, (std::vector{std::pair<bytes, bytes>{0, 256}}));
  EXPECT_EQ(tested.freed_in_fallback, std::vector{second});
}

TEST(PlannedMemory, RefusesWrongPlansOptionsAndFreesWithThePoolsName) {
  auto const message_of = [](plan const& served, pool_options const& options) -> std::string {
    try {
      closable_pool const tested{served, options};
    } catch (std::exception const& error) {
      return error.what();
    }
    return "";
  };
  plan wrong = two_places();
  wrong.size = 300;
  EXPECT_TRUE(message_of(wrong, {}).starts_with("closable_pool: the plan is wrong"));
  EXPECT_NE(message_of(two_places(), {.alignment = 1024}).find("that of the plan only 256"),
            std::string::npos);
  EXPECT_NE(message_of(two_places(), {.max_bytes = 511}).find("exceeds max_bytes (511 bytes)"),
            std::string::npos);

  closable_pool tested{two_places()};
  EXPECT_THROW((void)tested.allocate(16, 24), quarry::bad_argument);
  auto* const place = static_cast<char*>(tested.allocate(256));
  EXPECT_FALSE(tested.deallocate(place + 16));
  EXPECT_TRUE(tested.deallocate(nullptr));
  EXPECT_EQ(tested.counts().invalid_frees, 1u);
  EXPECT_EQ(tested.counts().allocated, 256u);
  EXPECT_TRUE(tested.freed.empty());
}

/// Random requests: no two allocations overlap, and sizes and counts are those of a map.
TEST(PlannedMemory, CountsAndSizesAreThoseOfAMap) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    plan served{.size = 4096, .period_begin = 0};
    while (served.allocations.size() < 30)
      served.allocations.push_back(
          {256 * (1 + random() % 3), 256 * (random() % 13), served.allocations.size() + 1});
    closable_pool tested{served};
    std::map<char*, bytes> live;
    std::uint64_t allocations = 0;
    bytes allocated = 0;
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0 && !live.empty()) {
        auto const victim = std::next(live.begin(), std::ptrdiff_t(random() % live.size()));
        ASSERT_EQ(tested.size_of(victim->first), victim->second);
        ASSERT_TRUE(tested.deallocate(victim->first));
        allocated -= victim->second;
        live.erase(victim);
      } else {
        bytes const size =
            random() % 8 == 0 ? 1 + random() % 900 : served.allocations[allocations % 30].size;
        auto* const base = static_cast<char*>(tested.allocate(size));
        auto const next = live.lower_bound(base);
        ASSERT_TRUE(next == live.end() || base + size <= next->first);
        ASSERT_TRUE(next == live.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= base);
        live[base] = size;
        allocated += size;
        ++allocations;
      }
      ASSERT_EQ(tested.counts().allocated, allocated);
    }
    auto const counts = tested.counts();
    EXPECT_EQ(counts.allocations, allocations);
    EXPECT_EQ(counts.planned + counts.unplanned + counts.occupied, allocations);
    EXPECT_EQ(counts.allocations_in_use, live.size());
    EXPECT_EQ(tested.audit(), std::vector<std::string>{});
  }
}

}  // namespace
