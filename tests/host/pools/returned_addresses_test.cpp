// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/returned_addresses.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {
namespace returned_addresses_test {

using detail::returned_addresses;

constexpr auto no_announcement = [] {};

struct numbers {
  explicit numbers(std::size_t count) : all(count, 0) {}
  std::vector<int> all;  // how often each number was taken
  void take_from(returned_addresses& source) {
    EXPECT_TRUE(source.take([&](void* address) { count(address); }));
  }
  void* address_of(std::size_t number) { return &all[number]; }
  void count(void* address) { ++*static_cast<int*>(address); }
  [[nodiscard]] bool are_taken_once(std::size_t begin, std::size_t end) const {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] != (begin <= i && i < end ? 1 : 0)) return false;
    }
    return true;
  }
};

TEST(ReturnedAddresses, AreTakenOnceHoweverMany) {
  returned_addresses tested;
  for (std::size_t const count : {0u, 1u, 63u, 64u, 65u, 1000u, 100u, 5000u, 4096u, 10'000u, 1u}) {
    numbers added{count};
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_TRUE(tested.add(added.address_of(i), no_announcement));
    added.take_from(tested);
    EXPECT_TRUE(added.are_taken_once(0, count)) << count;
    added.take_from(tested);
    EXPECT_TRUE(added.are_taken_once(0, count)) << count;
  }
}

TEST(ReturnedAddresses, MayBeAddedAndTakenWhileOthersAreFreed) {
  returned_addresses tested;
  numbers added{300};
  auto const add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      ASSERT_TRUE(tested.add(added.address_of(i), no_announcement));
  };
  add(0, 100);
  bool is_first = true;
  EXPECT_TRUE(tested.take([&](void* address) {
    added.count(address);
    if (!std::exchange(is_first, false)) return;
    add(100, 200);
    added.take_from(tested);
    add(200, 300);
  }));
  EXPECT_TRUE(added.are_taken_once(0, 200));
  added.take_from(tested);
  EXPECT_TRUE(added.are_taken_once(0, 300));
}

/// `add` announces between its claim and its store, so the owner's call there finds it late.
TEST(ReturnedAddresses, AnAddressThatIsLateIsTakenLater) {
  returned_addresses tested;
  numbers added{10};
  ASSERT_TRUE(tested.add(added.address_of(0), no_announcement));  // into the list
  added.take_from(tested);                                        // gives the array room
  ASSERT_TRUE(tested.add(added.address_of(1), no_announcement));
  auto const count = [&](void* address) { added.count(address); };
  ASSERT_TRUE(tested.add(added.address_of(2), [&] {
    EXPECT_FALSE(tested.take(count));
    EXPECT_TRUE(added.are_taken_once(0, 2));
    ASSERT_TRUE(tested.add(added.address_of(3), no_announcement));  // the array is closed
    EXPECT_FALSE(tested.take(count));
  }));
  added.take_from(tested);
  EXPECT_TRUE(added.are_taken_once(0, 4));
  ASSERT_TRUE(tested.add(added.address_of(4), no_announcement));
  added.take_from(tested);
  EXPECT_TRUE(added.are_taken_once(0, 5));
}

TEST(ReturnedAddresses, TheOwnerStopsAskingForAnAddressThatNeverComes) {
  returned_addresses tested;
  numbers added{3};
  auto const count = [&](void* address) { added.count(address); };
  ASSERT_TRUE(tested.add(added.address_of(0), no_announcement));
  added.take_from(tested);
  ASSERT_TRUE(tested.add(added.address_of(1), [&] {
    int tries = 0;
    while (!tested.take(count) && tries < 100'000) ++tries;
    EXPECT_EQ(tries, 1000);
    ASSERT_TRUE(tested.add(added.address_of(2), no_announcement));
    EXPECT_TRUE(tested.take(count));
    EXPECT_EQ(added.all[2], 1);
  }));
  added.take_from(tested);
  EXPECT_TRUE(added.are_taken_once(0, 3));
}

/// The owner takes only what is announced. No address may be lost, and each must be seen with what
/// its thread wrote before.
TEST(ReturnedAddresses, OfThreadsAreAllAnnouncedAndSeenWhole) {
  struct item {
    int value = 0;
    int taken = 0;
  };
  constexpr int rounds = 20, count = 2000;
  for (int round = 1; round <= rounds; ++round) {
    returned_addresses tested;
    std::atomic<bool> is_announced{false};
    std::array<std::vector<item>, 2> items;
    std::vector<std::thread> threads;
    std::atomic<int> running{2};
    for (auto& own : items) {
      own.resize(count);
      threads.emplace_back([&] {
        for (item& each : own) {
          each.value = round;
          EXPECT_TRUE(tested.add(&each, [&] {
            if (!is_announced.load(std::memory_order_relaxed))
              is_announced.store(true, std::memory_order_relaxed);
          }));
        }
        --running;
      });
    }
    int taken = 0;
    auto const take = [&] {
      if (!is_announced.load(std::memory_order_relaxed)) return;
      is_announced.store(false, std::memory_order_relaxed);
      bool const has_all = tested.take([&](void* address) {
        auto& found = *static_cast<item*>(address);
        EXPECT_EQ(found.value, round);
        EXPECT_EQ(++found.taken, 1);
        ++taken;
      });
      if (!has_all) is_announced.store(true, std::memory_order_relaxed);
    };
    while (running != 0) take();
    take();
    for (auto& each : threads) each.join();
    take();
    EXPECT_EQ(taken, 2 * count);
  }
}

}  // namespace returned_addresses_test
}  // namespace quarry::test
