// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/block_source.hpp"

#include "quarry/host/pools/pool_options.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {

using namespace detail;
namespace block_source_test {

using namespace quarry::literals;

/// Refuses requests of more than `largest` bytes; records each request's size.
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
    if (*largest == 1) throw resource_failed{"refusing_resource", "synchronize"};
    ++synchronized;
  }
  static constexpr bool is_simulated = true;
};

struct tested_source {
  bytes largest = ~bytes{0};
  std::vector<bytes> requests{};
  chunk_table chunks{};
  block_source<refusing_resource> source;
  explicit tested_source(bytes maximum = ~bytes{0})
      : source{"tried", refusing_resource{&largest, &requests},
               checked_blocks("", pool_options{.max_bytes = maximum}), chunks} {}
  int releases = 0;
  auto allocate(bytes size, bytes minimum, bool has_more) {
    return source.allocate(size, {minimum, minimum}, [&] {
      ++releases;
      return has_more;
    });
  }
};

TEST(BlockSource, AllocatesCountsAndReturnsBlocks) {
  tested_source tested;
  auto const a = tested.allocate(1_MiB, 100, true), b = tested.allocate(2_MiB, 100, true);
  EXPECT_EQ(a.size, 1_MiB);
  EXPECT_EQ(tested.source.reserved(), 3_MiB);
  tested.source.deallocate(b);
  EXPECT_EQ(tested.source.reserved(), 1_MiB);
  EXPECT_EQ(tested.source.memory().peak(), 3_MiB);
  EXPECT_EQ(tested.source.allocated(), 2u);
  EXPECT_EQ(tested.source.returned(), 1u);
  EXPECT_EQ(tested.source.resource().synchronized, 2);
  EXPECT_EQ(tested.releases, 0);
}

TEST(BlockSource, RequestsSmallerBlocksWhenALargeBlockFails) {
  tested_source tested;
  tested.largest = 20'000;
  EXPECT_EQ(tested.allocate(1_MiB, 160, true).size, 16'384u);
  EXPECT_EQ(tested.requests, (std::vector<bytes>{1_MiB, 1_MiB, 128_KiB, 16_KiB}));
  EXPECT_EQ(tested.releases, 1);
  tested.requests.clear();
  tested.largest = 200;
  EXPECT_EQ(tested.allocate(1_MiB, 160, false).size, 160u);
  EXPECT_EQ(tested.requests, (std::vector<bytes>{1_MiB, 128_KiB, 16_KiB, 2_KiB, 160}));
  tested.requests.clear();
  EXPECT_THROW((void)tested.allocate(1_MiB, 208, false), out_of_memory);
  EXPECT_EQ(tested.requests.back(), 208u);
  EXPECT_EQ(tested.source.allocated(), 2u);
}

TEST(BlockSource, EnforcesItsLimit) {
  tested_source tested{1000};
  EXPECT_EQ(tested.allocate(1_MiB, 160, true).size, 992u);
  EXPECT_THROW((void)tested.allocate(160, 160, false), out_of_memory);
  EXPECT_EQ(tested.releases, 1);
  EXPECT_THROW((void)tested.allocate(1008, 1008, true), out_of_memory);
  EXPECT_EQ(tested.releases, 1) << "the request exceeds the limit, so no release can help";
  EXPECT_EQ(tested.requests.size(), 1u);
}

TEST(BlockSource, ReturnsABlockWhoseSynchronizationFails) {
  tested_source tested;
  tested.largest = 1;
  EXPECT_THROW((void)tested.allocate(1, 1, false), resource_failed);
  EXPECT_EQ(tested.source.reserved(), 0u);
  EXPECT_EQ(tested.source.returned(), 1u);
}

}  // namespace block_source_test
}  // namespace quarry::test
