// SPDX-License-Identifier: Apache-2.0
// Tests the route on all back ends, and the host's calls with a fake file. replace_malloc_test.cu
// tests files with kernels.
#include "quarry/device/replace_malloc.hpp"

#include "support/backends.hpp"

namespace quarry {
namespace replace_malloc_test {

constexpr heap_options small{.bytes = 1_MiB, .segment_bytes = 64_KiB};

malloc_route route_to(heap const& heap) { return {heap.ref(), heap.region(), heap.region_bytes()}; }

bool is_from(heap const& heap, void* pointer) {
  auto const begin = reinterpret_cast<std::uintptr_t>(heap.region());
  return reinterpret_cast<std::uintptr_t>(pointer) - begin < heap.region_bytes();
}

struct allocate_by_route {
  malloc_route route;
  bytes alignment;  // 0: malloc
  bytes size;
  void** pointers;

  QUARRY_HD void operator()() const {
    void* const memory =
        alignment == 0 ? route.malloc(size) : route.aligned_malloc(alignment, size);
    pointers[simt::this_place().rank()] = memory;
    if (memory != nullptr) *static_cast<char volatile*>(memory) = 1;
  }
};

struct free_by_route {
  malloc_route route;
  void** pointers;

  QUARRY_HD void operator()() const { route.free(pointers[simt::this_place().rank()]); }
};

template <class Backend>
struct MallocRoute : testing::Test {};
TYPED_TEST_SUITE(MallocRoute, test::backends, test::backend_names);

TYPED_TEST(MallocRoute, CallsThePlatformsMallocByDefault) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(32);
  backend.run({1, 32}, allocate_by_route{malloc_route{}, 0, 40, pointers.data()});
  for (int i = 0; i < 32; ++i) {
    ASSERT_NE(pointers[i], nullptr);
    EXPECT_FALSE(is_from(heap, pointers[i]));
  }
  backend.run({1, 32}, free_by_route{malloc_route{}, pointers.data()});
  EXPECT_FALSE(malloc_route{}.allocates());
}

TYPED_TEST(MallocRoute, AllocatesFromTheHeapAndFreesToIt) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const route = route_to(heap);
  EXPECT_TRUE(route.allocates());
  typename TypeParam::template array<void*> pointers(64);
  for (bytes const alignment : {0, 64, 1024}) {
    backend.run({2, 32}, allocate_by_route{route, alignment, 40, pointers.data()});
    for (int i = 0; i < 64; ++i) {
      EXPECT_TRUE(is_from(heap, pointers[i]));
      if (alignment != 0) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointers[i]) % alignment, 0u);
      }
    }
    EXPECT_EQ(heap.live_allocations().size(), 64u);
    backend.run({2, 32}, free_by_route{route, pointers.data()});
    test::expect_sound_and_empty(heap);
  }
}

TYPED_TEST(MallocRoute, FreesMemoryOfTheHeapWhenItNoLongerAllocatesFromIt) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const route = route_to(heap);
  EXPECT_FALSE(route.frees_only().allocates());
  typename TypeParam::template array<void*> heap_pointers(32);
  typename TypeParam::template array<void*> platform_pointers(32);
  backend.run({1, 32}, allocate_by_route{route, 0, 100, heap_pointers.data()});
  backend.run({1, 32}, allocate_by_route{route.frees_only(), 0, 100, platform_pointers.data()});
  for (int i = 0; i < 32; ++i) EXPECT_FALSE(is_from(heap, platform_pointers[i]));
  backend.run({1, 32}, free_by_route{route.frees_only(), heap_pointers.data()});
  backend.run({1, 32}, free_by_route{route, platform_pointers.data()});
  test::expect_sound_and_empty(heap);
}

TYPED_TEST(MallocRoute, ReportsADoubleFreeAndAnInteriorPointerAndIgnoresNullptr) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const route = route_to(heap);
  typename TypeParam::template array<void*> pointers(1);
  backend.run({}, free_by_route{route, pointers.data()});
  EXPECT_FALSE(heap.first_fault().has_value());
  backend.run({}, allocate_by_route{route, 0, 64, pointers.data()});
  pointers[0] = static_cast<char*>(pointers[0]) + 16;
  backend.run({}, free_by_route{route, pointers.data()});
  EXPECT_EQ(heap.fault_count(fault_kind::interior_pointer), 1u);
  pointers[0] = static_cast<char*>(pointers[0]) - 16;
  backend.run({}, free_by_route{route, pointers.data()});
  backend.run({}, free_by_route{route.frees_only(), pointers.data()});
  EXPECT_EQ(heap.fault_count(fault_kind::double_free), 1u);
  EXPECT_TRUE(heap.live_allocations().empty());
  test::expect_sound(heap);
}

TYPED_TEST(MallocRoute, ReturnsNullptrWhenTheHeapIsFull) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(1, reinterpret_cast<void*>(1));
  backend.run({}, allocate_by_route{route_to(heap), 0, 2_MiB, pointers.data()});
  EXPECT_EQ(pointers[0], nullptr);
  EXPECT_EQ(heap.fault_count(fault_kind::out_of_memory), 1u);
}

