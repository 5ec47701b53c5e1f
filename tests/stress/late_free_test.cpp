// SPDX-License-Identifier: Apache-2.0
// Lanes of one warp that free addresses of one segment at once, and know it by different uses.
#include "support/fibers_allowed.hpp"

#include "quarry/heap.hpp"
#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

namespace quarry {
namespace late_free_test {

using namespace quarry::literals;

constexpr bytes segment = 64_KiB;

/// What is known of one schedule after it.
struct outcome {
  bool had_both;  // slices of the later use
  bool victim_was_freed;
};

/// A segment of four slices of 16 KiB becomes one of two of 32 KiB. One lane frees the first of
/// these, as it may. Another one of its warp makes a mistake: it frees the second of the four once
/// more. In the later use that address is inside of a slice, and the same bit stands for the second
/// of the two, which is in use.
outcome free_at_once(std::uint64_t seed, std::uint32_t switches) {
  heap owner{{.bytes = segment, .segment_bytes = segment, .where = backend::cpu, .seed = 1}};
  auto const ref = owner.ref();
  void* old[4];
  for (void*& one : old) one = ref.malloc(16_KiB);
  auto* const base = static_cast<char*>(owner.region());
  void* const second = base + 16_KiB;
  for (void* const one : old) {
    if (one != second) ref.free(one);
  }
  void* later[2] = {};
  std::uint64_t word_of_box = 0;
  simt::atomic_ref<std::uint64_t> const box{word_of_box};
  simt::launch_fibers({2, 2}, {.seed = seed, .switches = switches}, [&] {
    auto const here = simt::this_place();
    if (here.block == 1 && here.thread == 0) {
      ref.free(second);
      for (void*& one : later) one = ref.malloc(32_KiB);
      bool const has_both = later[0] != nullptr && later[1] != nullptr;
      box.store(has_both ? reinterpret_cast<std::uint64_t>(base) : 1, simt::release);
    } else if (here.block == 0 && here.thread == 0) {
      while (box.load(simt::acquire) == 0) simt::pause();
      if (box.load(simt::acquire) != 1) ref.free(base);
    } else if (here.block == 0) {
      ref.free(second);
    }
  });
  outcome found{later[0] != nullptr && later[1] != nullptr, false};
  while (void* const again = found.had_both ? ref.malloc(32_KiB) : nullptr)
    found.victim_was_freed |= again == base + 32_KiB;
  return found;
}

TEST(LateFree, FreesNothingOfAnotherUseOfTheSegment) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "the second free is found before it gets here";
  std::uint32_t schedules_with_both = 0;
  for (std::uint64_t seed = 1; seed <= 8000 && !HasFailure(); ++seed) {
    auto const found = free_at_once(seed, 2);
    schedules_with_both += found.had_both;
    EXPECT_FALSE(found.victim_was_freed) << "seed " << seed;
  }
  EXPECT_GT(schedules_with_both, 100u);
}

}  // namespace late_free_test
}  // namespace quarry
