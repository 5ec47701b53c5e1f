// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/upstream.hpp"

#include "quarry/device/heap_ref.hpp"
#include "support/coalescing.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace upstream_test {

static_assert(tells_allocations<heap_ref>);
static_assert(!tells_allocations<platform_malloc_heap>);
static_assert(!tells_allocations<arena>);

struct use_platform_malloc_heap {
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    platform_malloc_heap const heap;
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    auto* const one = static_cast<std::uint32_t*>(heap.malloc(64 + rank));
    auto* const other = static_cast<std::uint32_t*>(heap.malloc(16));
    bool bad = one == nullptr || other == nullptr ||
               reinterpret_cast<std::uintptr_t>(one) % 16 != 0 ||
               reinterpret_cast<std::uintptr_t>(other) % 16 != 0;
    if (!bad) {
      for (std::uint32_t i = 0; i < 16; ++i) one[i] = rank;
      for (std::uint32_t i = 0; i < 4; ++i) other[i] = ~rank;
      for (std::uint32_t i = 0; i < 16; ++i) bad = bad || one[i] != rank;
    }
    heap.free(one);
    heap.free(other);
    heap.free(nullptr);
    if (bad) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

template <class Backend>
struct Upstream : testing::Test {};
TYPED_TEST_SUITE(Upstream, backends, backend_names);

TYPED_TEST(Upstream, PlatformHeapGivesEachLaneItsOwnMemory) {
  TypeParam const backend;
  typename TypeParam::template array<std::uint32_t> wrong(1);
  backend.run(small_grid, use_platform_malloc_heap{wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
}

struct ask_too_much {
  std::uint32_t* got;

  QUARRY_HD void operator()() const {
    void* const one = platform_malloc_heap{}.malloc(bytes{1} << 60);
    if (one != nullptr) *got = 1;
    platform_malloc_heap{}.free(one);
  }
};

TYPED_TEST(Upstream, PlatformHeapGivesNullptrIfItHasNoMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the program";
#endif
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends the program";
#endif
  TypeParam const backend;
  typename TypeParam::template array<std::uint32_t> got(1);
  backend.run({1, 1}, ask_too_much{got.data()});
  EXPECT_EQ(got[0], 0u);
}

}  // namespace upstream_test
}  // namespace quarry::test
