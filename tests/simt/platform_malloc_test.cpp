// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/platform_malloc.hpp"

#include "support/backends.hpp"

#include <cstring>

namespace quarry {
namespace platform_malloc_test {

/// Allocates, writes to the whole allocation, records its address, and frees it.
struct use_platform_malloc {
  bytes alignment;
  bytes size;
  std::uint64_t* addresses;

  QUARRY_HD void operator()() const {
    void* const memory = alignment == 0 ? simt::platform_malloc::malloc(size)
                                        : simt::platform_malloc::aligned_malloc(alignment, size);
    addresses[simt::this_place().rank()] = reinterpret_cast<std::uint64_t>(memory);
    if (memory != nullptr) std::memset(memory, 0x5a, size);
    simt::platform_malloc::free(memory);
  }
};

struct free_nullptr {
  QUARRY_HD void operator()() const { simt::platform_malloc::free(nullptr); }
};

template <class Backend>
struct PlatformMalloc : testing::Test {};
TYPED_TEST_SUITE(PlatformMalloc, test::backends, test::backend_names);

TYPED_TEST(PlatformMalloc, AllocatesMemoryThatCanBeWrittenAndFreed) {
  TypeParam const backend;
  typename TypeParam::template array<std::uint64_t> addresses(64);
  backend.run({2, 32}, use_platform_malloc{0, 100, addresses.data()});
  for (int i = 0; i < 64; ++i) {
    EXPECT_NE(addresses[i], 0u);
    EXPECT_EQ(addresses[i] % 16, 0u);
  }
}

TYPED_TEST(PlatformMalloc, AlignsAsRequested) {
  TypeParam const backend;
  typename TypeParam::template array<std::uint64_t> addresses(32);
  for (bytes alignment = 8; alignment <= 512; alignment *= 2) {
    for (bytes const size : {bytes{1}, bytes{24}, bytes{700}}) {
      backend.run({1, 32}, use_platform_malloc{alignment, size, addresses.data()});
      for (int i = 0; i < 32; ++i) {
        EXPECT_NE(addresses[i], 0u);
        EXPECT_EQ(addresses[i] % alignment, 0u) << size << " bytes at " << alignment;
      }
    }
  }
}

TYPED_TEST(PlatformMalloc, IgnoresAFreeOfNullptr) { TypeParam{}.run({1, 32}, free_nullptr{}); }

}  // namespace platform_malloc_test
}  // namespace quarry
