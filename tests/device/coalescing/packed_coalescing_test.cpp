// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/packed_coalescing.hpp"

#include "quarry/device/coalescing/coalescing_heap.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace quarry::test {
namespace packed_coalescing_test {

constexpr heap_options small{.bytes = 1_MiB, .segment_bytes = 64_KiB};

struct superblock_in_memory {
  alignas(16) std::array<std::byte, 4096> memory{};
  detail::superblock* all = reinterpret_cast<detail::superblock*>(memory.data());
};

TEST(PackedSuperblock, PacksItsPartsBehindItsFirst16Bytes) {
  superblock_in_memory a;
  a.all->open_packed(5, 40);
  EXPECT_EQ(a.all->part_bytes(), 40u);
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(a.all->part(i, false), reinterpret_cast<char*>(a.all) + 16 + i * 48);
    EXPECT_EQ(a.all->index_of(a.all->part(i, false)), i);
    EXPECT_EQ(a.all->index_of(a.all->part(i, false) + 16), detail::superblock::no_part)
        << "inside a part";
  }
}

TEST(PackedSuperblock, PartsOfZeroBytesHaveDistinctAddresses) {
  superblock_in_memory a;
  a.all->open_packed(32, 0);
  EXPECT_EQ(a.all->part(31, false) - a.all->part(0, false), 31 * 16);
}

TEST(PackedSuperblock, IsNotRecognisedInOtherMemoryOrWhenClosed) {
  superblock_in_memory a;
  EXPECT_EQ(a.all->index_of(a.memory.data() + 16), detail::superblock::no_part);
  a.all->open_packed(1, 16);
  EXPECT_EQ(a.all->index_of(a.all->part(0, false)), 0u);
  a.all->close();
  EXPECT_EQ(a.all->index_of(a.all->part(0, false)), detail::superblock::no_part);
}

TEST(PackedSuperblock, ReportsADoubleFreeByItsBit) {
  superblock_in_memory a;
  a.all->open_packed(3, 16);
  EXPECT_EQ(a.all->leave(0b010), 0b111u);
  EXPECT_EQ(a.all->leave(0b010) & 0b010, 0u);
  EXPECT_EQ(a.all->leave(0b101), 0b101u) << "these lanes are the last";
}

struct allocate_packed {
  coalescing_ref<heap_ref> heap;
  bytes size;
  void** pointers;

  QUARRY_HD void operator()() const {
    pointers[simt::this_place().rank()] = heap.malloc_packed(size);
  }
};

/// Each lane frees the allocation of the lane that is `shift` ranks later.
struct free_shifted {
  coalescing_ref<heap_ref> heap;
  std::uint32_t shift;
  void** pointers;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    heap.free(pointers[(place.rank() + shift) % place.count()]);
  }
};

template <class Backend>
struct PackedCoalescing : testing::Test {};
TYPED_TEST_SUITE(PackedCoalescing, backends, backend_names);

constexpr simt::grid two_blocks{2, 36};
constexpr std::size_t lanes = 72;

TYPED_TEST(PackedCoalescing, GivesEachLaneAPartThatAnyLaneOfALaterKernelCanFree) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    coalescing_heap const coalescer{heap.ref(), {.backend_kind = heap.backend_kind()}};
    typename TypeParam::template array<void*> pointers(lanes);
    backend.run(two_blocks, allocate_packed{coalescer.ref(), 100, pointers.data()});
    std::set<void*> const distinct(pointers.data(), pointers.data() + lanes);
    EXPECT_EQ(distinct.size(), lanes);
    EXPECT_EQ(distinct.count(nullptr), 0u);
    for (void* const part : distinct) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part) % 16, 0u);
    backend.run(two_blocks, free_shifted{coalescer.ref(), 5, pointers.data()});
    expect_sound_and_empty(heap);
    EXPECT_FALSE(coalescer.first_fault().has_value());
    if (this->HasFailure()) FAIL() << "seed " << seed;
  }
}

TYPED_TEST(PackedCoalescing, CountsEachDoubleFree) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    coalescing_heap const coalescer{heap.ref(), {.backend_kind = heap.backend_kind()}};
    typename TypeParam::template array<void*> pointers(lanes);
    backend.run(two_blocks, allocate_packed{coalescer.ref(), 24, pointers.data()});
    backend.run(two_blocks, free_shifted{coalescer.ref(), 0, pointers.data()});
    backend.run(two_blocks, free_shifted{coalescer.ref(), 1, pointers.data()});
    EXPECT_EQ(coalescer.fault_count(fault_kind::double_free), lanes) << "seed " << seed;
    EXPECT_TRUE(heap.live_allocations().empty());
    EXPECT_TRUE(heap.audit().empty());
  }
}

TYPED_TEST(PackedCoalescing, ReturnsNullptrToAllLanesAndLeaksNothingWhenTheHeapIsFull) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  coalescing_heap const coalescer{heap.ref(), {.backend_kind = heap.backend_kind()}};
  typename TypeParam::template array<void*> pointers(lanes);
  backend.run(two_blocks, allocate_packed{coalescer.ref(), 2_MiB, pointers.data()});
  for (std::size_t i = 0; i < lanes; ++i) EXPECT_EQ(pointers.data()[i], nullptr);
  EXPECT_EQ(coalescer.fault_count(fault_kind::out_of_memory), lanes);
  backend.run(two_blocks, allocate_packed{coalescer.ref(), ~bytes{0}, pointers.data()});
  EXPECT_EQ(coalescer.fault_count(fault_kind::out_of_memory), 2 * lanes);
  EXPECT_TRUE(heap.live_allocations().empty());
  EXPECT_TRUE(heap.audit().empty());
}

}  // namespace packed_coalescing_test
}  // namespace quarry::test
