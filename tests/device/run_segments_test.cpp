// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/run_segments.hpp"

#include "quarry/device/detail/hardening.hpp"
#include "support/open_run.hpp"
#include "support/sanitized.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace quarry {

using namespace detail;
namespace run_segments_test {

constexpr std::uint32_t half = 32 * 1024;

void expect_sound(heap const& owner) {
  for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
}

/// Opens a run as a malloc does, without an allocation.
TEST(RunSegments, EndsTheGenerationOfASegmentThatItReturnsUntouched) {
  auto const owner = test::small_heap(1);
  auto& state = test::state_of(owner);
  for (std::uint32_t const size : {16u, 640u, 16u, half, 16u}) {  // 4 blocks, 1, 4, 1, 4
    size_class const id = size_class_of(size);
    std::uint32_t const generation = state.segments[0].generation();
    test::open_run(state, id);
    for (std::uint32_t i = 0; i < state.blocks_of(id); ++i)
      EXPECT_EQ(state.block_at(id, 0, i).generation(), generation) << "size " << size;
    EXPECT_TRUE(run_supply::reclaim(state, id));
    EXPECT_EQ(state.segment_tree().count(), 1u);
    EXPECT_EQ(state.segments[0].generation(), generation + 1);
    EXPECT_EQ(state.segments[0].load_idle_state().known_blocks(), state.blocks_of(id));
    expect_sound(owner);
  }
  std::uint32_t served = 0;
  while (owner.ref().malloc(16 - hardening::padded(0)) != nullptr) ++served;
  EXPECT_EQ(served, 4096u);
  expect_sound(owner);
}

/// format_run formats eight segments at a time, and the rest one by one.
TEST(RunSegments, FormatsEachSegmentOfARunOfAnyLength) {
  for (std::uint32_t const count : {1u, 7u, 8u, 9u, 19u}) {
    auto const owner = test::small_heap(24);
    auto& state = test::state_of(owner);
    size_class const id = size_class_of(16);
    run_segments::format_run(state, id, segment_run{}.next(3, count));
    for (std::uint32_t i = 0; i < 24; ++i) {
      bool const is_formatted = i >= 3 && i < 3 + count;
      EXPECT_EQ(state.segments[i].load().is_slices_of(id), is_formatted) << i << " of " << count;
      EXPECT_EQ(state.segments[i].look().layout.slices(), is_formatted ? 4096u : 0u);
    }
  }
}

/// A lane that fails to get a ticket still adds to the counter. Such tickets must not count.
TEST(RunSegments, AnInvalidTicketTouchesNothing) {
  auto const owner = test::small_heap(2);
  auto& state = test::state_of(owner);
  size_class const id = size_class_of(half);
  test::open_run(state, id);
  auto const run = class_run::run_of(state.run(id).peek());
  for (std::uint32_t counter = 0; counter < counters_per_class; ++counter) {
    if (ticket_counter::tickets_of(state.layouts[id], run, counter) == 0)
      (void)state.ticket_counter_at(id, counter).claim(3);
  }
  EXPECT_TRUE(run_segments::has_untouched(state, id));
  EXPECT_TRUE(run_supply::reclaim(state, id));
  EXPECT_EQ(state.segment_tree().count(), 2u);
  expect_sound(owner);
}

/// Takes back a run of which any part is allocated. Every other slice can then be allocated once,
/// and all segments are whole again when every slice is freed.
TEST(RunSegments, ReturnsExactlyTheSlicesThatAreNotAllocated) {
  struct {
    bytes segment;
    std::uint32_t size;
  } constexpr cases[] = {{64_KiB, 16}, {64_KiB, 48}, {64_KiB, 640}, {64_KiB, 4096}, {64_KiB, half},
                         {1_MiB, 16},  {1_MiB, 48},  {1_MiB, 1024}, {1_MiB, 20480}};
  for (auto const [segment, size] : cases) {
    // 350,000 slices take 10 s under AddressSanitizer; the others run the same code.
    if (test::is_sanitized && segment == 1_MiB && size < 1024) continue;
    heap const owner{
        {.bytes = 4 * segment, .segment_bytes = segment, .backend_kind = backend::cpu}};
    auto& state = test::state_of(owner);
    auto const ref = owner.ref();
    size_class const id = size_class_of(size);
    std::uint32_t const capacity = 4 * state.layouts[id].slice.slices();
    for (std::uint32_t const parts : {0u, 1u, 3u, 5u, 7u, 8u}) {  // eighths of the heap
      SCOPED_TRACE(std::to_string(size) + " bytes, eighths handed out: " + std::to_string(parts));
      std::vector<void*> held;
      auto const allocate_until = [&](std::uint32_t count) {
        while (held.size() < count) {
          void* const slice = ref.malloc(size - hardening::padded(0));
          if (slice == nullptr) return;
          held.push_back(slice);
        }
      };
      allocate_until(capacity * parts / 8 + parts);
      (void)run_supply::reclaim(state, id);
      expect_sound(owner);
      allocate_until(capacity + 1);
      EXPECT_EQ(held.size(), capacity);
      std::vector<void*> sorted = held;
      std::ranges::sort(sorted);
      EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
      expect_sound(owner);
      for (void* const slice : held) ref.free(slice);
      hardening::empty_quarantine(heap_internals::handle_of(ref));
      (void)run_supply::reclaim(state, id);
      EXPECT_EQ(state.segment_tree().count(), 4u);
      expect_sound(owner);
      if (HasFailure()) return;
    }
  }
}

}  // namespace run_segments_test
}  // namespace quarry
