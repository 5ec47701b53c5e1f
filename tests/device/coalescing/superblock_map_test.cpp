// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/superblock_map.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace superblock_map_test {

/// A map with `capacity` slots, and its memory.
template <template <class> class Array>
struct map_with_slots {
  explicit map_with_slots(std::uint32_t capacity) : slots(capacity), map{slots.data(), capacity} {}
  Array<superblock_map::slot> slots;
  superblock_map map;
};
template <class T>
using host_array = std::vector<T>;

QUARRY_HD void* address(std::uint64_t number) { return reinterpret_cast<void*>(number * 16); }

TEST(SuperblockMap, FindsAnInsertedKeyUntilItIsRemoved) {
  map_with_slots<host_array> tested{64};
  EXPECT_EQ(tested.map.find(address(5)), nullptr);
  ASSERT_TRUE(tested.map.insert(address(5), address(700)));
  EXPECT_EQ(tested.map.find(address(5)), address(700));
  EXPECT_EQ(tested.map.remove(address(5)), address(700));
  EXPECT_EQ(tested.map.find(address(5)), nullptr);
  EXPECT_EQ(tested.map.remove(address(5)), nullptr);
}

TEST(SuperblockMap, RefusesAKeyIfItIsFullAndKeepsTheOtherKeys) {
  map_with_slots<host_array> tested{32};
  for (std::uint64_t i = 1; i <= 32; ++i)
    ASSERT_TRUE(tested.map.insert(address(i), address(i + 100)));
  EXPECT_FALSE(tested.map.insert(address(33), address(1)));
  for (std::uint64_t i = 1; i <= 32; ++i) EXPECT_EQ(tested.map.find(address(i)), address(i + 100));
  EXPECT_EQ(tested.map.remove(address(7)), address(107));
  EXPECT_TRUE(tested.map.insert(address(33), address(1))) << "a removed key frees its slot";
}

TEST(SuperblockMap, HasNoRoomWithoutSlots) {
  superblock_map empty_map;
  EXPECT_EQ(empty_map.capacity(), 0u);
  EXPECT_FALSE(empty_map.insert(address(1), address(2)));
  EXPECT_EQ(empty_map.find(address(1)), nullptr);
  EXPECT_EQ(empty_map.remove(address(1)), nullptr);
}

TEST(SuperblockMap, FindsNothingAtAddressesThatMarkEmptySlots) {
  map_with_slots<host_array> tested{16};
  for (std::uint64_t i = 1; i <= 16; ++i)
    ASSERT_TRUE(tested.map.insert(address(i), address(i + 100)));
  for (std::uint64_t i = 1; i <= 16; ++i) ASSERT_NE(tested.map.remove(address(i)), nullptr);
  for (std::uint64_t const mark : {0u, 1u, 2u}) {
    EXPECT_EQ(tested.map.find(reinterpret_cast<void*>(mark)), nullptr) << mark;
    EXPECT_EQ(tested.map.remove(reinterpret_cast<void*>(mark)), nullptr) << mark;
  }
}

TEST(SuperblockMap, HoldsHalfOfItsCapacityAndNearlyThreeQuarters) {
  for (std::uint64_t const stride : {1u, 2u, 7u, 26u}) {
    map_with_slots<host_array> tested{4096};
    std::uint64_t refused = 0;
    for (std::uint64_t i = 0; i < 2048; ++i)
      refused += tested.map.insert(address(0x70000000 + i * stride), address(1)) ? 0 : 1;
    EXPECT_EQ(refused, 0u) << "stride " << stride;
    for (std::uint64_t i = 2048; i < 3072; ++i)
      refused += tested.map.insert(address(0x70000000 + i * stride), address(1)) ? 0 : 1;
    EXPECT_LE(refused, 31u) << "stride " << stride;
  }
}

