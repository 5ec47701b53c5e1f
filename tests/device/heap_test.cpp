// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/heap.hpp"

#include "support/backends.hpp"

#include <sys/mman.h>

#include <optional>
#include <set>
#include <sstream>

namespace quarry {

using namespace detail;
namespace heap_test {

struct allocate {
  heap_ref heap;
  bytes size;
  void** pointers;

  QUARRY_HD void operator()() const { pointers[simt::this_place().rank()] = heap.malloc(size); }
};

struct release {
  heap_ref heap;
  void** pointers;

  QUARRY_HD void operator()() const { heap.free(pointers[simt::this_place().rank()]); }
};

/// Each lane fills its allocation, if it has one, with a number of its own.
struct fill {
  bytes size;
  void* const* pointers;

  QUARRY_HD void operator()() const {
    std::uint32_t const lane = simt::this_place().thread;
    auto* const words = static_cast<std::uint32_t*>(pointers[lane]);
    if (words == nullptr) return;
    for (bytes i = 0; i < size / 4; ++i) words[i] = lane + 1;
  }
};

/// Each lane counts the words of its allocation that do not hold the number from `fill`.
struct count_changes {
  bytes size;
  void* const* pointers;
  std::uint32_t* changes;

  QUARRY_HD void operator()() const {
    std::uint32_t const lane = simt::this_place().thread;
    auto const* const words = static_cast<std::uint32_t const*>(pointers[lane]);
    if (words == nullptr) return;
    for (bytes i = 0; i < size / 4; ++i) changes[lane] += words[i] != lane + 1 ? 1 : 0;
  }
};

constexpr heap_options small{.bytes = 1_MiB, .segment_bytes = 64_KiB};

/// The base addresses of the live allocations.
std::set<void*> addresses(heap const& source) {
  std::set<void*> found;
  for (live_allocation const& each : source.live_allocations()) found.insert(each.address);
  return found;
}

template <class Backend>
struct Heap : testing::Test {};
TYPED_TEST_SUITE(Heap, test::backends, test::backend_names);

TEST(HeapOptions, RefusesInvalidOptions) {
  EXPECT_THROW(heap({.bytes = 0, .backend_kind = backend::cpu}), std::invalid_argument);
  EXPECT_THROW(heap({.bytes = 1_MiB, .segment_bytes = 96_KiB, .backend_kind = backend::cpu}),
               std::invalid_argument);
  EXPECT_THROW(heap({.bytes = 1_MiB, .segment_bytes = 32_KiB, .backend_kind = backend::cpu}),
               std::invalid_argument);
  EXPECT_THROW(heap({.bytes = 1_MiB, .backend_kind = backend::cpu, .peers = {1}}),
               std::invalid_argument);
  EXPECT_THROW(heap({.bytes = 1_MiB, .segment_bytes = 128_MiB, .backend_kind = backend::cpu}),
               std::invalid_argument);
  try {
    heap const refused{{.bytes = 1_MiB, .segment_bytes = 100, .backend_kind = backend::cpu}};
    FAIL();
  } catch (std::invalid_argument const& error) {
    EXPECT_NE(std::string{error.what()}.find("segment_bytes is 100"), std::string::npos)
        << error.what();
  }
}

TYPED_TEST(Heap, IsEmptyAndSoundWhenItIsNew) {
  auto const heap = TypeParam{}.make_heap(small);
  EXPECT_TRUE(heap.audit().empty());
  EXPECT_TRUE(heap.live_allocations().empty());
  EXPECT_FALSE(heap.first_fault().has_value());
  auto const stats = heap.stats();
  EXPECT_EQ(stats.reserved, 1_MiB);
  EXPECT_EQ(stats.allocated, 0u);
  EXPECT_EQ(stats.largest_free, 1_MiB);
  EXPECT_EQ(stats.fragmentation(), 0.0);
}

TYPED_TEST(Heap, ReportsTheSizeOfItsMetadata) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const initial_metadata = heap.stats().metadata;
  EXPECT_GT(initial_metadata, 1_MiB / 128) << "a bit for each 16 bytes";
  typename TypeParam::template array<void*> pointers(40);
  backend.run({2, 20}, allocate{heap.ref(), 100, pointers.data()});
  EXPECT_EQ(heap.stats().metadata, initial_metadata) << "allocations do not change it";
  auto const larger = backend.make_heap({.bytes = 4_MiB, .segment_bytes = 64_KiB});
  EXPECT_GT(larger.stats().metadata, initial_metadata);
}

TYPED_TEST(Heap, ReportsTheRegionOfItsAllocations) {
  TypeParam const backend;
  auto const heap =
      backend.make_heap({.bytes = 512_KiB, .max_bytes = 1_MiB + 1, .segment_bytes = 64_KiB});
  EXPECT_EQ(heap.region_bytes(), 1_MiB + 64_KiB);
  typename TypeParam::template array<void*> pointers(40);
  for (bytes const size : {bytes{16}, bytes{5000}, 64_KiB})
    backend.run({2, 20}, allocate{heap.ref(), size, pointers.data()});
  auto const begin = reinterpret_cast<std::uintptr_t>(heap.region());
  EXPECT_EQ(begin % 64_KiB, 0u);
  for (auto const& live : heap.live_allocations()) {
    EXPECT_LT(reinterpret_cast<std::uintptr_t>(live.address) - begin, heap.region_bytes());
  }
}

TYPED_TEST(Heap, ReportsTheLargestAllocationThatSucceedsBesideSmallAllocations) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(40);
  typename TypeParam::template array<void*> large(2);
  backend.run({2, 20}, allocate{heap.ref(), 100, pointers.data()});
  auto const largest = heap.stats().largest_free;
  EXPECT_GE(largest, 512_KiB) << "slices of a run that are not allocated are free";
  backend.run({1, 1}, allocate{heap.ref(), hardening::usable(largest), large.data()});
  EXPECT_NE(large.data()[0], nullptr);
  backend.run({1, 1}, release{heap.ref(), large.data()});
  backend.run({1, 1}, allocate{heap.ref(), hardening::usable(largest) + 1, large.data()});
  EXPECT_EQ(large.data()[0], nullptr);
  backend.run({2, 20}, release{heap.ref(), pointers.data()});
  EXPECT_EQ(heap.stats().largest_free, 1_MiB);
  EXPECT_EQ(heap.stats().fragmentation(), 0.0);
}

