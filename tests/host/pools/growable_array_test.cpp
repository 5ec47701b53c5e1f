// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/growable_array.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/platform/host_pages.hpp"

#include <gtest/gtest.h>

#include <random>

namespace quarry::test {

using namespace detail;
namespace growable_array_test {

using namespace quarry::literals;

TEST(GrowableArray, KeepsItsElementsWhenItGrowsAndShrinks) {
  pool<host_resource> source{host_resource{}, {.first_block = 1_MiB}};
  {
    growable_array<int, pool<host_resource>> first{source};
    first.resize(10);
    for (int i = 0; i < 10; ++i) first.data()[i] = i;
    first.resize(10'000);
    first.resize(5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(first.data()[i], i);
    growable_array<int, pool<host_resource>> const second = std::move(first);
    EXPECT_EQ(second.size(), 5u);
    EXPECT_EQ(second.data()[4], 4);
    EXPECT_EQ(first.data(), nullptr);
  }
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
}

TEST(GrowableArray, MovesAsOftenAsItsPolicyDemands) {
  pool<host_resource> source{host_resource{}, {.first_block = 1_MiB}};
  growable_array<char, pool<host_resource>> exact{source, growth_policy::exact()};
  growable_array<char, pool<host_resource>> geometric{source, growth_policy::geometric(2)};
  for (std::size_t size = 1; size <= 1000; ++size) {
    exact.resize(size);
    geometric.resize(size);
  }
  EXPECT_EQ(exact.counts().moves, 1000u);
  EXPECT_LE(geometric.counts().moves, 10u);
}

TEST(GrowableArray, AllocatesOnlyTheNeededRoomWhenMemoryIsShortAndChangesNothingOnFailure) {
  using small_pool = pool<limited_resource<host_resource>>;
  small_pool source{limited_resource<host_resource>{host_resource{}, 1_MiB},
                    {.first_block = 1_MiB}};
  growable_array<char, small_pool> array{source, growth_policy::geometric(4)};
  array.resize(500'000);
  EXPECT_EQ(array.capacity(), 500'000u);
  array.data()[499'999] = 7;
  EXPECT_THROW(array.resize(800'000), out_of_memory);
  EXPECT_THROW(array.resize(~std::size_t{0}), out_of_memory);
  EXPECT_EQ(array.size(), 500'000u);
  EXPECT_EQ(array.data()[499'999], 7);
}

TEST(GrowableArray, IsAlignedForItsElementsInAnyPool) {
  struct alignas(64) wide {
    char bytes_of[64];
  };
  pool<host_resource> narrow{host_resource{}, {.first_block = 1_MiB}};
  (void)narrow.allocate(16);
  growable_array<wide, pool<host_resource>> second{narrow};
  second.resize(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.data()) % 64, 0u);
  pool<host_resource> source{host_resource{}, {.first_block = 1_MiB, .alignment = 64}};
  growable_array<wide, pool<host_resource>> first{source};
  first.resize(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 64, 0u);
}

TEST(GrowableArray, AgreesWithAVector) {
  std::mt19937 random{2};
  pool<host_resource> source{host_resource{}, {.first_block = 1_MiB}};
  for (auto const& policy :
       {growth_policy::exact(), growth_policy::geometric(), growth_policy::hysteresis(),
        growth_policy::from_history({5, 900, 3})}) {
    growable_array<unsigned, pool<host_resource>> array{source, policy};
    std::vector<unsigned> model;
    for (int step = 0; step < 500; ++step) {
      std::size_t const old_size = model.size();
      std::size_t const size = random() % 3000;
      array.resize(size);
      model.resize(size);
      for (std::size_t at = old_size; at < size; ++at)
        array.data()[at] = model[at] = static_cast<unsigned>(random());
      ASSERT_TRUE(std::equal(model.begin(), model.end(), array.data()));
    }
  }
}

TEST(PagedArray, NeverMovesAndReservesAtMostOnePageMore) {
  paged_array<int, host_pages> array{host_pages{}, 10'000'000};
  int* const data = array.data();
  array.resize(1000);
  data[0] = 1;
  data[999] = 2;
  array.resize(9'000'000);
  data[8'999'999] = 3;
  EXPECT_EQ(array.data(), data);
  EXPECT_LT(array.reserved(), 9'000'000 * sizeof(int) + 64_KiB);
  array.resize(1000);
  EXPECT_EQ(array.reserved(), 64_KiB);
  EXPECT_EQ(data[0], 1);
  EXPECT_EQ(data[999], 2);
  array.resize(0);
  EXPECT_EQ(array.reserved(), 0u);
}

TEST(PagedArray, RefusesMoreThanItsMaximumAndChangesNothing) {
  paged_array<int, host_pages> array{host_pages{}, 1000};
  array.resize(1000);
  EXPECT_THROW(array.resize(1001), out_of_memory);
  EXPECT_EQ(array.size(), 1000u);
  EXPECT_THROW((paged_array<int, host_pages>{host_pages{}, 0}), bad_argument);
}

TEST(PagedArray, AgreesWithAVector) {
  std::mt19937 random{4};
  for (auto const& policy : {growth_policy::exact(), growth_policy::hysteresis()}) {
    paged_array<unsigned, host_pages> array{host_pages{4096}, 100'000, policy};
    std::vector<unsigned> model;
    for (int step = 0; step < 300; ++step) {
      std::size_t const old_size = model.size();
      std::size_t const size = random() % 100'000;
      array.resize(size);
      model.resize(size);
      for (std::size_t at = old_size; at < size; ++at)
        array.data()[at] = model[at] = static_cast<unsigned>(random());
      ASSERT_TRUE(std::equal(model.begin(), model.end(), array.data()));
      ASSERT_GE(array.reserved(), size * sizeof(unsigned));
    }
  }
}

}  // namespace growable_array_test
}  // namespace quarry::test