TEST(SuperblockMap, AgreesWithAMapForRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    for (std::uint32_t const capacity : {1u, 2u, 64u, 128u, 1024u}) {
      dice random{seed};
      map_with_slots<host_array> tested{capacity};
      std::map<void*, void*> model;
      for (std::uint32_t step = 0; step < 2000; ++step) {
        void* const key = address(1 + random.below(capacity * 2));
        if (random.below(2) == 0 && !model.contains(key)) {
          void* const value = address(1 + random.below(1000));
          if (tested.map.insert(key, value)) {
            model[key] = value;
          } else {
            ASSERT_GE(model.size(), std::min(capacity, superblock_map::window))
                << "seed " << seed << " step " << step;
          }
        } else {
          auto const known = model.find(key);
          void* const expected = known == model.end() ? nullptr : known->second;
          ASSERT_EQ(tested.map.find(key), expected) << "seed " << seed << " step " << step;
          if (random.below(2) == 0) {
            ASSERT_EQ(tested.map.remove(key), expected);
            model.erase(key);
          }
        }
      }
      for (auto const& [key, value] : model) ASSERT_EQ(tested.map.find(key), value);
    }
  }
}

/// Each lane inserts, finds and removes its own keys. Some keys share a window with keys of other
/// lanes.
struct lanes_churn {
  superblock_map::slot* slots;
  std::uint32_t capacity;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    superblock_map map{slots, capacity};
    auto const place = simt::this_place();
    std::uint32_t bad = 0;
    for (std::uint32_t round = 0; round < 8; ++round) {
      std::uint64_t const first = 1 + place.rank() + place.count() * (round % 3);
      bool const is_in = map.insert(address(first), address(first + 5000));
      if (!is_in) ++bad;
      if (map.find(address(first)) != address(first + 5000)) ++bad;
      if (map.remove(address(first)) != address(first + 5000)) ++bad;
      if (map.find(address(first)) != nullptr) ++bad;
    }
    simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(bad, simt::relaxed);
  }
};

/// All lanes remove the same keys.
struct lanes_remove {
  superblock_map::slot* slots;
  std::uint32_t capacity;
  std::uint32_t* removed;

  QUARRY_HD void operator()() const {
    superblock_map map{slots, capacity};
    for (std::uint64_t i = 1; i <= 16; ++i) {
      if (map.remove(address(i)) != nullptr)
        simt::atomic_ref<std::uint32_t>{*removed}.fetch_add(1, simt::relaxed);
    }
  }
};

template <class Backend>
struct SuperblockMapOn : testing::Test {};
TYPED_TEST_SUITE(SuperblockMapOn, backends, backend_names);

TYPED_TEST(SuperblockMapOn, FindsTheKeysOfEachLane) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    typename TypeParam::template array<superblock_map::slot> slots(256);
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run(small_grid, lanes_churn{slots.data(), 256, wrong.data()});
    ASSERT_EQ(wrong[0], 0u) << "seed " << seed;
  }
}

TYPED_TEST(SuperblockMapOn, OneOfTheLanesThatRemoveOneKeyAtOnceSucceeds) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    typename TypeParam::template array<superblock_map::slot> slots(32);
    typename TypeParam::template array<std::uint32_t> removed(1);
    superblock_map map{slots.data(), 32};
    for (std::uint64_t i = 1; i <= 16; ++i) ASSERT_TRUE(map.insert(address(i), address(i + 100)));
    backend.run({1, 8}, lanes_remove{slots.data(), 32, removed.data()});
    ASSERT_EQ(removed[0], 16u) << "seed " << seed;
  }
}

/// A thread that finds a key sees the writes that the inserting thread made before, without any
/// other synchronisation.
TEST(SuperblockMap, AThreadThatFindsAKeySeesTheInsertersWrites) {
  for (int round = 0; round < 200; ++round) {
    map_with_slots<host_array> tested{64};
    std::uint64_t payload = 0;
    simt::launch_threads({2, 1}, 2, [&] {
      if (simt::this_place().block == 0) {
        payload = 7;
        EXPECT_TRUE(tested.map.insert(address(9), &payload));
        return;
      }
      for (int tries = 0; tries < 100000; ++tries) {
        auto* const found = static_cast<std::uint64_t*>(tested.map.find(address(9)));
        if (found == nullptr) continue;
        EXPECT_EQ(*found, 7u);
        return;
      }
    });
  }
}

}  // namespace superblock_map_test
}  // namespace quarry::test