TYPED_TEST(Heap, ListsLiveAllocations) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(40);
  backend.run({2, 20}, allocate{heap.ref(), 100, pointers.data()});
  auto const live = heap.live_allocations();
  ASSERT_EQ(live.size(), 40u);
  std::vector<void*> expected(pointers.data(), pointers.data() + 40);
  std::sort(expected.begin(), expected.end());
  for (std::size_t i = 0; i < live.size(); ++i) {
    EXPECT_EQ(live[i].address, expected[i]);
    EXPECT_GE(live[i].bytes, 100u);
  }
  EXPECT_EQ(heap.stats().allocations_in_use, 40u);
  backend.run({2, 20}, release{heap.ref(), pointers.data()});
  EXPECT_TRUE(heap.live_allocations().empty());
  EXPECT_TRUE(heap.audit().empty());
}

TYPED_TEST(Heap, ResetFreesEverythingAndKeepsRefsValid) {
  TypeParam const backend;
  auto heap = backend.make_heap(small);
  auto const ref = heap.ref();
  typename TypeParam::template array<void*> pointers(32);
  for (int round = 0; round < 4; ++round) {
    for (bytes const size : {bytes{16}, bytes{300}, 9_KiB})
      backend.run({1, 32}, allocate{ref, size, pointers.data()});
    EXPECT_EQ(heap.live_allocations().size(), 96u) << "round " << round;
    heap.reset();
    EXPECT_TRUE(heap.live_allocations().empty());
    EXPECT_TRUE(heap.audit().empty());
  }
}

