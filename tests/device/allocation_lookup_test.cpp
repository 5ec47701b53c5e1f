// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/allocation_lookup.hpp"

#include "support/backends.hpp"

namespace quarry::allocation_lookup_test {
using namespace detail;

constexpr heap_options small{.bytes = 4_MiB, .segment_bytes = 64_KiB};

template <class Backend>
struct AllocationLookup : testing::Test {};
TYPED_TEST_SUITE(AllocationLookup, test::backends, test::backend_names);

/// Each lane looks up the base addresses of its allocations, and of addresses outside the heap.
struct look_up_allocations {
  heap_ref heap;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint32_t bad = 0;
    std::uint32_t random = mix(static_cast<std::uint32_t>(simt::this_place().rank()) + 1);
    for (std::uint32_t step = 0; step < 12; ++step) {
      random = mix(random);
      bytes const size = step == 5 ? 100000 : random % 700 + 1;
      auto* const base = static_cast<char*>(heap.malloc(size));
      if (base == nullptr) continue;
      for (bytes const offset : {bytes{0}, size / 2, size - 1})
        bad += heap.allocation_of(base + offset) != base ? 1 : 0;
      heap.free(base);
    }
    bad += heap.allocation_of(this) != nullptr ? 1 : 0;
    bad += heap.allocation_of(nullptr) != nullptr ? 1 : 0;
    if (bad != 0) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(bad, simt::relaxed);
  }
};

TYPED_TEST(AllocationLookup, ReturnsTheBaseAddressOfAnInteriorPointer) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run({2, 40}, look_up_allocations{heap.ref(), wrong.data()});
    ASSERT_EQ(wrong.data()[0], 0u) << "seed " << seed;
    EXPECT_FALSE(heap.first_fault() && heap.first_fault()->kind != fault_kind::out_of_memory);
  }
}

/// Runs on one lane, so that no other lane reuses the freed memory.
struct look_up_freed {
  heap_ref heap;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    char* held[40];
    bytes const sizes[4] = {16, 100, 3000, 150000};
    for (std::uint32_t i = 0; i < 40; ++i)
      held[i] = static_cast<char*>(heap.malloc(sizes[i < 36 ? i % 3 : 3]));
    for (std::uint32_t i = 0; i < 40; i += 2) heap.free(held[i]);
    for (std::uint32_t i = 0; i < 40; ++i)
      *wrong += heap.allocation_of(held[i] + 9) != (i % 2 == 0 ? nullptr : held[i]) ? 1 : 0;
    for (std::uint32_t i = 1; i < 40; i += 2) heap.free(held[i]);
    for (std::uint32_t i = 0; i < 40; ++i) *wrong += heap.allocation_of(held[i]) != nullptr ? 1 : 0;
  }
};

/// Looks up the slices of a segment of which only the first was allocated.
struct look_up_unallocated {
  heap_ref heap;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto* const p = static_cast<char*>(heap.malloc(40));
    char* const segment = p - reinterpret_cast<std::uint64_t>(p) % 65536;
    for (std::uint32_t i = 0; i < 65536 / 16; ++i) {
      char* const address = segment + 16 * i;
      bool const is_own = address >= p && address < p + 48;
      *wrong += heap.allocation_of(address) != (is_own ? p : nullptr) ? 1 : 0;
    }
  }
};

TYPED_TEST(AllocationLookup, ReturnsNullptrForMemoryThatWasNeverAllocated) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<std::uint32_t> wrong(1);
  backend.run({1, 1}, look_up_unallocated{heap.ref(), wrong.data()});
  EXPECT_EQ(wrong.data()[0], 0u);
  EXPECT_FALSE(heap.first_fault());
}

TYPED_TEST(AllocationLookup, ReturnsNullptrForFreedMemory) {
  if (is_on(mitigation::quarantine)) GTEST_SKIP() << "quarantined memory is not free";
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<std::uint32_t> wrong(1);
  backend.run({1, 1}, look_up_freed{heap.ref(), wrong.data()});
  EXPECT_EQ(wrong.data()[0], 0u);
  EXPECT_FALSE(heap.first_fault()) << "a lookup records no fault";
  EXPECT_TRUE(heap.live_allocations().empty());
}

}  // namespace quarry::allocation_lookup_test
