// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/start_bits.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

namespace quarry::test {
namespace start_bits_test {

TEST(StartBits, FindsTheLastNumberUntilAnother) {
  auto const bits = std::make_unique<start_bits<17>>();
  EXPECT_TRUE(bits->is_empty());
  EXPECT_EQ(bits->last_until(5), start_bits<17>::none);
  bits->insert(0);
  bits->insert(100'000);
  EXPECT_EQ(bits->last_until(99'999), 0u);
  EXPECT_EQ(bits->last_until(100'000), 100'000u);
  EXPECT_EQ(bits->last_until(131'071), 100'000u);
  bits->erase(0);
  EXPECT_EQ(bits->last_until(99'999), start_bits<17>::none);
  bits->erase(100'000);
  EXPECT_TRUE(bits->is_empty());
}

TEST(StartBits, AgreesWithASet) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random{seed};
    auto const bits = std::make_unique<start_bits<15>>();
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
      std::uint64_t const asked = random() % (1u << 15);
      auto const after = model.upper_bound(asked);
      ASSERT_EQ(bits->last_until(asked),
                after == model.begin() ? start_bits<15>::none : *std::prev(after))
          << "seed " << seed;
      ASSERT_EQ(bits->is_empty(), model.empty());
    }
  }
}

struct AddressStarts : testing::Test {
  AddressStarts()
      : starts{static_cast<address_starts*>(
            lasting_allocate(lasting_use::roots, sizeof(address_starts)))} {}
  ~AddressStarts() override {
    starts->clear(made);
    lasting_deallocate(lasting_use::roots, starts, sizeof(address_starts));
  }
  address_starts* starts;
  address_starts::made_leaves made;
};

TEST_F(AddressStarts, AreNoneWhereNothingBegins) {
  auto const never = [](std::uint32_t) { return false; };
  EXPECT_EQ(starts->last_small(0), 0u);
  EXPECT_EQ(starts->last_small(address_starts::end - 1), 0u);
  EXPECT_EQ(starts->last_large(0, never), 0u);
  EXPECT_EQ(starts->last_large(address_starts::end - 1, never), 0u);
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
    std::map<std::uint32_t, std::uint64_t> begins;
    std::uint64_t at = first;
    for (std::uint32_t number = 0; at < first + (bytes{190} << 20); ++number) {
      bytes const size = ((bytes{1} << random() % 24) + 15) / 16 * 16;
      if (random() % 3 != 0) {
        starts->insert(at, size, number);
        model[at] = {size, number};
        begins[number] = at;
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
      auto const& [begin, what] = *std::prev(after);
      if (what.size < address_starts::granule) {
        ASSERT_EQ(starts->last_small(address), begin) << "seed " << seed;
      } else {
        ASSERT_EQ(starts->last_large(
                      address, [&](std::uint32_t number) { return begins.at(number) <= address; }),
                  what.number + 1)
            << "seed " << seed;
      }
    }
    for (auto const& [begin, what] : model) starts->erase(begin, what.size);
    EXPECT_EQ(starts->last_large(address_starts::end - 1, [](std::uint32_t) { return true; }), 0u);
  }
}

}  // namespace start_bits_test
}  // namespace quarry::test