TYPED_TEST(Heap, GrowsWithoutMovingAndShrinksNoFurtherThanItsAllocations) {
  TypeParam const backend;
  auto heap = backend.make_heap({.bytes = 512_KiB, .max_bytes = 2_MiB, .segment_bytes = 64_KiB});
  bytes const size = 64_KiB - 64;
  typename TypeParam::template array<void*> pointers(12);
  backend.run({1, 12}, allocate{heap.ref(), size, pointers.data()});
  EXPECT_EQ(heap.fault_count(fault_kind::out_of_memory), 4u);
  heap.clear_faults();
  backend.run({1, 12}, fill{size, pointers.data()});
  heap_ref const before = heap.ref();
  void const* const region = heap.region();
  auto const allocated = addresses(heap);
  heap.grow(1_MiB);
  EXPECT_EQ(heap.stats().reserved, 1_MiB);
  EXPECT_EQ(heap.region(), region);
  EXPECT_EQ(addresses(heap), allocated);
  typename TypeParam::template array<void*> more(4);
  backend.run({1, 4}, allocate{before, size, more.data()});
  backend.run({1, 4}, fill{size, more.data()});
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(more.data()[i], nullptr);
    EXPECT_EQ(allocated.count(more.data()[i]), 0u);
  }
  EXPECT_EQ(heap.live_allocations().size(), 12u);
  typename TypeParam::template array<std::uint32_t> changes(12);
  backend.run({1, 12}, count_changes{size, pointers.data(), changes.data()});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(changes[i], 0u) << "allocation of lane " << i;
  backend.run({1, 4}, release{heap.ref(), more.data()});
  EXPECT_TRUE(heap.audit().empty());
  EXPECT_EQ(heap.shrink(~bytes{0}), 1_MiB) << "a size above the heap's was taken for 0";
  EXPECT_LE(heap.shrink(256_KiB), 1_MiB);
  EXPECT_GE(heap.stats().reserved, 512_KiB) << "segments in use were released";
  EXPECT_THROW(heap.grow(4_MiB), std::invalid_argument);
  EXPECT_THROW(heap.grow(~bytes{0}), std::invalid_argument);
  backend.run({1, 12}, release{heap.ref(), pointers.data()});
  EXPECT_TRUE(heap.live_allocations().empty());
  EXPECT_TRUE(heap.audit().empty());
}

TYPED_TEST(Heap, ReportsTheFirstFault) {
  TypeParam const backend;
  auto heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(2);
  backend.run({2, 1}, allocate{heap.ref(), 8_MiB, pointers.data()});
  auto const fault = heap.first_fault();
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, fault_kind::out_of_memory);
  EXPECT_GE(fault->size, 8_MiB);
  EXPECT_EQ(fault->free_segments_bytes, 1_MiB);
  std::ostringstream text;
  text << *fault;
  EXPECT_NE(text.str().find("out of memory by block"), std::string::npos) << text.str();
  EXPECT_EQ(heap.fault_count(fault_kind::out_of_memory), 2u);
  heap.clear_faults();
  EXPECT_FALSE(heap.first_fault().has_value());
}

TYPED_TEST(Heap, SeveralHeapsWorkAtOnce) {
  TypeParam const backend;
  auto const a = backend.make_heap(small);
  auto const b = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(64);
  backend.run({1, 32}, allocate{a.ref(), 48, pointers.data()});
  backend.run({1, 32}, allocate{b.ref(), 48, pointers.data() + 32});
  backend.run({1, 32}, release{a.ref(), pointers.data() + 32});  // the wrong heap
  EXPECT_EQ(a.fault_count(fault_kind::foreign_pointer), 32u);
  EXPECT_EQ(b.live_allocations().size(), 32u);
  backend.run({1, 32}, release{b.ref(), pointers.data() + 32});
  backend.run({1, 32}, release{a.ref(), pointers.data()});
  EXPECT_TRUE(a.audit().empty());
  EXPECT_TRUE(b.live_allocations().empty());
}

