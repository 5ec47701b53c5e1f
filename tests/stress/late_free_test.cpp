// SPDX-License-Identifier: Apache-2.0
// Lanes of one warp free addresses of one segment at once. The lanes know the segment by different
// uses.
#include "support/fibers_allowed.hpp"

#include "quarry/heap.hpp"
#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

namespace quarry {
namespace late_free_test {

using namespace quarry::literals;

constexpr bytes segment = 64_KiB;

/// The result of one schedule.
struct outcome {
  bool had_both_slices;  // of the later use
  bool victim_was_freed;
};

/// A segment of four slices of 16 KiB becomes a segment of two slices of 32 KiB. One lane frees the
/// first of the two slices, which is valid. Another lane of its warp makes an error: it frees the
/// second of the four slices again. In the later use that address is an interior pointer, and its
/// bit stands for the second of the two slices, which is in use.
outcome free_at_once(std::uint64_t seed, std::uint32_t switches) {
  heap owner{{.bytes = segment, .segment_bytes = segment, .backend_kind = backend::cpu, .seed = 1}};
  auto const ref = owner.ref();
  void* old[4];
  for (void*& slice : old) slice = ref.malloc(16_KiB);
  auto* const base = static_cast<char*>(owner.region());
  void* const second = base + 16_KiB;
  for (void* const slice : old) {
    if (slice != second) ref.free(slice);
  }
  void* new_slices[2] = {};
  std::uint64_t word_of_box = 0;
  simt::atomic_ref<std::uint64_t> const box{word_of_box};
  simt::launch_fibers({2, 2}, {.seed = seed, .switches = switches}, [&] {
    auto const place = simt::this_place();
    if (place.block == 1 && place.thread == 0) {
      ref.free(second);
      for (void*& slice : new_slices) slice = ref.malloc(32_KiB);
      bool const has_both = new_slices[0] != nullptr && new_slices[1] != nullptr;
      box.store(has_both ? reinterpret_cast<std::uint64_t>(base) : 1, simt::release);
    } else if (place.block == 0 && place.thread == 0) {
      while (box.load(simt::acquire) == 0) simt::pause();
      if (box.load(simt::acquire) != 1) ref.free(base);
    } else if (place.block == 0) {
      ref.free(second);
    }
  });
  outcome found{new_slices[0] != nullptr && new_slices[1] != nullptr, false};
  while (void* const slice = found.had_both_slices ? ref.malloc(32_KiB) : nullptr)
    found.victim_was_freed |= slice == base + 32_KiB;
  return found;
}

TEST(LateFree, FreesNoSliceOfAnotherUseOfTheSegment) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "the canary detects the second free earlier";
  std::uint32_t schedules_with_both = 0;
  for (std::uint64_t seed = 1; seed <= 8000 && !HasFailure(); ++seed) {
    auto const found = free_at_once(seed, 2);
    schedules_with_both += found.had_both_slices;
    EXPECT_FALSE(found.victim_was_freed) << "seed " << seed;
  }
  EXPECT_GT(schedules_with_both, 100u);
}

}  // namespace late_free_test
}  // namespace quarry
