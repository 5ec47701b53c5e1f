// SPDX-License-Identifier: Apache-2.0
// How launches that start together share the memory of one GPU.
#include "mpi/heap_share.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::mpi_test {
namespace {

using namespace quarry::mpi;

constexpr bytes gib = bytes{1} << 30;

/// A GPU's memory. `races`: before so many allocations, another program takes what the caller was
/// told to be free, but for the given bytes.
struct shared_memory {
  bytes free_bytes;
  int races = 0;
  bytes left = 0;
  std::vector<bytes> asked{};

  heap_taken take() {
    return take_heap([&] { return free_bytes; },
                     [&](bytes size) {
                       asked.push_back(size);
                       if (races-- > 0) free_bytes = std::min(free_bytes, left);
                       if (size > free_bytes) throw out_of_memory{"heap", size, "a test"};
                       free_bytes -= size;
                     });
  }
};

TEST(HeapShare, IsHalfOfTheFreeMemoryInUnitsAndWithinLimits) {
  EXPECT_EQ(heap_share(8 * gib, 0), 4 * gib);
  EXPECT_EQ(heap_share(8 * gib, 1), 2 * gib);
  EXPECT_EQ(heap_share(8 * gib + 5, 0), 4 * gib);
  EXPECT_EQ(heap_share(80 * gib, 0), most_heap);
  EXPECT_EQ(heap_share(0, 0), least_heap);
  EXPECT_EQ(heap_share(3 * least_heap, 0), least_heap);
}

TEST(HeapShare, IsTakenAtOnceIfNobodyElseTakesMemory) {
  shared_memory gpu{8 * gib};
  heap_taken const taken = gpu.take();
  EXPECT_EQ(taken.size, 4 * gib);
  EXPECT_EQ(taken.attempts, 1u);
}

TEST(HeapShare, IsSmallerAfterALostRace) {
  shared_memory gpu{8 * gib, 1, gib};
  heap_taken const taken = gpu.take();
  EXPECT_EQ(taken.attempts, 2u);
  EXPECT_EQ(taken.size, gib / 4);
  EXPECT_EQ(gpu.asked, (std::vector<bytes>{4 * gib, gib / 4}));
}

TEST(HeapShare, IsTheLeastHeapAtLast) {
  shared_memory gpu{8 * gib, 6, least_heap};
  EXPECT_EQ(gpu.take().size, least_heap);
}

TEST(HeapShare, ErrorsSayThatOtherProgramsUseTheGpu) {
  shared_memory gpu{least_heap / 2};
  try {
    (void)gpu.take();
    FAIL() << "no exception";
  } catch (out_of_memory const& problem) {
    EXPECT_STREQ(problem.what(),
                 "the heap of the ranks: no memory for 67108864 bytes: other programs use the GPU, "
                 "which has 33554432 bytes free; wait for them, or run with a smaller --heap");
  }
  EXPECT_EQ(gpu.asked.size(), 6u);
}

}  // namespace
}  // namespace quarry::mpi_test