TYPED_TEST(Heap, RefusesUseAfterItsDestruction) {
  TypeParam const backend;
  typename TypeParam::template array<void*> pointers(4);
  heap_ref stale;
  {
    auto const heap = backend.make_heap(small);
    stale = heap.ref();
    backend.run({1, 4}, allocate{stale, 64, pointers.data()});
    EXPECT_NE(pointers.data()[0], nullptr);
  }
  backend.run({1, 4}, release{stale, pointers.data()});
  backend.run({1, 4}, allocate{stale, 64, pointers.data()});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pointers.data()[i], nullptr);
  backend.run({1, 4}, allocate{stale, 1_MiB, pointers.data()});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pointers.data()[i], nullptr);
}

TYPED_TEST(Heap, MovesWithItsOwner) {
  TypeParam const backend;
  auto first = backend.make_heap(small);
  auto const ref = first.ref();
  heap second = std::move(first);
  typename TypeParam::template array<void*> pointers(1);
  backend.run({1, 1}, allocate{ref, 64, pointers.data()});
  EXPECT_EQ(second.live_allocations().size(), 1u);
}

TEST(HeapOnTheHost, ShrinksAndGrowsIfItsMemoryIsLocked) {
  heap owner{{.bytes = 1_MiB, .backend_kind = backend::cpu}};
  if (mlock(owner.region(), owner.region_bytes()) != 0)
    GTEST_SKIP() << "this process may not lock memory";
  EXPECT_EQ(owner.shrink(256_KiB), 256_KiB);
  auto* const region = static_cast<unsigned char*>(owner.region());
  EXPECT_DEATH(region[512_KiB] = 1, "");
  owner.grow(1_MiB);
  EXPECT_EQ(region[512_KiB], 0u);
  EXPECT_TRUE(owner.audit().empty());
}

#ifdef __CUDACC__
/// Each lane allocates and frees.
struct pairs {
  heap_ref heap;
  std::uint32_t* nulls;
  QUARRY_HD void operator()() const {
    void* const memory = heap.malloc(100);
    if (memory == nullptr) simt::atomic_ref<std::uint32_t>{*nulls}.fetch_add(1, simt::relaxed);
    heap.free(memory);
  }
};

void run_on(int device, heap const& owner) {
  simt::check_cuda(cudaSetDevice(device), "cudaSetDevice");
  std::uint32_t* nulls = nullptr;
  simt::check_cuda(cudaMallocManaged(&nulls, sizeof(*nulls)), "cudaMallocManaged");
  *nulls = 0;
  simt::launch_cuda({64, 128}, pairs{owner.ref(), nulls});
  simt::check_cuda(cudaDeviceSynchronize(), "kernel");
  EXPECT_EQ(*nulls, 0u);
  cudaFree(nulls);
}

