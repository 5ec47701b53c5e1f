// SPDX-License-Identifier: Apache-2.0
// Tests replace_malloc.cuh in a program of two files: one file does not mention it, and one file
// includes it. Needs a GPU.
#include <quarry/device/replace_malloc.cuh>

#include "device/replace_malloc/other_file.hpp"
#include "device/replace_malloc/unchanged_kernels.hpp"
#include "support/backends.hpp"

namespace quarry {
namespace replace_malloc_test {

constexpr unsigned lanes = 128;

struct ReplaceMallocInKernels : testing::Test {
  ~ReplaceMallocInKernels() override { restore_malloc(); }

  [[nodiscard]] unsigned count_of_heap_pointers() {
    auto const begin = reinterpret_cast<std::uintptr_t>(heap_.region());
    auto const is_ours = [&](void* p) {
      return reinterpret_cast<std::uintptr_t>(p) - begin < heap_.region_bytes();
    };
    return static_cast<unsigned>(std::count_if(pointers_.begin(), pointers_.end(), is_ours));
  }
  [[nodiscard]] unsigned count_of_null_pointers() {
    return static_cast<unsigned>(std::count(pointers_.begin(), pointers_.end(), nullptr));
  }

  // room for every size class
  heap heap_{{.bytes = 64_MiB, .segment_bytes = 256_KiB, .backend_kind = backend::cuda}};
  test::cuda_backend::array<void*> pointers_{lanes};
};

TEST_F(ReplaceMallocInKernels, UsesCudasMallocUntilTheHostCallsReplaceMalloc) {
  for (auto const way : unchanged::every_way) {
    SCOPED_TRACE(static_cast<int>(way));
    unchanged::allocate(way, pointers_.data(), lanes);
    EXPECT_EQ(count_of_heap_pointers(), 0u);
    EXPECT_EQ(count_of_null_pointers(), 0u);
    unchanged::release(way, pointers_.data(), lanes);
  }
  test::expect_sound_and_empty(heap_);
}

TEST_F(ReplaceMallocInKernels, ServesEveryWayToAllocate) {
  replace_malloc(heap_);
  for (auto const way : unchanged::every_way) {
    SCOPED_TRACE(static_cast<int>(way));
    unchanged::allocate(way, pointers_.data(), lanes);
    EXPECT_EQ(count_of_heap_pointers(), lanes);
    EXPECT_EQ(heap_.live_allocations().size(), lanes);
    bool const aligned =
        way == unchanged::way::aligned_object || way == unchanged::way::aligned_array;
    for (void* const pointer : pointers_)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % (aligned ? 128 : 16), 0u);
    unchanged::release(way, pointers_.data(), lanes);
    test::expect_sound_and_empty(heap_);
  }
}

TEST_F(ReplaceMallocInKernels, AnUnchangedProgramGivesTheSameResult) {
  long long const by_cuda = unchanged::sum_of_list(1024);
  EXPECT_EQ(by_cuda, 1023 * 1024 / 2);
  replace_malloc(heap_);
  EXPECT_EQ(unchanged::sum_of_list(1024), by_cuda);
  test::expect_sound_and_empty(heap_);
}

TEST_F(ReplaceMallocInKernels, OneCallReachesEveryFileAndFreesWorkAcrossFiles) {
  replace_malloc(heap_);
  unchanged::allocate(unchanged::way::c_function, pointers_.data(), lanes);
  other_file::release(pointers_.data(), lanes);
  test::expect_sound_and_empty(heap_);
  other_file::allocate(500, pointers_.data(), lanes);
  EXPECT_EQ(count_of_heap_pointers(), lanes);
  unchanged::release(unchanged::way::expression, pointers_.data(), lanes);
  test::expect_sound_and_empty(heap_);
}

TEST_F(ReplaceMallocInKernels, PointersOfEitherMallocCanBeFreedAtAnyTime) {
  unchanged::allocate(unchanged::way::c_function, pointers_.data(), lanes);
  EXPECT_EQ(count_of_heap_pointers(), 0u);
  replace_malloc(heap_);
  other_file::release(pointers_.data(), lanes);
  EXPECT_FALSE(heap_.first_fault().has_value()) << *heap_.first_fault();
  unchanged::allocate(unchanged::way::object, pointers_.data(), lanes);
  EXPECT_EQ(count_of_heap_pointers(), lanes);
  restore_malloc();
  unchanged::release(unchanged::way::object, pointers_.data(), lanes);
  test::expect_sound_and_empty(heap_);
  other_file::allocate(100, pointers_.data(), lanes);
  EXPECT_EQ(count_of_heap_pointers(), 0u);
  EXPECT_EQ(count_of_null_pointers(), 0u);
  other_file::release(pointers_.data(), lanes);
}

TEST_F(ReplaceMallocInKernels, ReportsADoubleFree) {
  replace_malloc(heap_);
  other_file::allocate(100, pointers_.data(), lanes);
  unchanged::release(unchanged::way::c_function, pointers_.data(), lanes);
  restore_malloc();
  unchanged::release(unchanged::way::object, pointers_.data(), lanes);
  EXPECT_EQ(heap_.fault_count(fault_kind::double_free), lanes);
  test::expect_sound(heap_);
}

TEST_F(ReplaceMallocInKernels, ReturnsNullptrWhenTheHeapIsFull) {
  heap const heap_of_16_segments{
      {.bytes = 16_MiB, .segment_bytes = 1_MiB, .backend_kind = backend::cuda}};
  replace_malloc(heap_of_16_segments);
  other_file::allocate(1_MiB - 64, pointers_.data(), lanes);
  EXPECT_EQ(count_of_null_pointers(), lanes - 16);
  EXPECT_EQ(heap_of_16_segments.fault_count(fault_kind::out_of_memory), lanes - 16);
  other_file::release(pointers_.data(), lanes);
  EXPECT_TRUE(heap_of_16_segments.live_allocations().empty());
  restore_malloc();
}

TEST_F(ReplaceMallocInKernels, ServesNothrowNew) {
  for (bool const replaced : {false, true}) {
    if (replaced) replace_malloc(heap_);
    for (auto const way : {other_file::nothrow::object, other_file::nothrow::array,
                           other_file::nothrow::aligned_object}) {
      other_file::allocate_nothrow(way, pointers_.data(), lanes);
      EXPECT_EQ(count_of_heap_pointers(), replaced ? lanes : 0u);
      EXPECT_EQ(count_of_null_pointers(), 0u);
      if (way == other_file::nothrow::aligned_object) {
        for (void* const pointer : pointers_)
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 64, 0u);
      }
      other_file::release(pointers_.data(), lanes);
    }
  }
  test::expect_sound_and_empty(heap_);
}

