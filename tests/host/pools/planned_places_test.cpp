// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_places.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace {

using namespace quarry;
using quarry::bytes;

plan plan_of_offsets(std::vector<bytes> const& offsets) {
  plan result;
  for (bytes const offset : offsets) result.allocations.push_back({256, offset, 1});
  return result;
}

TEST(NumberSet, EqualsAStandardSet) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::size_t const limit = 1 + random() % (seed % 2 == 0 ? 200 : 20'000);
    number_set tested{limit};
    std::set<std::size_t> model;
    for (int i = 0; i < 2000; ++i) {
      std::size_t const number = random() % limit, asked = random() % (limit + 1);
      if (random() % 2 == 0) {
        tested.insert(number);
        model.insert(number);
      } else {
        tested.erase(number);
        model.erase(number);
      }
      auto const next = model.lower_bound(asked);
      ASSERT_EQ(tested.at_least(asked), next == model.end() ? std::nullopt : std::optional{*next});
      ASSERT_EQ(tested.less_than(asked),
                next == model.begin() ? std::nullopt : std::optional{*std::prev(next)});
    }
  }
}

/// Takes the place if it is free.
std::optional<bytes> allocate_place(planned_places& places, std::uint32_t number, bytes granted,
                                    bytes requested) {
  auto const offset = places.free_offset(number, granted);
  if (offset) places.allocate(number, granted, requested);
  return offset;
}

TEST(PlannedPlaces, RefuseAPlaceWhoseBytesAreInUse) {
  planned_places tested{plan_of_offsets({0, 256, 512, not_planned})};
  EXPECT_EQ(allocate_place(tested, 1, 256, 200), 256u);
  EXPECT_EQ(allocate_place(tested, 1, 256, 200), std::nullopt);
  EXPECT_EQ(allocate_place(tested, 0, 512, 512), std::nullopt);  // reaches into the place behind it
  EXPECT_EQ(allocate_place(tested, 0, 256, 256), 0u);
  EXPECT_EQ(allocate_place(tested, 3, 256, 256), std::nullopt);
  EXPECT_EQ(tested.size_of(256), 200u);
  EXPECT_EQ(tested.deallocate(256).requested, 200u);
  EXPECT_EQ(tested.deallocate(0).granted, 256u);
  EXPECT_EQ(allocate_place(tested, 0, 512, 512), 0u);
  EXPECT_EQ(allocate_place(tested, 1, 256, 256), std::nullopt);  // inside the place before it
  EXPECT_EQ(tested.count(), 1u);
}

TEST(PlannedPlaces, RefuseFreesOfOtherOffsetsAndChangeNothing) {
  planned_places tested{plan_of_offsets({0, 256})};
  (void)allocate_place(tested, 0, 256, 256);
  for (bytes const wrong : {bytes{1}, bytes{256}, bytes{4096}})
    EXPECT_FALSE(tested.deallocate(wrong));
  EXPECT_TRUE(tested.deallocate(0));
  EXPECT_FALSE(tested.deallocate(0));
  EXPECT_TRUE(tested.audit(512).empty());
}

TEST(PlannedPlaces, EqualANaiveModel) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<bytes> offsets;
    for (auto count = 1 + random() % 100; offsets.size() < count;)
      offsets.push_back(256 * (random() % 60));
    planned_places tested{plan_of_offsets(offsets)};
    std::map<bytes, bytes> model;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0) {
        auto const number = static_cast<std::uint32_t>(random() % offsets.size());
        bytes const begin = offsets[number], size = 256 * (1 + random() % 6);
        bool is_free = true;
        for (auto const& [other, length] : model)
          is_free = is_free && (other + length <= begin || begin + size <= other);
        ASSERT_EQ(allocate_place(tested, number, size, size - 1).has_value(), is_free);
        if (is_free) model[begin] = size;
      } else {
        bytes const offset = 256 * (random() % 60);
        auto const found = model.find(offset);
        auto const freed = tested.deallocate(offset);
        ASSERT_EQ(bool{freed}, found != model.end());
        ASSERT_EQ(freed.granted, found == model.end() ? 0 : found->second);
        if (found != model.end()) model.erase(found);
      }
      ASSERT_EQ(tested.count(), model.size());
      ASSERT_EQ(tested.audit(256 * 66), std::vector<std::string>{});
    }
  }
}

}  // namespace
