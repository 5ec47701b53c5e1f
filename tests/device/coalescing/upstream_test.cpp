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
    auto* const large = static_cast<std::uint32_t*>(heap.malloc(64 + rank));
    auto* const small = static_cast<std::uint32_t*>(heap.malloc(16));
    bool bad = large == nullptr || small == nullptr ||
               reinterpret_cast<std::uintptr_t>(large) % 16 != 0 ||
               reinterpret_cast<std::uintptr_t>(small) % 16 != 0;
    if (!bad) {
      for (std::uint32_t i = 0; i < 16; ++i) large[i] = rank;
      for (std::uint32_t i = 0; i < 4; ++i) small[i] = ~rank;
      for (std::uint32_t i = 0; i < 16; ++i) bad = bad || large[i] != rank;
    }
    heap.free(large);
    heap.free(small);
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

struct allocate_too_much {
  std::uint32_t* successes;

  QUARRY_HD void operator()() const {
    void* const result = platform_malloc_heap{}.malloc(bytes{1} << 60);
    if (result != nullptr) *successes = 1;
    platform_malloc_heap{}.free(result);
  }
};

TYPED_TEST(Upstream, PlatformHeapReturnsNullptrIfItHasNoMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the program when an allocation is too large";
#endif
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends the program when an allocation is too large";
#endif
  TypeParam const backend;
  typename TypeParam::template array<std::uint32_t> successes(1);
  backend.run({1, 1}, allocate_too_much{successes.data()});
  EXPECT_EQ(successes[0], 0u);
}

}  // namespace upstream_test
}  // namespace quarry::test
