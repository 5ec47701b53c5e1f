// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/superblock_map.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace superblock_map_test {

/// A map of so many slots, and addresses to put into it.
template <template <class> class Array>
struct room {
  explicit room(std::uint32_t capacity) : slots(capacity), map{slots.data(), capacity} {}
  Array<superblock_map::slot> slots;
  superblock_map map;
};
template <class T>
using host_array = std::vector<T>;

QUARRY_HD void* address(std::uint64_t number) { return reinterpret_cast<void*>(number * 16); }

TEST(SuperblockMap, FindsWhatWasInsertedUntilItIsRemoved) {
  room<host_array> of{64};
  EXPECT_EQ(of.map.find(address(5)), nullptr);
  ASSERT_TRUE(of.map.insert(address(5), address(700)));
  EXPECT_EQ(of.map.find(address(5)), address(700));
  EXPECT_EQ(of.map.remove(address(5)), address(700));
  EXPECT_EQ(of.map.find(address(5)), nullptr);
  EXPECT_EQ(of.map.remove(address(5)), nullptr);
}

TEST(SuperblockMap, RefusesWhatItHasNoRoomForAndKeepsTheRest) {
  room<host_array> of{32};
  for (std::uint64_t i = 1; i <= 32; ++i) ASSERT_TRUE(of.map.insert(address(i), address(i + 100)));
  EXPECT_FALSE(of.map.insert(address(33), address(1)));
  for (std::uint64_t i = 1; i <= 32; ++i) EXPECT_EQ(of.map.find(address(i)), address(i + 100));
  EXPECT_EQ(of.map.remove(address(7)), address(107));
  EXPECT_TRUE(of.map.insert(address(33), address(1))) << "a removed key leaves its slot";
}

TEST(SuperblockMap, HasNoRoomWithoutSlots) {
  superblock_map none;
  EXPECT_EQ(none.capacity(), 0u);
  EXPECT_FALSE(none.insert(address(1), address(2)));
  EXPECT_EQ(none.find(address(1)), nullptr);
  EXPECT_EQ(none.remove(address(1)), nullptr);
}

TEST(SuperblockMap, FindsNothingAtAddressesThatItsSlotsMark) {
  room<host_array> of{16};
  for (std::uint64_t i = 1; i <= 16; ++i) ASSERT_TRUE(of.map.insert(address(i), address(i + 100)));
  for (std::uint64_t i = 1; i <= 16; ++i) ASSERT_NE(of.map.remove(address(i)), nullptr);
  for (std::uint64_t const mark : {0u, 1u, 2u}) {
    EXPECT_EQ(of.map.find(reinterpret_cast<void*>(mark)), nullptr) << mark;
    EXPECT_EQ(of.map.remove(reinterpret_cast<void*>(mark)), nullptr) << mark;
  }
}

TEST(SuperblockMap, HoldsHalfOfItsCapacityAndNearlyThreeQuarters) {
  for (std::uint64_t const stride : {1u, 2u, 7u, 26u}) {
    room<host_array> of{4096};
    std::uint64_t refused = 0;
    for (std::uint64_t i = 0; i < 2048; ++i)
      refused += of.map.insert(address(0x70000000 + i * stride), address(1)) ? 0 : 1;
    EXPECT_EQ(refused, 0u) << "stride " << stride;
    for (std::uint64_t i = 2048; i < 3072; ++i)
      refused += of.map.insert(address(0x70000000 + i * stride), address(1)) ? 0 : 1;
    EXPECT_LE(refused, 31u) << "stride " << stride;
  }
}

TEST(SuperblockMap, AgreesWithAMapWhateverTheOrder) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    for (std::uint32_t const capacity : {1u, 2u, 64u, 128u, 1024u}) {
      dice random{seed};
      room<host_array> of{capacity};
      std::map<void*, void*> model;
      for (std::uint32_t step = 0; step < 2000; ++step) {
        void* const key = address(1 + random.below(capacity * 2));
        if (random.below(2) == 0 && !model.contains(key)) {
          void* const value = address(1 + random.below(1000));
          if (of.map.insert(key, value)) {
            model[key] = value;
          } else {
            ASSERT_GE(model.size(), std::min(capacity, superblock_map::window))
                << "seed " << seed << " step " << step;
          }
        } else {
          auto const known = model.find(key);
          void* const expected = known == model.end() ? nullptr : known->second;
          ASSERT_EQ(of.map.find(key), expected) << "seed " << seed << " step " << step;
          if (random.below(2) == 0) {
            ASSERT_EQ(of.map.remove(key), expected);
            model.erase(key);
          }
        }
      }
      for (auto const& [key, value] : model) ASSERT_EQ(of.map.find(key), value);
    }
  }
}

/// Each lane inserts, finds and removes keys of its own, some in the same windows as others'.
struct lanes_churn {
  superblock_map::slot* slots;
  std::uint32_t capacity;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    superblock_map map{slots, capacity};
    auto const here = simt::this_place();
    std::uint32_t bad = 0;
    for (std::uint32_t round = 0; round < 8; ++round) {
      std::uint64_t const first = 1 + here.rank() + here.count() * (round % 3);
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

TYPED_TEST(SuperblockMapOn, KeepsEachLanesKeys) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    typename TypeParam::template array<superblock_map::slot> slots(256);
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run(small_grid, lanes_churn{slots.data(), 256, wrong.data()});
    ASSERT_EQ(wrong[0], 0u) << "seed " << seed;
  }
}

TYPED_TEST(SuperblockMapOn, OfLanesThatRemoveOneKeyAtOnceOneSucceeds) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    typename TypeParam::template array<superblock_map::slot> slots(32);
    typename TypeParam::template array<std::uint32_t> removed(1);
    typename TypeParam::template array<std::uint32_t> wrong(1);
    superblock_map map{slots.data(), 32};
    for (std::uint64_t i = 1; i <= 16; ++i) ASSERT_TRUE(map.insert(address(i), address(i + 100)));
    backend.run({1, 8}, lanes_remove{slots.data(), 32, removed.data()});
    ASSERT_EQ(removed[0], 16u) << "seed " << seed;
  }
}

/// Whoever finds a key sees what its inserter wrote before, even if it heard of the key in no other
/// way.
TEST(SuperblockMap, WhoFindsAKeySeesWhatItStandsFor) {
  for (int round = 0; round < 200; ++round) {
    room<host_array> of{64};
    std::uint64_t payload = 0;
    simt::launch_threads({2, 1}, 2, [&] {
      if (simt::this_place().block == 0) {
        payload = 7;
        EXPECT_TRUE(of.map.insert(address(9), &payload));
        return;
      }
      for (int tries = 0; tries < 100000; ++tries) {
        auto* const found = static_cast<std::uint64_t*>(of.map.find(address(9)));
        if (found == nullptr) continue;
        EXPECT_EQ(*found, 7u);
        return;
      }
    });
  }
}

}  // namespace superblock_map_test
}  // namespace quarry::test
