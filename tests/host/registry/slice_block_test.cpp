// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/slice_block.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace slice_block_test {

constexpr std::uint64_t base = std::uint64_t{5} << 32;

/// In lasting memory, as zeros.
struct made {
  slice_block& block = *static_cast<slice_block*>(
      type_stable_allocate(type_stable_use::slice_blocks, sizeof(slice_block)));
  explicit made(bytes slice) { block.lay_out(base, slice, 0); }
  ~made() { type_stable_deallocate(type_stable_use::slice_blocks, &block, sizeof(slice_block)); }
};

slice_block::handle taken(slice_block& source, bytes requested) {
  auto const one = source.take();
  one.set_in_use(requested);
  return one;
}

TEST(SliceBlock, HandsOutEachSliceOnceAndFindsEachByItsBegin) {
  for (bytes const slice : {16u, 48u, 80u, 144u, 1008u, 2304u, 3840u, 4096u}) {
    made one{slice};
    auto& block = one.block;
    ASSERT_EQ(block.count(), slice_block::size / slice);
    std::set<std::uint64_t> bases;
    for (std::uint32_t i = 0; i < block.count(); ++i) {
      ASSERT_FALSE(block.is_full());
      auto const one_slice = block.take();
      ASSERT_TRUE(block.find_base(one_slice.base).what.is_free());
      one_slice.set_in_use(i % (slice + 1));
      bases.insert(one_slice.base);
    }
    EXPECT_TRUE(block.is_full());
    EXPECT_TRUE(block.is_in_order());
    ASSERT_EQ(bases.size(), block.count());
    EXPECT_EQ(*bases.begin(), base);
    EXPECT_EQ(*bases.rbegin(), base + (block.count() - 1) * slice);
    for (bytes offset = 0; offset < slice_block::size; ++offset) {
      auto const [number, what] = block.find_base(base + offset);
      ASSERT_EQ(what.is_free(), !bases.contains(base + offset)) << slice << ' ' << offset;
      if (!what.is_free()) {
        ASSERT_EQ(number, offset / slice);
      }
    }
  }
}

TEST(SliceBlock, GivesTheLatestFreeSliceFirst) {
  made one{64};
  auto const a = taken(one.block, 60), b = taken(one.block, 61), c = taken(one.block, 62);
  EXPECT_EQ(one.block.taken(), 3u);
  one.block.put(a);
  one.block.put(c);
  EXPECT_EQ(one.block.taken(), 1u);
  EXPECT_TRUE(one.block.is_in_order());
  EXPECT_EQ(taken(one.block, 1).base, c.base);
  EXPECT_EQ(taken(one.block, 2).base, a.base);
  EXPECT_EQ(one.block.find_base(b.base).what.requested(), 61u);
  EXPECT_EQ(one.block.find_base(a.base).what.requested(), 2u);
}

TEST(SliceBlock, OfASliceThatIsTakenButNotInUseNothingIsFound) {
  made one{64};
  auto const a = taken(one.block, 60);
  EXPECT_TRUE(one.block.find(a.base));
  a.set_free();
  EXPECT_FALSE(one.block.find(a.base));
  EXPECT_TRUE(one.block.find_base(a.base).what.is_free());
  EXPECT_EQ(one.block.taken(), 1u);
  EXPECT_NE(one.block.take().base, a.base);
}

TEST(SliceBlock, FindsWhatAnAddressBelongsTo) {
  made one{48};
  auto const a = taken(one.block, 40).base, b = taken(one.block, 0).base;
  one.block.set_labelled(one.block.find_base(a).number);
  for (bytes offset = 0; offset < 96; ++offset) {
    auto const found = one.block.find(base + offset);
    if (offset < 40) {
      ASSERT_EQ(found.base, a);
      ASSERT_EQ(bytes{found.size}, 40u);
      ASSERT_TRUE(found.is_labelled);
    } else if (offset == 48) {
      ASSERT_EQ(found.base, b);
      ASSERT_FALSE(found.is_labelled);
    } else {
      ASSERT_FALSE(found) << offset;
    }
  }
  EXPECT_FALSE(one.block.find(base + slice_block::size - 1));  // left over: 65536 % 48 = 16
  // another map page's address, as one who followed an old pointer has
  EXPECT_FALSE(one.block.find(base + slice_block::size));
  one.block.give_up();
  EXPECT_FALSE(one.block.find(a));
}

TEST(SliceBlock, IsFoundAsItWasLaidOutLast) {
  made one{64};
  for (std::uint64_t round = 0; round < 70'000; ++round) {  // beyond the wrap of its layouts
    one.block.give_up();
    ASSERT_FALSE(one.block.find(base));
    bytes const slice = round % 2 == 0 ? 4096 : 2048;
    one.block.lay_out(base, slice, 0);
    auto const its = taken(one.block, slice);
    ASSERT_EQ(its.base, base);
    ASSERT_EQ(one.block.find(base + slice - 1).base, base);
    ASSERT_FALSE(one.block.find(base + slice));
  }
}

TEST(SliceBlock, IsFoundWholeByAThreadThatLooksWhileItIsLaidOutAnew) {
  made one{64};
  std::atomic<bool> ends{false};
  std::thread looks{[&] {
    std::uint64_t const address = base + 15788;
    while (!ends) {
      auto const there = one.block.find(address);
      if (!there) continue;
      if (there.base == base + 3 * 4096) {
        ASSERT_EQ(bytes{there.size}, 4096u);
      } else {
        ASSERT_EQ(there.base, base + 5 * 3072);
        ASSERT_EQ(bytes{there.size}, 3072u);
      }
    }
  }};
  for (std::uint64_t round = 0; round < 60'000; ++round) {
    one.block.give_up();
    bytes const slice = round % 2 == 0 ? 4096 : 3072;
    one.block.lay_out(base, slice, 0);
    for (int i = 0; i < 8; ++i) (void)taken(one.block, slice);
  }
  ends = true;
  looks.join();
}

TEST(SliceMap, HasABlockForItsGranuleOnly) {
  auto& all = *static_cast<slice_map*>(
      type_stable_allocate(type_stable_use::slice_roots, sizeof(slice_map)));
  made one{64}, other{64};
  std::uint64_t const last = object_starts::end - slice_block::size;
  EXPECT_EQ(all.at(base), nullptr);
  slice_map::made_leaves made_leaves;
  all.reserve(base, made_leaves);
  all.reserve(last, made_leaves);
  all.set(base, &one.block);
  all.set(last, &other.block);
  for (std::uint64_t const offset : {std::uint64_t{0}, slice_block::size - 1}) {
    EXPECT_EQ(all.at(base + offset), &one.block);
    EXPECT_EQ(all.look(last + offset), &other.block);
  }
  EXPECT_EQ(all.at(base - 1), nullptr);
  EXPECT_EQ(all.at(base + slice_block::size), nullptr);
  EXPECT_EQ(all.look(0), nullptr);
  all.set(base, nullptr);
  EXPECT_EQ(all.look(base), nullptr);
  EXPECT_EQ(made_leaves.size(), 2u);
  EXPECT_GT(all.resident(made_leaves), bytes{2} * 4096);
  all.clear(made_leaves);
  EXPECT_EQ(all.look(last), nullptr);
  type_stable_deallocate(type_stable_use::slice_roots, &all, sizeof(slice_map));
}

}  // namespace slice_block_test
}  // namespace quarry::test