/// Each lane has one allocation or no allocation. The route of the last call decides where its
/// memory comes from.
TYPED_TEST(MallocRoute, FreesMemoryOfEitherSourceAtAnyTime) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::dice random{seed};
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    std::array const routes{malloc_route{}, route_to(heap), route_to(heap).frees_only()};
    typename TypeParam::template array<void*> pointers(4 * 32);
    std::array<int, 4> held{-1, -1, -1, -1};  // the route that allocated each row
    bool replaced = false;  // a route that does not know the heap must not free the heap's memory
    for (int step = 0; step < 40; ++step) {
      auto const row = random.below(4);
      void** const row_pointers = pointers.data() + row * 32;
      if (!replaced && random.below(8) == 0) replaced = true;
      int const route = replaced ? 1 + static_cast<int>(random.below(2)) : 0;
      if (held[row] >= 0) {
        backend.run({1, 32}, free_by_route{routes[route], row_pointers});
        held[row] = -1;
      } else {
        backend.run({1, 32}, allocate_by_route{routes[route], 0, random.below(300), row_pointers});
        held[row] = route;
        for (int i = 0; i < 32; ++i) ASSERT_EQ(is_from(heap, row_pointers[i]), route == 1);
      }
      auto const heap_rows = std::count(held.begin(), held.end(), 1);
      ASSERT_EQ(heap.live_allocations().size(), 32u * static_cast<std::size_t>(heap_rows));
    }
    for (std::uint32_t row = 0; row < 4; ++row) {
      if (held[row] >= 0)
        backend.run({1, 32}, free_by_route{routes[replaced ? 2 : 0], pointers.data() + row * 32});
    }
    test::expect_sound_and_empty(heap);
  }
}

malloc_route fake_route;
int stores_that_work = 1000;

malloc_route load_fake() { return fake_route; }
void store_fake(malloc_route const& route) {
  if (stores_that_work-- == 0) throw std::runtime_error{"this file cannot be changed"};
  fake_route = route;
}

struct ReplaceMalloc : testing::Test {
  ReplaceMalloc() {
    fake_route = malloc_route{};
    stores_that_work = 1000;
  }
  heap heap_{{.bytes = 1_MiB, .segment_bytes = 64_KiB, .backend_kind = backend::cpu}};
};

TEST_F(ReplaceMalloc, ReachesEveryFileAndCanBeRestored) {
  file_with_route const file{backend::cpu, &load_fake, &store_fake};
  replace_malloc(heap_);
  EXPECT_TRUE(fake_route.allocates());
  void* const memory = fake_route.malloc(64);
  EXPECT_TRUE(is_from(heap_, memory));
  restore_malloc();
  EXPECT_FALSE(fake_route.allocates());
  fake_route.free(memory);
  test::expect_sound_and_empty(heap_);
  restore_malloc();
  EXPECT_FALSE(fake_route.allocates());
}

TEST_F(ReplaceMalloc, ASecondCallSelectsAnotherHeap) {
  file_with_route const file{backend::cpu, &load_fake, &store_fake};
  heap const other{{.bytes = 1_MiB, .segment_bytes = 64_KiB, .backend_kind = backend::cpu}};
  replace_malloc(heap_);
  replace_malloc(other);
  void* const memory = fake_route.malloc(64);
  EXPECT_TRUE(is_from(other, memory));
  fake_route.free(memory);
  test::expect_sound_and_empty(other);
}

TEST_F(ReplaceMalloc, RefusesAProgramWithoutFilesForTheHeapsBackend) {
  EXPECT_THROW(replace_malloc(heap_), std::logic_error);
  {
    file_with_route const freed{backend::cpu, &load_fake, &store_fake};
  }
  EXPECT_THROW(replace_malloc(heap_), std::logic_error);
  EXPECT_FALSE(fake_route.allocates());
  EXPECT_NO_THROW(restore_malloc());
}

TEST_F(ReplaceMalloc, RestoresOnlyFilesThatWereReplaced) {
  file_with_route const file{
      backend::cpu, []() -> malloc_route { throw std::runtime_error{"no GPU here"}; }, &store_fake};
  EXPECT_NO_THROW(restore_malloc());
  replace_malloc(heap_);
  EXPECT_THROW(restore_malloc(), std::runtime_error);
}

TEST_F(ReplaceMalloc, ReportsAFileThatFailsAndLeavesAllFilesAbleToFree) {
  file_with_route const first{backend::cpu, &load_fake, &store_fake};
  stores_that_work = 1;  // the second store would enable allocation
  EXPECT_THROW(replace_malloc(heap_), std::runtime_error);
  EXPECT_FALSE(fake_route.allocates());
  fake_route.free(heap_.ref().malloc(16));
  test::expect_sound_and_empty(heap_);
}

}  // namespace replace_malloc_test
}  // namespace quarry
