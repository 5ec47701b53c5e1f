// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/slice_block.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace quarry::test {

using namespace detail;
namespace slice_block_test {

constexpr std::uint64_t base = std::uint64_t{5} << 32;

/// A block of slices in type-stable memory, which starts as zeros.
struct made {
  slice_block& block = *static_cast<slice_block*>(
      type_stable_allocate(type_stable_use::slice_blocks, sizeof(slice_block)));
  explicit made(bytes slice) { block.lay_out(base, slice, nullptr); }
  ~made() { type_stable_deallocate(type_stable_use::slice_blocks, &block, sizeof(slice_block)); }
};

slice_block::handle take_in_use(slice_block& source, bytes requested) {
  auto const slice = source.remove();
  slice.set_in_use(requested);
  return slice;
}

TEST(SliceBlock, HandsOutEachSliceOnceAndFindsItByItsBaseAddress) {
  for (bytes const slice : {16u, 48u, 80u, 144u, 1008u, 2304u, 3840u, 4096u}) {
    made tested{slice};
    auto& block = tested.block;
    ASSERT_EQ(block.count(), slice_block::size / slice);
    std::set<std::uint64_t> bases;
    for (std::uint32_t i = 0; i < block.count(); ++i) {
      ASSERT_FALSE(block.is_full());
      auto const one_slice = block.remove();
      ASSERT_TRUE(block.find_base(one_slice.base).slice.is_free());
      one_slice.set_in_use(i % (slice + 1));
      bases.insert(one_slice.base);
    }
    EXPECT_TRUE(block.is_full());
    EXPECT_TRUE(block.is_in_order());
    ASSERT_EQ(bases.size(), block.count());
    EXPECT_EQ(*bases.begin(), base);
    EXPECT_EQ(*bases.rbegin(), base + (block.count() - 1) * slice);
    for (bytes offset = 0; offset < slice_block::size; ++offset) {
      auto const [number, state] = block.find_base(base + offset);
      ASSERT_EQ(state.is_free(), !bases.contains(base + offset)) << slice << ' ' << offset;
      if (!state.is_free()) {
        ASSERT_EQ(number, offset / slice);
      }
    }
  }
}

TEST(SliceBlock, GivesTheLatestFreeSliceFirst) {
  made tested{64};
  auto const a = take_in_use(tested.block, 60), b = take_in_use(tested.block, 61),
             c = take_in_use(tested.block, 62);
  EXPECT_EQ(tested.block.removed(), 3u);
  tested.block.put(a);
  tested.block.put(c);
  EXPECT_EQ(tested.block.removed(), 1u);
  EXPECT_TRUE(tested.block.is_in_order());
  EXPECT_EQ(take_in_use(tested.block, 1).base, c.base);
  EXPECT_EQ(take_in_use(tested.block, 2).base, a.base);
  EXPECT_EQ(tested.block.find_base(b.base).slice.requested(), 61u);
  EXPECT_EQ(tested.block.find_base(a.base).slice.requested(), 2u);
}

TEST(SliceBlock, DoesNotFindASliceThatIsRemovedButNotInUse) {
  made tested{64};
  auto const a = take_in_use(tested.block, 60);
  EXPECT_TRUE(tested.block.find(a.base));
  a.set_free();
  EXPECT_FALSE(tested.block.find(a.base));
  EXPECT_TRUE(tested.block.find_base(a.base).slice.is_free());
  EXPECT_EQ(tested.block.removed(), 1u);
  EXPECT_NE(tested.block.remove().base, a.base);
}

TEST(SliceBlock, FindsTheSliceOfAnInteriorPointer) {
  made tested{48};
  auto const a = take_in_use(tested.block, 40).base, b = take_in_use(tested.block, 0).base;
  tested.block.set_labelled(tested.block.find_base(a).number);
  for (bytes offset = 0; offset < 96; ++offset) {
    auto const found = tested.block.find(base + offset);
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
  EXPECT_FALSE(tested.block.find(base + slice_block::size - 1));  // the remainder: 65536 % 48 = 16
  // An address of another page. A reader that followed an old pointer may pass such an address.
  EXPECT_FALSE(tested.block.find(base + slice_block::size));
  tested.block.detach();
  EXPECT_FALSE(tested.block.find(a));
}

TEST(SliceBlock, IsFoundWithItsLatestLayout) {
  made tested{64};
  for (std::uint64_t round = 0; round < 70'000; ++round) {  // more rounds than layout numbers
    tested.block.detach();
    ASSERT_FALSE(tested.block.find(base));
    bytes const slice = round % 2 == 0 ? 4096 : 2048;
    tested.block.lay_out(base, slice, nullptr);
    auto const slice_handle = take_in_use(tested.block, slice);
    ASSERT_EQ(slice_handle.base, base);
    ASSERT_EQ(tested.block.find(base + slice - 1).base, base);
    ASSERT_FALSE(tested.block.find(base + slice));
  }
}

TEST(SliceBlock, ShowsReadersOnlyWholeLayouts) {
  made tested{64};
  std::atomic<bool> is_over{false};
  std::thread reader{[&] {
    std::uint64_t const address = base + 15788;
    while (!is_over) {
      auto const found = tested.block.find(address);
      if (!found) continue;
      if (found.base == base + 3 * 4096) {
        ASSERT_EQ(bytes{found.size}, 4096u);
      } else {
        ASSERT_EQ(found.base, base + 5 * 3072);
        ASSERT_EQ(bytes{found.size}, 3072u);
      }
    }
  }};
  for (std::uint64_t round = 0; round < 60'000; ++round) {
    tested.block.detach();
    bytes const slice = round % 2 == 0 ? 4096 : 3072;
    tested.block.lay_out(base, slice, nullptr);
    for (int i = 0; i < 8; ++i) (void)take_in_use(tested.block, slice);
  }
  is_over = true;
  reader.join();
}

TEST(SliceMap, HasABlockForItsPageOnly) {
  auto& all = *static_cast<slice_map*>(
      type_stable_allocate(type_stable_use::slice_roots, sizeof(slice_map)));
  made first{64}, second{64};
  std::uint64_t const last = object_starts::end - slice_block::size;
  EXPECT_EQ(all.at(base), nullptr);
  slice_map::made_leaves made_leaves;
  all.reserve(base, made_leaves);
  all.reserve(last, made_leaves);
  all.set(base, &first.block);
  all.set(last, &second.block);
  for (std::uint64_t const offset : {std::uint64_t{0}, slice_block::size - 1}) {
    EXPECT_EQ(all.at(base + offset), &first.block);
    EXPECT_EQ(all.look(last + offset), &second.block);
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
