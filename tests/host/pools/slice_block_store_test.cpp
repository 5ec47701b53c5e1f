// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/slice_block_store.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace slice_block_store_test {

/// A block of `count` slices with addresses from `base` on.
slice_block& take(slice_block_store& store, std::uint32_t count, std::uint64_t base) {
  store.reserve(count);
  slice_block& fresh = store.take(count);
  fresh.lay_out(base, slice_block::size / count, 0);
  return fresh;
}

TEST(SliceBlockStore, BlocksOfFewSlicesSharePages) {
  slice_block_store store;
  for (std::uint64_t i = 1; i <= 32; ++i) (void)take(store, 16, i * slice_block::size);
  EXPECT_LE(store.footprint(), type_stable_size(32 * 192) + 200);
}

TEST(SliceBlockStore, FreesSlabsWithoutBlocksInUse) {
  slice_block_store store;
  std::vector<slice_block*> blocks;
  for (std::uint64_t i = 1; i <= 1000; ++i) blocks.push_back(&take(store, 512, i << 16));
  bytes const full = store.footprint();
  for (slice_block* const block : blocks) store.keep(*block);
  EXPECT_EQ(store.footprint(), full);
  store.release();
  EXPECT_LT(store.footprint(), full / 50);
  (void)take(store, 512, 1 << 16);
  store.release();
  EXPECT_GE(store.footprint(), 4096u);
}

TEST(SliceBlockStore, AgreesWithASetOfBlocks) {
  slice_block_store store;
  std::mt19937_64 random{1};
  std::vector<std::pair<slice_block*, std::uint32_t>> in_use;
  std::uint64_t base = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 1000 == 0) store.release();
    if (in_use.empty() || random() % 100 < (step / 4000 % 2 == 0 ? 70u : 30u)) {
      std::uint32_t const count = 1u << (4 + random() % 9);
      in_use.push_back({&take(store, count, base += slice_block::size), count});
    } else {
      std::swap(in_use[random() % in_use.size()], in_use.back());
      auto const [block, count] = in_use.back();
      ASSERT_EQ(block->count(), count);
      ASSERT_TRUE(block->is_in_order()) << step;
      store.keep(*block);
      in_use.pop_back();
    }
  }
  std::set<std::pair<std::byte const*, std::byte const*>> ranges;
  for (auto const& [block, count] : in_use) {
    auto const* const begin = reinterpret_cast<std::byte const*>(block);
    ranges.insert({begin, begin + slice_block::bytes_of(count)});
  }
  ASSERT_EQ(ranges.size(), in_use.size());
  std::byte const* end = nullptr;
  for (auto const& [begin, next] : ranges) {
    ASSERT_LE(end, begin);
    end = next;
  }
}

}  // namespace slice_block_store_test
}  // namespace quarry::test
