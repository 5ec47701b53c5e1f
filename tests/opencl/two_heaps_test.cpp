// SPDX-License-Identifier: Apache-2.0
// Two OpenCL heaps that the same work-items use at once.
#include "opencl/heap_on_host.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace quarry::test {
namespace opencl_two_heaps_test {

using namespace opencl_c;

/// Heaps that differ in size, hints and mode.
struct two_heaps {
  heap_on_host first{512_KiB, 2}, second;
  explicit two_heaps(bool is_debug = false) : second{300_KiB, 1, true, is_debug} {}
  heap_on_host& operator[](std::uint64_t i) { return i % 2 == 0 ? first : second; }
};

/// Work-items allocate from either heap, write, check and free at random.
struct churn {
  two_heaps* heaps;
  std::uint64_t seed;
  std::uint32_t steps;
  std::uint32_t* wrong;

  void operator()() const {
    struct owned {
      quarry_heap heap;
      quarry_ref ref;
      bytes size;
    };
    auto const rank = simt::this_place().rank();
    std::mt19937_64 random{seed * 1000 + rank};
    std::vector<owned> mine;
    quarry_reserve reserves[2] = {quarry_reserve_empty(), quarry_reserve_empty()};
    auto const tag = static_cast<unsigned char>(rank + 1);
    auto const free_one = [&](std::size_t i) {
      auto const [heap, ref, size] = mine[i];
      auto const* const content = static_cast<unsigned char*>(quarry_at(heap, ref));
      bool const is_right = std::count(content, content + size, tag) == std::ptrdiff_t(size);
      if (!is_right || !quarry_free(heap, ref))
        simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
      mine.erase(mine.begin() + std::ptrdiff_t(i));
    };
    for (std::uint32_t step = 0; step < steps; ++step) {
      if (mine.size() >= 6 || (!mine.empty() && random() % 2 == 0)) {
        free_one(random() % mine.size());
        continue;
      }
      auto const chosen = random() % 2;
      auto* const heap = (*heaps)[chosen].heap();
      bytes const size = random() % (random() % 8 == 0 ? 9'000 : 64);
      auto const ref = random() % 2 == 0 ? quarry_malloc(heap, size)
                                         : quarry_reserve_malloc(heap, &reserves[chosen], size);
      if (ref == 0) continue;
      std::memset(quarry_at(heap, ref), tag, size);
      mine.push_back({heap, ref, size});
    }
    while (!mine.empty()) free_one(0);
    for (std::uint64_t i = 0; i < 2; ++i) quarry_reserve_return((*heaps)[i].heap(), &reserves[i]);
  }
};

template <class Launch>
void expect_separate(std::uint64_t seed, std::uint32_t steps, Launch const& launch) {
  two_heaps heaps{seed % 2 == 0};
  std::uint32_t wrong = 0;
  launch(churn{&heaps, seed, steps, &wrong});
  ASSERT_EQ(wrong, 0u) << "seed " << seed;
  for (auto* const heap : {&heaps.first, &heaps.second}) {
    ASSERT_EQ(heap->audit({}), "") << "seed " << seed;
    for (std::uint32_t kind = QUARRY_FAULT_DOUBLE_FREE; kind < QUARRY_FAULT_KINDS; ++kind)
      ASSERT_EQ(heap->faults(kind), 0u) << "seed " << seed << ", fault " << kind;
  }
}

TEST(OpenclTwoHeaps, FibersThatUseBothNeverShareMemory) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : fiber_seeds()) {
    expect_separate(seed, 40,
                    [&](auto const& body) { simt::launch_fibers({2, 32}, {.seed = seed}, body); });
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclTwoHeapsOnThreads, ThreadsThatUseBothNeverShareMemory) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    expect_separate(seed, 1000, [](auto const& body) { simt::launch_threads({4, 1}, 4, body); });
    if (HasFatalFailure()) return;
  }
}

TEST(OpenclTwoHeaps, WorkItemsOfAGroupAllocateFromTheHeapThatEachOnePasses) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t const seed : fiber_seeds()) {
    two_heaps heaps;
    std::vector<uint> scratch(QUARRY_GROUP_WORDS(64));
    std::vector<quarry_ref> refs(64);
    auto const heap_of = [&](std::uint32_t item) { return (item * 7 + seed) / 3 % 2; };
    auto const size_of = [&](std::uint32_t item) -> ulong {
      if ((item + seed) % 11 == 0) return QUARRY_NOTHING;
      return (item + seed) % 13 == 0 ? 6'000 : item % 3 * 16;
    };
    simt::launch_fibers({1, 64}, {.seed = seed}, [&] {
      auto const item = simt::this_place().thread;
      refs[item] = quarry_malloc_group(heaps[heap_of(item)].heap(), size_of(item), scratch.data());
    });
    std::multiset<quarry_ref> live[2];
    for (std::uint32_t item = 0; item < 64; ++item)
      if (size_of(item) != QUARRY_NOTHING) live[heap_of(item)].insert(refs[item]);
    for (std::uint64_t i = 0; i < 2; ++i)
      ASSERT_EQ(heaps[i].audit(live[i]), "") << "seed " << seed << ", heap " << i;
  }
}

/// A reference is a number, so a heap cannot know that another heap made it. If the heap has no
/// allocation there, the free is a fault and changes nothing.
TEST(OpenclTwoHeaps, AFreeInTheWrongHeapIsAFaultAndChangesNothing) {
  for (bool const is_debug : {false, true}) {
    two_heaps heaps{is_debug};
    auto* const a = heaps.first.heap();
    auto* const b = heaps.second.heap();
    std::multiset<quarry_ref> of_a, of_b;
    for (bytes const size : {bytes{16}, bytes{100}, bytes{1000}, bytes{5000}, 30_KiB, 100_KiB})
      of_a.insert(quarry_malloc(a, size));
    while (auto const ref = quarry_malloc(a, 5000)) of_a.insert(ref);
    for (bytes const size : {bytes{32}, bytes{48}, bytes{200}, 18_KiB})
      of_b.insert(quarry_malloc(b, size));
    std::uint32_t wrong = 0;
    for (auto const ref : of_a) {
      if (of_b.contains(ref)) continue;
      ASSERT_FALSE(quarry_free(b, ref)) << ref;
      ++wrong;
    }
    ASSERT_GE(wrong, 20u);
    EXPECT_EQ(heaps.second.faults(QUARRY_FAULT_DOUBLE_FREE) +
                  heaps.second.faults(QUARRY_FAULT_INTERIOR_REFERENCE) +
                  heaps.second.faults(QUARRY_FAULT_FOREIGN_REFERENCE),
              wrong);
    EXPECT_GE(heaps.second.faults(QUARRY_FAULT_FOREIGN_REFERENCE), 1u) << "heap A is larger";
    EXPECT_EQ(heaps.first.audit(of_a), "");
    EXPECT_EQ(heaps.second.audit(of_b), "");
    for (auto const ref : of_a) ASSERT_TRUE(quarry_free(a, ref));
    for (auto const ref : of_b) ASSERT_TRUE(quarry_free(b, ref));
    EXPECT_EQ(heaps.first.audit({}), "");
    EXPECT_EQ(heaps.second.audit({}), "");
  }
}

}  // namespace opencl_two_heaps_test
}  // namespace quarry::test