TEST_F(ReplaceMallocInKernels, RefusesAHeapOfTheCpu) {
  heap const host_heap{{.bytes = 1_MiB, .segment_bytes = 64_KiB, .backend_kind = backend::cpu}};
  EXPECT_THROW(replace_malloc(host_heap), std::logic_error);
  unchanged::allocate(unchanged::way::c_function, pointers_.data(), lanes);
  EXPECT_EQ(count_of_null_pointers(), 0u);
  unchanged::release(unchanged::way::c_function, pointers_.data(), lanes);
}

TEST(ReplaceMallocOnTheHost, DoesNotChangeHostCode) { EXPECT_TRUE(unchanged::host_code_works()); }

/// Allocates and frees rows of pointers, each in a random way and file, while the host replaces and
/// restores malloc at random.
TEST_F(ReplaceMallocInKernels, FreesEachPointerWithItsOwnMallocInEveryOrder) {
  constexpr std::size_t rows = 6;
  for (auto const seed : test::cuda_backend::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::dice random{seed};
    test::cuda_backend::array<void*> all(rows * lanes);
    std::array<int, rows> way_of;
    std::array<bool, rows> is_from_heap{};
    way_of.fill(-1);
    bool replaced = false;
    auto const release = [&](std::size_t row) {
      void** const pointers = all.data() + row * lanes;
      if (random.below(3) == 0) {
        other_file::release(pointers, lanes);
      } else {
        unchanged::release(unchanged::every_way[way_of[row]], pointers, lanes);
      }
      way_of[row] = -1;
      is_from_heap[row] = false;
    };
    for (int step = 0; step < 60; ++step) {
      if (random.below(4) == 0) {
        replaced = !replaced;
        replaced ? replace_malloc(heap_) : restore_malloc();
      }
      std::size_t const row = random.below(rows);
      if (way_of[row] >= 0) {
        release(row);
      } else {
        way_of[row] = static_cast<int>(random.below(std::size(unchanged::every_way)));
        is_from_heap[row] = replaced;
        unchanged::allocate(unchanged::every_way[way_of[row]], all.data() + row * lanes, lanes);
      }
      auto const expected = lanes * static_cast<std::size_t>(
                                        std::count(is_from_heap.begin(), is_from_heap.end(), true));
      ASSERT_EQ(heap_.live_allocations().size(), expected);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      if (way_of[row] >= 0) release(row);
    }
    restore_malloc();
    test::expect_sound_and_empty(heap_);
  }
}

}  // namespace replace_malloc_test
}  // namespace quarry
