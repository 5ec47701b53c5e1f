// SPDX-License-Identifier: Apache-2.0
#include "trace/address_map.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_map>

namespace quarry::test {
namespace {

using trace::address_map;

TEST(AddressMap, RefusesASecondEntryAndKeepsTheFirst) {
  address_map<int> map;
  ASSERT_NE(map.insert(16, 1), nullptr);
  EXPECT_EQ(map.insert(16, 2), nullptr);
  EXPECT_EQ(map.size(), 1u);
  EXPECT_EQ(map.remove(16), 1);
  EXPECT_EQ(map.remove(16), std::nullopt);
  EXPECT_EQ(map.size(), 0u);
}

TEST(AddressMap, HasNoEntryForAddressZero) {
  address_map<int> map;
  for (std::uint64_t address = 1; address <= 600; ++address) (void)map.insert(address, 1);
  EXPECT_EQ(map.remove(0), std::nullopt);
}

TEST(AddressMap, ChangesAnEntryThroughThePointerOfInsert) {
  address_map<int> map;
  *map.insert(16, 1) = 5;
  EXPECT_EQ(map.remove(16), 5);
}

/// `address(i)` is one of a few addresses, so that inserts and erasures meet.
template <class Address>
void compare_with_unordered_map(unsigned seed, Address const& address) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  address_map<std::uint64_t> map;
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    // The share of inserts changes, so that the table grows, and becomes nearly empty again.
    std::uint64_t const key = address(random() % 5000);
    if (random() % 100 < (i / 10'000 % 2 == 0 ? 70u : 30u)) {
      ASSERT_EQ(map.insert(key, i) != nullptr, model.try_emplace(key, i).second);
    } else {
      auto const found = model.find(key);
      ASSERT_EQ(map.remove(key),
                found == model.end() ? std::nullopt : std::optional{found->second});
      if (found != model.end()) model.erase(found);
    }
    ASSERT_EQ(map.size(), model.size());
  }
  std::size_t visited = 0;
  map.for_each([&](std::uint64_t) { ++visited; });
  EXPECT_EQ(visited, model.size());
  for (auto const& [key, value] : model) ASSERT_EQ(map.remove(key), value);
  EXPECT_EQ(map.size(), 0u);
}

TEST(AddressMap, BehavesAsAnUnorderedMapWithPagesAndWithBytes) {
  auto const seed = std::random_device{}();
  compare_with_unordered_map(seed, [](std::uint64_t i) { return (i + 1) << 21; });
  compare_with_unordered_map(seed, [](std::uint64_t i) { return ~i; });
}

/// The addresses that collided while the hash had no seed: multiples of the inverse of its factor.
TEST(AddressMap, BehavesAsAnUnorderedMapWithAddressesMadeToCollide) {
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - 0x9e3779b97f4a7c15 * inverse;  // Newton's method
  ASSERT_EQ(inverse * 0x9e3779b97f4a7c15, 1u);
  compare_with_unordered_map(std::random_device{}(),
                             [=](std::uint64_t i) { return (i + 1) * inverse; });
  address_map<int> map;  // takes minutes if all of these collide
  for (std::uint64_t i = 1; i <= 1'000'000; ++i) ASSERT_NE(map.insert(i * inverse, 1), nullptr);
}

}  // namespace
}  // namespace quarry::test
