// SPDX-License-Identifier: Apache-2.0
// Slices of thread_arenas that threads free for each other.
#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace quarry::test {
namespace slices_of_arenas_test {

using arenas = thread_arenas<host_resource>;

/// An arena that serves `sizes` by slices.
struct arenas_with_slices {
  explicit arenas_with_slices(std::vector<bytes> const& sizes) {
    std::vector<void*> used;
    for (bytes const size : sizes) {
      for (bytes i = 0; i <= detail::slice_block::size / size; ++i)
        used.push_back(source.allocate(size));
    }
    for (void* const each : used) source.deallocate(each);
    EXPECT_EQ(source.counts().allocations_in_use, 0u);
  }
  arenas source{host_resource{}, {.first_block = 16_MiB}};

  [[nodiscard]] std::vector<void*> allocate(bytes size, int count) {
    std::vector<void*> result;
    for (int i = 0; i < count; ++i) result.push_back(source.allocate(size));
    return result;
  }
  /// Another thread frees all, each once. Returns how many of the frees were accepted.
  int free_elsewhere(std::vector<void*> const& freed) {
    int accepted = 0;
    std::thread{[&] {
      for (void* const each : freed) accepted += source.deallocate(each);
    }}.join();
    return accepted;
  }
};

TEST(SlicesOfArenas, AreReusedAfterAnotherThreadFreedThem) {
  arenas_with_slices tested{{64, 4096}};
  for (bytes const size : {64u, 4096u}) {
    auto const first = tested.allocate(size, 2000);
    EXPECT_EQ(tested.free_elsewhere(first), 2000);
    auto const second = tested.allocate(size, 2000);
    std::set<void*> reused{first.begin(), first.end()};
    for (void* const each : second) reused.erase(each);
    EXPECT_LT(reused.size(), 300u) << "few of them wait in quick lists and blocks";
    EXPECT_EQ(tested.free_elsewhere(second), 2000);
  }
  EXPECT_EQ(tested.source.counts().allocations_in_use, 0u);
  EXPECT_EQ(tested.source.counts().invalid_frees, 0u);
  EXPECT_TRUE(tested.source.audit().empty());
}

TEST(SlicesOfArenas, AreNotFreedTwiceByOtherThreads) {
  arenas_with_slices tested{{64}};
  auto const memory = tested.allocate(64, 3);
  EXPECT_EQ(tested.free_elsewhere({memory[0], memory[0], memory[1]}), 2);
  EXPECT_EQ(tested.free_elsewhere({memory[1]}), 0) << "the owner has made no call since";
  auto* const inner = static_cast<char*>(memory[2]) + 16;
  EXPECT_EQ(tested.free_elsewhere({inner, inner - 32}), 0);
  EXPECT_EQ(tested.source.counts().allocations_in_use, 1u);
  EXPECT_EQ(tested.free_elsewhere({memory[0]}), 0) << "the owner has freed it";
  EXPECT_EQ(tested.source.counts().invalid_frees, 0u);
  EXPECT_TRUE(tested.source.deallocate(memory[2]));
}

TEST(SlicesOfArenas, CountTheOwnersFreeAfterAnotherThreadsFree) {
  arenas_with_slices tested{{64}};
  void* const memory = tested.source.allocate(64);
  EXPECT_EQ(tested.free_elsewhere({memory}), 1);
  EXPECT_TRUE(tested.source.deallocate(memory));
  EXPECT_EQ(tested.source.counts().allocations_in_use, 0u);
  EXPECT_EQ(tested.source.counts().invalid_frees, 1u);
  EXPECT_TRUE(tested.source.audit().empty());
}

/// Blocks of slices return to the pool, and the pool's block to the resource.
TEST(SlicesOfArenas, ReturnTheirBlocksAfterAnotherThreadFreedThem) {
  arenas_with_slices tested{{64, 1000}};
  auto freed = tested.allocate(64, 20'000);
  auto const larger = tested.allocate(1000, 2000);
  freed.insert(freed.end(), larger.begin(), larger.end());
  EXPECT_EQ(tested.free_elsewhere(freed), 22'000);
  tested.source.release();
  EXPECT_EQ(tested.source.counts().reserved, 0u);
  EXPECT_TRUE(tested.source.audit().empty());
}

}  // namespace slices_of_arenas_test
}  // namespace quarry::test
