// SPDX-License-Identifier: Apache-2.0
// The list of allocations that are not freed; see also debug_heap_test.cpp.
#include "quarry/opencl/live_allocation.hpp"

#include "opencl/heap_on_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace quarry::test {
namespace opencl_live_allocation_test {

using namespace opencl_c;
using opencl::allocation_state;

TEST(OpenclLiveAllocations, HaveTheirReferenceAndSlotSizeInOtherHeapsUpToTheMaximum) {
  heap_on_host heap{2_MiB};
  EXPECT_TRUE(heap.live_allocations().empty());
  std::multiset<quarry_ref> references;
  for (bytes const size : {bytes{0}, bytes{17}, bytes{100}, bytes{4080}, bytes{4081}, 300 * 1_KiB})
    references.insert(quarry_malloc(heap.heap(), size));
  auto const live = heap.live_allocations();
  ASSERT_EQ(live.size(), references.size());
  auto expected = references.begin();
  for (auto const& allocation : live) {
    EXPECT_EQ(allocation.reference, *expected++);
    EXPECT_EQ(allocation.slot_size, quarry_usable_size(heap.heap(), allocation.reference));
    EXPECT_EQ(allocation.state, allocation_state::unknown);
    EXPECT_EQ(allocation.number, 0u);
  }
  for (std::size_t count = 0; count <= live.size(); ++count) {
    auto const some = heap.live_allocations(count);
    ASSERT_EQ(some.size(), count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(some[i].reference, live[i].reference);
  }
}

TEST(OpenclLiveAllocations, HaveTheirSizeAndNumberInADebugHeap) {
  heap_on_host heap{2_MiB, 2, false, true};
  auto const first = quarry_malloc(heap.heap(), 24), second = quarry_malloc(heap.heap(), 5000);
  ASSERT_TRUE(quarry_free(heap.heap(), first));
  auto const third = quarry_malloc(heap.heap(), 24);
  std::vector<opencl::live_allocation> live = heap.live_allocations();
  ASSERT_EQ(live.size(), 2u);
  std::sort(live.begin(), live.end(), [](auto& a, auto& b) { return a.number < b.number; });
  EXPECT_EQ(live[0].reference, second);
  EXPECT_EQ(live[0].requested_size, 5000u);
  EXPECT_EQ(live[0].slot_size, 5120u);
  EXPECT_EQ(live[0].number, 2u);
  EXPECT_EQ(live[1].reference, third);
  EXPECT_EQ(live[1].requested_size, 24u);
  EXPECT_EQ(live[1].slot_size, 48u);
  EXPECT_EQ(live[1].number, 3u);
}

TEST(OpenclLiveAllocations, AreThoseOfANaiveModel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    heap_on_host heap{2_MiB, 2, false, seed % 2 == 0};
    std::mt19937_64 random{seed};
    std::map<quarry_ref, bytes> model;
    for (int step = 0; step < 300; ++step) {
      if (!model.empty() && random() % 3 == 0) {
        auto const chosen =
            std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
        ASSERT_TRUE(quarry_free(heap.heap(), chosen->first));
        model.erase(chosen);
      } else {
        bytes const size = random() % (random() % 8 == 0 ? 20'000 : 300);
        if (auto const ref = quarry_malloc(heap.heap(), size); ref != 0) model[ref] = size;
      }
    }
    auto const live = heap.live_allocations();
    ASSERT_EQ(live.size(), model.size()) << "seed " << seed;
    auto expected = model.begin();
    for (auto const& allocation : live) {
      ASSERT_EQ(allocation.reference, expected->first) << "seed " << seed;
      ASSERT_EQ(allocation.requested_size, seed % 2 == 0 ? expected->second : 0) << "seed " << seed;
      ASSERT_GE(allocation.slot_size, expected->second) << "seed " << seed;
      ++expected;
    }
  }
}

}  // namespace opencl_live_allocation_test
}  // namespace quarry::test
