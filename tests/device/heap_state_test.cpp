// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/heap_state.hpp"

#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace quarry {

using namespace detail;
namespace heap_state_test {

TEST(HeapState, HasAnEntryForEachSegmentRoundedUpToAPowerOfTwo) {
  EXPECT_EQ(heap_state::bytes_for(1), sizeof(heap_state));
  EXPECT_EQ(heap_state::bytes_for(2), sizeof(heap_state) + sizeof(segment_entry));
  EXPECT_EQ(heap_state::bytes_for(5), heap_state::bytes_for(8));
}

TEST(HeapState, BeginsWithAllMappedSegmentsFreeAndNoRuns) {
  auto const owner = test::small_heap(5, 9);
  auto& state = test::state_of(owner);
  EXPECT_EQ(state.magic, heap_state::magic_alive);
  EXPECT_EQ(state.version, layout_version);
  EXPECT_EQ(state.segments_mapped, 5u);
  EXPECT_EQ(state.max_segments, 9u);
  EXPECT_EQ(state.segment_bytes(), 64_KiB);
  EXPECT_EQ(state.segment_tree().count(), 5u);
  EXPECT_FALSE(state.segment_tree().contains(5));
  for (std::uint32_t segment = 0; segment < 9; ++segment)
    EXPECT_TRUE(state.segments[segment].load().is_free());
  for (size_class id = 0; id < state.classes; ++id) {
    EXPECT_TRUE(state.class_tree(id).empty());
    EXPECT_EQ(class_run::used_up(state.run(id).peek()), counters_per_class);
  }
}

TEST(HeapState, HasClassesUpToHalfASegment) {
  auto const owner = test::small_heap(1);
  auto const& state = test::state_of(owner);
  EXPECT_EQ(size_of_class(state.classes - 1), 32_KiB);
}

TEST(HeapState, DividesSegmentsIntoUnitsThatFit) {
  for (bytes const segment_bytes : {64_KiB, 1_MiB, 64_MiB}) {
    heap const owner{
        {.bytes = segment_bytes, .segment_bytes = segment_bytes, .backend_kind = backend::cpu}};
    auto const& state = test::state_of(owner);
    for (size_class id = 0; id < state.classes; ++id) {
      SCOPED_TRACE("segment " + std::to_string(segment_bytes) + " class " + std::to_string(id));
      auto const& layout = state.layouts[id];
      EXPECT_EQ(layout.size, size_of_class(id));
      EXPECT_EQ(layout.slice.slices(), layout.units << layout.unit_shift);
      EXPECT_LE(bytes{layout.slice.slices()} * layout.size, segment_bytes);
      auto const possible = static_cast<std::uint32_t>(segment_bytes / layout.size);
      EXPECT_LE(possible - layout.slice.slices(), possible / 128) << "slices outside all units";
      EXPECT_GE(layout.run_segments, 1u);
      EXPECT_LE(layout.run_segments, segment_run::max_segments);
      EXPECT_LE(state.blocks_of(id), state.blocks_per_segment);
    }
  }
}

TEST(HeapState, GivesEachWordAndMaskItsOwnPlace) {
  auto const owner = test::small_heap(3);
  auto const& state = test::state_of(owner);
  std::set<void const*> places;
  std::size_t count = 0;
  for (std::uint32_t segment = 0; segment < 3; ++segment) {
    for (std::uint32_t i = 0; i < state.stride_of_bits(); ++i, ++count)
      places.insert(&state.word_at(segment, i));
    for (std::uint32_t i = 0; i < state.masks_per_segment(); ++i, ++count) {
      places.insert(&state.advertised[segment * state.masks_per_segment() + i]);
    }
  }
  EXPECT_EQ(places.size(), count);
}

/// Finds the word that holds the block's state: the word that changes with it.
word const* place_of_state(heap_state const& state, size_class id, std::uint32_t index) {
  block const owner = state.block_at(id, 0, index);
  owner.retire_unused();
  word const* found = nullptr;
  for (std::uint32_t i = 0; i < state.stride_of_bits(); ++i) {
    if (state.word_at(0, i) == 0) continue;
    EXPECT_EQ(found, nullptr) << "one word belongs to two blocks";
    EXPECT_GE(i, state.words_per_segment()) << "the state lies in a word of slice bits";
    found = &state.word_at(0, i);
  }
  state.word_at(0, static_cast<std::uint32_t>(found - &state.word_at(0, 0))) = 0;
  return found;
}

TEST(HeapState, PutsTheStatesOfNeighbouringBlocksInDifferentCacheLines) {
  for (bytes const segment_bytes : {64_KiB, 128_KiB, 256_KiB, 512_KiB, 1_MiB, 16_MiB}) {
    SCOPED_TRACE("segment " + std::to_string(segment_bytes));
    heap const owner{
        {.bytes = segment_bytes, .segment_bytes = segment_bytes, .backend_kind = backend::cpu}};
    auto const& state = test::state_of(owner);
    ASSERT_EQ(state.blocks_of(0), state.blocks_per_segment);
    std::set<word const*> places;
    std::uint64_t previous_line = 0;
    std::uint32_t const checked_blocks = std::min(state.blocks_per_segment, 130u);
    for (std::uint32_t index = 0; index < checked_blocks; ++index) {
      word const* const place = place_of_state(state, 0, index);
      EXPECT_TRUE(places.insert(place).second) << "block " << index;
      auto const number =
          static_cast<std::uint32_t>(place - &state.word_at(0, state.words_per_segment()));
      EXPECT_EQ(heap_state::block_with_state(state.segment_shift, number), index);
      auto const line = reinterpret_cast<std::uint64_t>(place) / 128;
      if (segment_bytes >= 512_KiB) {
        EXPECT_NE(line, previous_line) << "block " << index;
      }
      previous_line = line;
    }
  }
}

TEST(HeapState, EndsASegmentWithAShorterBlock) {
  auto const owner = test::small_heap(1);
  auto const& state = test::state_of(owner);
  for (size_class id = 0; id < state.classes; ++id) {
    std::uint32_t words = 0;
    for (std::uint32_t i = 0; i < state.blocks_of(id); ++i)
      words += state.block_at(id, 0, i).words();
    EXPECT_EQ(words, (state.layouts[id].slice.slices() + bits_per_word - 1) / bits_per_word)
        << "class " << id;
  }
}

/// The slices of the class of `size` that `was_handed_out` reports, in all segments.
std::set<void*> allocated_slices(heap_state& state, std::uint32_t size) {
  size_class const id = size_class_of(size);
  std::set<void*> result;
  for (std::uint32_t segment = 0; segment < state.segments_mapped; ++segment) {
    if (!state.segments[segment].load().is_slices_of(id)) continue;
    for (std::uint32_t slice = 0; slice < state.layouts[id].slice.slices(); ++slice) {
      if (!state.was_handed_out(id, segment, slice)) continue;
      result.insert(reinterpret_cast<void*>(state.base + segment * state.segment_bytes() +
                                            bytes{slice} * state.layouts[id].size));
    }
  }
  return result;
}

TEST(HeapState, KnowsWhichSlicesWereHandedOut) {
  for (std::uint32_t const size : {16u, 48u, 1000u, 20000u}) {
    SCOPED_TRACE("size " + std::to_string(size));
    auto const owner = test::small_heap(4);
    auto& state = test::state_of(owner);
    auto const ref = owner.ref();
    std::set<void*> live;
    for (int round = 0; round < 200; ++round) {
      void* const memory = ref.malloc(size - hardening::padded(0));
      if (memory == nullptr) break;
      live.insert(memory);
      if (round % 20 == 0) {
        ASSERT_EQ(allocated_slices(state, size), live);
      }
    }
    EXPECT_GT(live.size(), 1u);
  }
}

TEST(HeapState, KnowsTheSlicesOfAnOldRunWhenALaterRunHasItsKey) {
  auto const owner = test::small_heap(32);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(20000);
  std::set<void*> live;
  for (int i = 0; i < 6; ++i) live.insert(owner.ref().malloc(20000 - hardening::padded(0)));
  segment_run const old = ticket_counter::run_of(state.ticket_counter_at(id, 0).peek());
  ASSERT_GT(old.count(), 1u);
  // Acts as if the run's first segment had been returned, and were now the only segment of the 64th
  // run after it.
  segment_run later_run = old;
  for (int i = 1; i < 64; ++i) later_run = later_run.next(0, 0);
  later_run = later_run.next(old.first(), 1);
  ASSERT_EQ(later_run.key(), old.key());
  std::erase_if(live, [&](void* memory) {
    auto const offset = reinterpret_cast<std::uint64_t>(memory) - state.base;
    return offset / state.segment_bytes() == old.first();
  });
  ASSERT_FALSE(live.empty());
  for (std::uint32_t i = 0; i < counters_per_class; ++i)
    state.ticket_counter_at(id, i).open(later_run);
  auto const seen = allocated_slices(state, 20000);
  for (void* const memory : live) EXPECT_TRUE(seen.contains(memory));
}

TEST(HeapState, ReportsNoSliceOfAFreeBlockAsHandedOut) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  std::vector<void*> live;
  for (void* memory = owner.ref().malloc(32_KiB - hardening::padded(0)); memory != nullptr;
       memory = owner.ref().malloc(32_KiB - hardening::padded(0)))
    live.push_back(memory);
  EXPECT_FALSE(allocated_slices(state, 32_KiB).empty());
  for (void* const memory : live) heap_internals::free_now(owner.ref(), memory);
  EXPECT_TRUE(allocated_slices(state, 32_KiB).empty());
}

}  // namespace heap_state_test
}  // namespace quarry
