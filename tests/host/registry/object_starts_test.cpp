// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/object_starts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

namespace quarry::test {

using namespace detail;
namespace object_starts_test {

TEST(StartBitmap, FindsTheLastNumberUpToALimit) {
  auto const bits = std::make_unique<start_bitmap<17>>();
  EXPECT_TRUE(bits->is_empty());
  EXPECT_EQ(bits->last_until(5), start_bitmap<17>::none);
  bits->insert(0);
  bits->insert(100'000);
  EXPECT_EQ(bits->last_until(99'999), 0u);
  EXPECT_EQ(bits->last_until(100'000), 100'000u);
  EXPECT_EQ(bits->last_until(131'071), 100'000u);
  bits->erase(0);
  EXPECT_EQ(bits->last_until(99'999), start_bitmap<17>::none);
  bits->erase(100'000);
  EXPECT_TRUE(bits->is_empty());
}

TEST(StartBitmap, AgreesWithASet) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random{seed};
    auto const bits = std::make_unique<start_bitmap<15>>();
    std::set<std::uint64_t> model;
    std::uint32_t const spread = 1u << (3 * seed);
    for (int step = 0; step < 3000; ++step) {
      std::uint64_t const number = random() % spread;
      if (model.contains(number)) {
        bits->erase(number);
        model.erase(number);
      } else if (random() % 3 != 0) {
        bits->insert(number);
        model.insert(number);
      }
      std::uint64_t const requested = random() % (1u << 15);
      auto const next = model.upper_bound(requested);
      ASSERT_EQ(bits->last_until(requested),
                next == model.begin() ? start_bitmap<15>::none : *std::prev(next))
          << "seed " << seed;
      ASSERT_EQ(bits->is_empty(), model.empty());
    }
  }
}

struct ObjectStarts : testing::Test {
  ObjectStarts()
      : starts{static_cast<object_starts*>(
            type_stable_allocate(type_stable_use::roots, sizeof(object_starts)))} {}
  ~ObjectStarts() override {
    starts->clear(made);
    type_stable_deallocate(type_stable_use::roots, starts, sizeof(object_starts));
  }
  object_starts* starts;
  object_starts::made_leaves made;
};

TEST_F(ObjectStarts, FindNothingWhereNoObjectStarts) {
  auto const is_below = [](std::uint32_t) { return false; };
  EXPECT_EQ(starts->last_small(0), 0u);
  EXPECT_EQ(starts->last_small(object_starts::end - 1), 0u);
  EXPECT_EQ(starts->last_large(0, is_below), 0u);
  EXPECT_EQ(starts->last_large(object_starts::end - 1, is_below), 0u);
}

/// Allocations of all sizes lie side by side across leaves. The test compares lookups with a map.
TEST_F(ObjectStarts, FindTheAllocationOfAnInteriorPointer) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random{seed};
    std::uint64_t const first =
        (std::uint64_t{seed} << 31) - (bytes{40} << 20);  // a leaf ends inside the range
    starts->reserve(first, bytes{200} << 20, made);
    struct allocation {
      bytes size;
      std::uint32_t number;
    };
    std::map<std::uint64_t, allocation> model;
    std::map<std::uint32_t, std::uint64_t> bases;
    std::uint64_t at = first;
    for (std::uint32_t number = 0; at < first + (bytes{190} << 20); ++number) {
      bytes const size = ((bytes{1} << random() % 24) + 15) / 16 * 16;
      if (random() % 3 != 0) {
        object_starts::reserve_insert(made);
        starts->insert(at, size, number, made);
        model[at] = {size, number};
        bases[number] = at;
      }
      at += size;
    }
    for (int look = 0; look < 20'000; ++look) {
      std::uint64_t const address = first + random() % (bytes{190} << 20);
      auto const next = model.upper_bound(address);
      // no allocation has this address: the lookup may find anything
      if (next == model.begin() || address - std::prev(next)->first >= std::prev(next)->second.size)
        continue;
      auto const& [base, object] = *std::prev(next);
      if (object.size < object_starts::map_page) {
        ASSERT_EQ(starts->last_small(address), base) << "seed " << seed;
      } else {
        ASSERT_EQ(starts->last_large(
                      address, [&](std::uint32_t number) { return bases.at(number) <= address; }),
                  object.number + 1)
            << "seed " << seed;
      }
    }
    for (auto const& [base, object] : model) starts->erase(base, object.size);
    EXPECT_EQ(starts->last_large(object_starts::end - 1, [](std::uint32_t) { return true; }), 0u);
  }
}

}  // namespace object_starts_test
}  // namespace quarry::test