/// Its stack frame is so large that CUDA's default stack limit leaves too little for the slow
/// paths.
struct sums_a_large_frame {
  heap_ref heap;
  std::uint32_t* wrong;
  QUARRY_HD void operator()() const {
    constexpr std::uint32_t count = 2048;
    std::uint32_t volatile numbers[count];
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    for (std::uint32_t i = 0; i < count; ++i) numbers[i] = i * rank;
    for (bytes const size : {24, 5000, 200}) {
      auto* const memory = static_cast<std::uint32_t*>(heap.malloc(size));
      if (memory != nullptr) *memory = rank;
      heap.free(memory);
    }
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) sum += numbers[(i * 37) % count];
    if (sum != rank * (count * (count - 1) / 2))
      simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

TEST(HeapOnCuda, ServesKernelsWithLargeFramesAndKeepsTheStackLimit) {
  std::size_t old_limit = 0;
  simt::check_cuda(cudaDeviceGetLimit(&old_limit, cudaLimitStackSize), "cudaDeviceGetLimit");
  heap const owner{{.bytes = 64_MiB, .backend_kind = backend::cuda}};
  std::size_t new_limit = 0;
  simt::check_cuda(cudaDeviceGetLimit(&new_limit, cudaLimitStackSize), "cudaDeviceGetLimit");
  EXPECT_EQ(new_limit, old_limit);
  test::cuda_backend::array<std::uint32_t> wrong(1);
  simt::launch_cuda({512, 256}, sums_a_large_frame{owner.ref(), wrong.data()});
  simt::check_cuda(cudaDeviceSynchronize(), "kernel");
  EXPECT_EQ(wrong[0], 0u);
  EXPECT_TRUE(owner.audit().empty());
}

/// Makes a heap on each of two GPUs. Every call is made while the other GPU is current.
TEST(HeapOnTwoDevices, WorksWithAnyCurrentDeviceAndKeepsIt) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "needs two GPUs";
  for (int const own : {0, 1}) {
    int const other = 1 - own;
    auto const expect_other = [other] {
      int current = -1;
      cudaGetDevice(&current);
      EXPECT_EQ(current, other);
    };
    cudaSetDevice(other);
    std::optional<heap> owner{heap{
        {.bytes = 64_MiB, .max_bytes = 256_MiB, .backend_kind = backend::cuda, .device = own}}};
    expect_other();
    for (int round = 0; round < 2; ++round) {
      run_on(own, *owner);
      cudaSetDevice(other);
      EXPECT_TRUE(owner->audit().empty());
      EXPECT_EQ(owner->stats().allocations_in_use, 0u);
      EXPECT_FALSE(owner->first_fault().has_value());
      owner->clear_faults();
      EXPECT_NO_THROW(owner->grow(128_MiB));
      EXPECT_NO_THROW((void)owner->shrink(64_MiB));
      EXPECT_NO_THROW(owner->reset());
      expect_other();
    }
    owner.reset();
    expect_other();
  }
  cudaSetDevice(0);
}

struct fills {
  std::uint32_t* words;
  std::uint32_t count;
  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    if (rank < count) words[rank] = 3 * rank;
  }
};

struct allocates {
  heap_ref heap;
  void** memory;
  bytes size;
  QUARRY_HD void operator()() const { *memory = heap.malloc(size); }
};

TEST(HeapOnTwoDevices, GivesPeersMemoryThatTheyCanUse) {
  int can_access = 0;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2 ||
      cudaDeviceCanAccessPeer(&can_access, 1, 0) != cudaSuccess || can_access == 0)
    GTEST_SKIP() << "needs two GPUs that are peers";
  constexpr std::uint32_t words = 1000;
  heap owner{{.bytes = 8_MiB, .max_bytes = 64_MiB, .backend_kind = backend::cuda, .peers = {1}}};
  for (bytes const reserved : {8_MiB, 32_MiB}) {  // also memory that `grow` has added
    owner.grow(reserved);
    test::cuda_backend::array<void*> found(1);
    bytes const size = reserved == 8_MiB ? words * sizeof(std::uint32_t) : 12_MiB;
    simt::launch_cuda({1, 1}, allocates{owner.ref(), found.data(), size});
    simt::check_cuda(cudaDeviceSynchronize(), "kernel");
    ASSERT_NE(found[0], nullptr);
    cudaSetDevice(1);
    simt::launch_cuda({8, 128}, fills{static_cast<std::uint32_t*>(found[0]), words});
    simt::check_cuda(cudaDeviceSynchronize(), "kernel of the peer");
    cudaSetDevice(0);
    std::vector<std::uint32_t> copy(words);
    simt::check_cuda(cudaMemcpy(copy.data(), found[0], words * sizeof(copy[0]), cudaMemcpyDefault),
                     "cudaMemcpy");
    for (std::uint32_t i = 0; i < words; ++i) ASSERT_EQ(copy[i], 3 * i);
  }
}

TEST(HeapOnTwoDevices, IsRefusedOnAMissingDevice) {
  EXPECT_THROW((heap{{.bytes = 64_MiB, .backend_kind = backend::cuda, .device = 1000}}),
               std::invalid_argument);
}
#endif

}  // namespace heap_test
}  // namespace quarry
