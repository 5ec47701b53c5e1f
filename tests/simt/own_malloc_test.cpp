// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/own_malloc.hpp"

#include "support/machines.hpp"

#include <cstring>

namespace quarry {
namespace own_malloc_test {

/// Allocates, writes all of it, and notes where it was; frees it.
struct use_own_malloc {
  bytes alignment;
  bytes size;
  std::uint64_t* addresses;

  QUARRY_HD void operator()() const {
    void* const memory = alignment == 0 ? simt::own_malloc::malloc(size)
                                        : simt::own_malloc::aligned_malloc(alignment, size);
    addresses[simt::this_place().rank()] = reinterpret_cast<std::uint64_t>(memory);
    if (memory != nullptr) std::memset(memory, 0x5a, size);
    simt::own_malloc::free(memory);
  }
};

struct free_nothing {
  QUARRY_HD void operator()() const { simt::own_malloc::free(nullptr); }
};

template <class Machine>
struct OwnMalloc : testing::Test {};
TYPED_TEST_SUITE(OwnMalloc, test::machines, test::machine_names);

TYPED_TEST(OwnMalloc, GivesMemoryThatCanBeWrittenAndFreed) {
  TypeParam const machine;
  typename TypeParam::template array<std::uint64_t> addresses(64);
  machine.run({2, 32}, use_own_malloc{0, 100, addresses.data()});
  for (int i = 0; i < 64; ++i) {
    EXPECT_NE(addresses[i], 0u);
    EXPECT_EQ(addresses[i] % 16, 0u);
  }
}

TYPED_TEST(OwnMalloc, AlignsAsAsked) {
  TypeParam const machine;
  typename TypeParam::template array<std::uint64_t> addresses(32);
  for (bytes alignment = 8; alignment <= 512; alignment *= 2) {
    for (bytes const size : {bytes{1}, bytes{24}, bytes{700}}) {
      machine.run({1, 32}, use_own_malloc{alignment, size, addresses.data()});
      for (int i = 0; i < 32; ++i) {
        EXPECT_NE(addresses[i], 0u);
        EXPECT_EQ(addresses[i] % alignment, 0u) << size << " bytes at " << alignment;
      }
    }
  }
}

TYPED_TEST(OwnMalloc, IgnoresAFreeOfNullptr) { TypeParam{}.run({1, 32}, free_nothing{}); }

}  // namespace own_malloc_test
}  // namespace quarry
