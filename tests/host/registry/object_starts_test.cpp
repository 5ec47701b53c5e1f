// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/object_starts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

namespace quarry::test {

using namespace detail;
namespace start_bits_test {

TEST(StartBits, FindsTheLastNumberUntilAnother) {
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

TEST(StartBits, AgreesWithASet) {
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
      auto const after = model.upper_bound(requested);
      ASSERT_EQ(bits->last_until(requested),
                after == model.begin() ? start_bitmap<15>::none : *std::prev(after))
          << "seed " << seed;
      ASSERT_EQ(bits->is_empty(), model.empty());
    }
  }
}

struct AddressStarts : testing::Test {
  AddressStarts()
      : starts{static_cast<object_starts*>(
            type_stable_allocate(type_stable_use::roots, sizeof(object_starts)))} {}
  ~AddressStarts() override {
    starts->clear(made);
    type_stable_deallocate(type_stable_use::roots, starts, sizeof(object_starts));
  }
  object_starts* starts;
  object_starts::made_leaves made;
};

TEST_F(AddressStarts, AreNoneWhereNothingBegins) {
  auto const never = [](std::uint32_t) { return false; };
  EXPECT_EQ(starts->last_small(0), 0u);
  EXPECT_EQ(starts->last_small(object_starts::end - 1), 0u);
  EXPECT_EQ(starts->last_large(0, never), 0u);
  EXPECT_EQ(starts->last_large(object_starts::end - 1, never), 0u);
}

/// Allocations of all sizes side by side, across leaves, against a map.
TEST_F(AddressStarts, LeadToWhatHasAnAddress) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random{seed};
    std::uint64_t const first =
        (std::uint64_t{seed} << 31) - (bytes{40} << 20);  // a leaf ends inside it
    starts->reserve(first, bytes{200} << 20, made);
    struct one {
      bytes size;
      std::uint32_t number;
    };
    std::map<std::uint64_t, one> model;
    std::map<std::uint32_t, std::uint64_t> bases;
    std::uint64_t at = first;
    for (std::uint32_t number = 0; at < first + (bytes{190} << 20); ++number) {
      bytes const size = ((bytes{1} << random() % 24) + 15) / 16 * 16;
      if (random() % 3 != 0) {
        starts->insert(at, size, number);
        model[at] = {size, number};
        bases[number] = at;
      }
      at += size;
    }
    for (int look = 0; look < 20'000; ++look) {
      std::uint64_t const address = first + random() % (bytes{190} << 20);
      auto const after = model.upper_bound(address);
      // then anything may be found
      if (after == model.begin() ||
          address - std::prev(after)->first >= std::prev(after)->second.size)
        continue;
      auto const& [base, what] = *std::prev(after);
      if (what.size < object_starts::map_page) {
        ASSERT_EQ(starts->last_small(address), base) << "seed " << seed;
      } else {
        ASSERT_EQ(starts->last_large(
                      address, [&](std::uint32_t number) { return bases.at(number) <= address; }),
                  what.number + 1)
            << "seed " << seed;
      }
    }
    for (auto const& [base, what] : model) starts->erase(base, what.size);
    EXPECT_EQ(starts->last_large(object_starts::end - 1, [](std::uint32_t) { return true; }), 0u);
  }
}

}  // namespace start_bits_test
}  // namespace quarry::test
