// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/block_source.hpp"

#include "quarry/host/pools/pool_options.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {

using namespace detail;
namespace block_source_test {

using namespace quarry::literals;

/// Refuses more than `largest` bytes; writes down what it was asked for.
struct refusing_resource {
  bytes* largest;
  std::vector<bytes>* requests;
  int synchronized = 0;
  void* allocate(bytes size, bytes) {
    requests->push_back(size);
    if (size > *largest) throw out_of_memory{"refusing_resource", size, "too much"};
    return reinterpret_cast<void*>(std::uintptr_t{1} << 40);
  }
  void deallocate(void*, bytes, bytes) noexcept {}
  void synchronize() {
    if (*largest == 1) throw resource_failed{"refusing_resource", "settle"};
    ++synchronized;
  }
  static constexpr bool is_simulated = true;
};

struct tried {
  bytes largest = ~bytes{0};
  std::vector<bytes> requests{};
  chunk_table chunks{};
  block_source<refusing_resource> source;
  explicit tried(bytes maximum = ~bytes{0})
      : source{"tried", refusing_resource{&largest, &requests},
               checked_blocks("", pool_options{.max_bytes = maximum}), chunks} {}
  int releases = 0;
  auto take(bytes size, bytes minimum, bool has_more) {
    return source.take(size, {minimum, minimum}, [&] {
      ++releases;
      return has_more;
    });
  }
};

TEST(BlockSource, TakesCountsAndGives) {
  tried one;
  auto const a = one.take(1_MiB, 100, true), b = one.take(2_MiB, 100, true);
  EXPECT_EQ(a.size, 1_MiB);
  EXPECT_EQ(one.source.reserved(), 3_MiB);
  one.source.give(b);
  EXPECT_EQ(one.source.reserved(), 1_MiB);
  EXPECT_EQ(one.source.memory().peak(), 3_MiB);
  EXPECT_EQ(one.source.allocated(), 2u);
  EXPECT_EQ(one.source.returned(), 1u);
  EXPECT_EQ(one.source.resource().synchronized, 2);
  EXPECT_EQ(one.releases, 0);
}

TEST(BlockSource, AsksForLessWhereMoreCannotBeHad) {
  tried one;
  one.largest = 20'000;
  EXPECT_EQ(one.take(1_MiB, 160, true).size, 16'384u);
  EXPECT_EQ(one.requests, (std::vector<bytes>{1_MiB, 1_MiB, 128_KiB, 16_KiB}));
  EXPECT_EQ(one.releases, 1);
  one.requests.clear();
  one.largest = 200;
  EXPECT_EQ(one.take(1_MiB, 160, false).size, 160u);
  EXPECT_EQ(one.requests, (std::vector<bytes>{1_MiB, 128_KiB, 16_KiB, 2_KiB, 160}));
  one.requests.clear();
  EXPECT_THROW((void)one.take(1_MiB, 208, false), out_of_memory);
  EXPECT_EQ(one.requests.back(), 208u);
  EXPECT_EQ(one.source.allocated(), 2u);
}

TEST(BlockSource, HoldsNoMoreThanItMay) {
  tried one{1000};
  EXPECT_EQ(one.take(1_MiB, 160, true).size, 992u);
  EXPECT_THROW((void)one.take(160, 160, false), out_of_memory);
  EXPECT_EQ(one.releases, 1);
  EXPECT_THROW((void)one.take(1008, 1008, true), out_of_memory);
  EXPECT_EQ(one.releases, 1) << "it will never fit";
  EXPECT_EQ(one.requests.size(), 1u);
}

TEST(BlockSource, GivesABlockBackThatCannotBeSettled) {
  tried one;
  one.largest = 1;
  EXPECT_THROW((void)one.take(1, 1, false), resource_failed);
  EXPECT_EQ(one.source.reserved(), 0u);
  EXPECT_EQ(one.source.returned(), 1u);
}

}  // namespace block_source_test
}  // namespace quarry::test
