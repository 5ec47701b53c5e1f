// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/heap_ref.hpp"

#include "support/backends.hpp"

#include <array>
#include <set>

namespace quarry::heap_ref_test {
using namespace detail;

constexpr heap_options small{.bytes = 4_MiB, .segment_bytes = 64_KiB};

template <class Backend>
struct HeapRef : testing::Test {};
TYPED_TEST_SUITE(HeapRef, test::backends, test::backend_names);

QUARRY_HD inline bytes size_for(std::uint32_t random) {
  if (random % 13 == 0) return random / 13 % 70000;
  return random % 5 == 0 ? random / 5 % 5000 : random % 260;
}

/// Fills an allocation with the words `mark`; `is_filled` checks them.
QUARRY_HD inline void fill(void* pointer, bytes size, std::uint32_t mark) {
  auto* const words = static_cast<std::uint32_t*>(pointer);
  for (bytes i = 0; i < size / 4; ++i) words[i] = mark;
}
QUARRY_HD inline bool is_filled(void const* pointer, bytes size, std::uint32_t mark) {
  auto const* const words = static_cast<std::uint32_t const*>(pointer);
  bool matches = true;
  for (bytes i = 0; i < size / 4; ++i) matches = matches && words[i] == mark;
  return matches;
}

/// Each lane keeps a few allocations. In each step it frees one at random, makes another, and
/// checks that no other lane wrote to it.
struct churn {
  heap_ref heap;
  std::uint32_t seed;
  std::uint32_t steps;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    constexpr std::uint32_t kept = 4;
    void* pointers[kept] = {};
    bytes sizes[kept] = {};
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    std::uint32_t random = mix(seed * 7919 + rank);
    bool bad = false;
    for (std::uint32_t step = 0; step < steps; ++step) {
      random = mix(random + step);
      std::uint32_t const i = random % kept;
      if (pointers[i] != nullptr) {
        bad = bad || !is_filled(pointers[i], sizes[i], rank * kept + i);
        heap.free(pointers[i]);
      }
      sizes[i] = size_for(random >> 3);
      pointers[i] = heap.malloc(sizes[i]);
      if (pointers[i] == nullptr) continue;
      bad = bad || reinterpret_cast<std::uintptr_t>(pointers[i]) % min_alignment != 0;
      fill(pointers[i], sizes[i], rank * kept + i);
    }
    for (std::uint32_t i = 0; i < kept; ++i) {
      if (pointers[i] == nullptr) continue;
      bad = bad || !is_filled(pointers[i], sizes[i], rank * kept + i);
      heap.free(pointers[i]);
    }
    if (bad) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

TYPED_TEST(HeapRef, AllocatesDisjointMemoryForEachLaneInEveryOrder) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run({2, 40}, churn{heap.ref(), static_cast<std::uint32_t>(seed), 30, wrong.data()});
    EXPECT_EQ(wrong.data()[0], 0u) << "seed " << seed;
    auto const problems = heap.audit();
    EXPECT_TRUE(problems.empty()) << "seed " << seed << ": " << problems.front();
    EXPECT_TRUE(heap.live_allocations().empty()) << "seed " << seed;
    for (auto const kind :
         {fault_kind::double_free, fault_kind::foreign_pointer, fault_kind::interior_pointer}) {
      EXPECT_EQ(heap.fault_count(kind), 0u) << "seed " << seed << ": " << name_of(kind);
    }
  }
}

/// Allocates until the heap is full, and links the allocations in a chain.
struct fill_up {
  heap_ref heap;
  bytes size;
  void** heads;
  std::uint32_t* counts;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    void* head = heads[rank];
    while (void* const next = heap.malloc(size)) {
      *static_cast<void**>(next) = head;
      head = next;
      ++counts[rank];
    }
    heads[rank] = head;
  }
};

/// Frees every second allocation of each lane's chain, or all allocations.
struct thin_out {
  heap_ref heap;
  void** heads;
  std::uint32_t* counts;
  bool all;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    void* kept = nullptr;
    bool keep = false;
    for (void* node = heads[rank]; node != nullptr;) {
      void* const next = *static_cast<void**>(node);
      keep = !keep && !all;
      if (keep) {
        *static_cast<void**>(node) = kept;
        kept = node;
      } else {
        heap.free(node);
        --counts[rank];
      }
      node = next;
    }
    heads[rank] = kept;
  }
};

TYPED_TEST(HeapRef, AllocatesTheWholeHeapAndReusesFreedMemory) {
  for (bytes const size :
       {bytes{16}, bytes{64}, bytes{80}, bytes{1024}, bytes{4096}, bytes{24_KiB}, bytes{64_KiB}}) {
    TypeParam const backend{7};
    heap_options const options{.bytes = 1_MiB, .segment_bytes = 64_KiB};
    auto const heap = backend.make_heap(options);
    constexpr std::uint32_t lanes = 24;
    typename TypeParam::template array<void*> heads(lanes);
    typename TypeParam::template array<std::uint32_t> counts(lanes);
    auto const total = [&] {
      std::uint64_t sum = 0;
      for (std::uint32_t i = 0; i < lanes; ++i) sum += counts.data()[i];
      return sum;
    };
    bytes const requested = is_on(mitigation::canary) ? size - 8 : size;
    backend.run({2, 12}, fill_up{heap.ref(), requested, heads.data(), counts.data()});
    auto const full = total();
    double const share = static_cast<double>(full * size) / static_cast<double>(options.bytes);
    EXPECT_GE(share, size == 24_KiB ? 0.70 : 0.98) << size << " bytes";
    EXPECT_TRUE(heap.audit().empty());
    backend.run({2, 12}, thin_out{heap.ref(), heads.data(), counts.data(), false});
    EXPECT_TRUE(heap.audit().empty());
    backend.run({2, 12}, fill_up{heap.ref(), requested, heads.data(), counts.data()});
    EXPECT_EQ(total(), full) << size << " bytes: some freed memory was not reused";
    EXPECT_TRUE(heap.audit().empty());
    backend.run({2, 12}, thin_out{heap.ref(), heads.data(), counts.data(), true});
    EXPECT_TRUE(heap.audit().empty());
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

struct run_one_case {
  heap_ref heap;
  std::uint32_t test_case;
  std::uint64_t* result;

  QUARRY_HD void operator()() const {
    switch (test_case) {
      case 0: {  // calloc
        auto* const dirty = static_cast<unsigned char*>(heap.malloc(200));
        for (int i = 0; i < 200; ++i) dirty[i] = 0xff;
        heap.free(dirty);
        auto* const clean = static_cast<unsigned char*>(heap.calloc(20, 10));
        for (int i = 0; i < 200; ++i) result[0] += clean[i];
        result[1] = heap.calloc(~bytes{0}, 16) == nullptr ? 1 : 0;
        heap.free(clean);
        break;
      }
      case 1: {  // realloc
        auto* p = static_cast<std::uint32_t*>(heap.realloc(nullptr, 64));
        for (std::uint32_t i = 0; i < 16; ++i) p[i] = i * 3;
        auto* const shrunk = static_cast<std::uint32_t*>(heap.realloc(p, 60));
        result[0] = shrunk == p ? 1 : 0;
        p = static_cast<std::uint32_t*>(heap.realloc(shrunk, 100000));
        result[1] = 1;
        for (std::uint32_t i = 0; i < 16; ++i) result[1] = result[1] == 1 && p[i] == i * 3 ? 1 : 0;
        result[2] = heap.realloc(p, bytes{1} << 40) == nullptr && p[5] == 15 ? 1 : 0;
        p = static_cast<std::uint32_t*>(heap.realloc(p, 16));
        result[3] = p[3] == 9 ? 1 : 0;
        heap.free(p);
        break;
      }
      case 2: {  // aligned_malloc
        result[0] = 1;
        for (bytes alignment = 1; alignment <= 65536; alignment *= 2) {
          void* const p = heap.aligned_malloc(alignment, 40);
          if (p == nullptr || reinterpret_cast<std::uintptr_t>(p) % alignment != 0) result[0] = 0;
          heap.free(p);
        }
        result[1] = heap.aligned_malloc(48, 40) == nullptr ? 1 : 0;
        result[2] = heap.aligned_malloc(131072, 40) == nullptr ? 1 : 0;
        break;
      }
      case 3: {  // usable_size, owns, sized free
        void* const p = heap.malloc(100);
        result[0] = heap.usable_size(p);
        result[1] = heap.owns(p) && !heap.owns(&heap) ? 1 : 0;
        heap.free(p, 4000);  // too large: refused
        heap.free(p, 100);
        break;
      }
      case 4: {  // double free, interior and foreign pointers, of a slice and of segments
        auto* const p = static_cast<char*>(heap.malloc(64));
        heap.free(p + 16);
        heap.free(p);
        heap.free(p);
        auto* const q = static_cast<char*>(heap.malloc(200000));
        heap.free(q + 65536);
        heap.free(q + 1);
        heap.free(q);
        heap.free(q);
        heap.free(reinterpret_cast<void*>(std::uintptr_t{64}));
        heap.free(nullptr);
        break;
      }
      case 5: {  // size 0
        void* const p = heap.malloc(0);
        void* const q = heap.malloc(0);
        result[0] = p != nullptr && q != nullptr && p != q ? 1 : 0;
        heap.free(p);
        heap.free(q);
        break;
      }
      default: {  // the largest allocation, and a larger one
        void* const p = heap.malloc(4_MiB - 64);
        result[0] = p != nullptr ? 1 : 0;
        result[1] = heap.malloc(1) == nullptr ? 1 : 0;
        heap.free(p);
        result[2] = heap.malloc(4_MiB + 1) == nullptr ? 1 : 0;
        break;
      }
    }
  }
};

template <class Backend>
std::vector<std::uint64_t> results_of(Backend const& backend, heap const& owner,
                                      std::uint32_t test_case) {
  typename Backend::template array<std::uint64_t> result(4);
  backend.run({1, 1}, run_one_case{owner.ref(), test_case, result.data()});
  return {result.data(), result.data() + 4};
}

TYPED_TEST(HeapRef, CallocReturnsZeroesAndRefusesAnOverflow) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const result = results_of(backend, heap, 0);
  EXPECT_EQ(result[0], 0u);
  EXPECT_EQ(result[1], 1u);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(HeapRef, ReallocKeepsTheContentsAndKeepsTheOldAllocationOnFailure) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const result = results_of(backend, heap, 1);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(result[i], 1u) << "step " << i;
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(HeapRef, AlignsToPowersOfTwoUpToASegment) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const result = results_of(backend, heap, 2);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(result[i], 1u) << "step " << i;
  EXPECT_EQ(heap.fault_count(fault_kind::bad_alignment), 2u);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(HeapRef, ReportsUsableSizesAndRefusesAFreeWithAWrongSize) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const result = results_of(backend, heap, 3);
  EXPECT_GE(result[0], 100u);
  EXPECT_LE(result[0], 112u);
  EXPECT_EQ(result[1], 1u);
  EXPECT_EQ(heap.fault_count(fault_kind::size_mismatch), 1u);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(HeapRef, ReportsDoubleForeignAndInteriorFreesAndChangesNothing) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  (void)results_of(backend, heap, 4);
  EXPECT_EQ(heap.fault_count(fault_kind::double_free), 1u);
  EXPECT_EQ(heap.fault_count(fault_kind::interior_pointer), 3u);
  EXPECT_EQ(heap.fault_count(fault_kind::foreign_pointer), 2u)
      << "an address outside the heap, and a free segment";
  EXPECT_EQ(heap.first_fault()->kind, fault_kind::interior_pointer);
  EXPECT_TRUE(heap.audit().empty());
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(HeapRef, AllocationsOfSizeZeroHaveDistinctAddresses) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  EXPECT_EQ(results_of(backend, heap, 5)[0], 1u);
}

TYPED_TEST(HeapRef, AllocatesTheWholeRegionAtOnceAndNoMore) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  auto const result = results_of(backend, heap, 6);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(result[i], 1u) << "step " << i;
  EXPECT_EQ(heap.fault_count(fault_kind::out_of_memory), 2u);
  EXPECT_TRUE(heap.audit().empty());
}

/// All lanes free one pointer. One free succeeds.
struct free_together {
  heap_ref heap;
  void** pointer;

  QUARRY_HD void operator()() const { heap.free(*pointer); }
};

struct allocate_one {
  heap_ref heap;
  bytes size;
  void** pointer;

  QUARRY_HD void operator()() const { *pointer = heap.malloc(size); }
};

TYPED_TEST(HeapRef, OneOfManyFreesOfOnePointerAtOnceSucceeds) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    typename TypeParam::template array<void*> pointer(1);
    backend.run({1, 1}, allocate_one{heap.ref(), 64, pointer.data()});
    backend.run({1, 8}, free_together{heap.ref(), pointer.data()});
    EXPECT_EQ(heap.fault_count(fault_kind::double_free), 7u) << "seed " << seed;
    EXPECT_TRUE(heap.live_allocations().empty());
    EXPECT_TRUE(heap.audit().empty());
  }
}

/// Frees slices a second time after their whole blocks have become free.
struct free_again {
  heap_ref heap;
  void** pointers;

  QUARRY_HD void operator()() const {
    for (int i = 0; i < 4096; ++i) pointers[i] = heap.malloc(16);
    for (int i = 0; i < 4096; ++i) heap.free(pointers[i]);
    for (int i = 0; i < 4096; i += 97) heap.free(pointers[i]);
  }
};

TYPED_TEST(HeapRef, ReportsADoubleFreeInAFreeBlockOrSegment) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(4096);
  backend.run({1, 1}, free_again{heap.ref(), pointers.data()});
  EXPECT_EQ(
      heap.fault_count(fault_kind::double_free) + heap.fault_count(fault_kind::foreign_pointer),
      43u);
  EXPECT_TRUE(heap.audit().empty());
  EXPECT_TRUE(heap.live_allocations().empty());
}

struct group_allocate {
  heap_ref heap;
  void** pointers;

  QUARRY_HD void operator()() const { pointers[simt::this_place().rank()] = heap.malloc_all(96); }
};

TYPED_TEST(HeapRef, MallocAllServesAWarpAtOnce) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointers(64);
  backend.run({2, 32}, group_allocate{heap.ref(), pointers.data()});
  std::set<void*> const distinct(pointers.data(), pointers.data() + 64);
  EXPECT_EQ(distinct.size(), 64u);
  EXPECT_EQ(heap.live_allocations().size(), 64u);
}

struct tree_node {
  QUARRY_HD explicit tree_node(std::uint64_t value) : key{value} {}
  std::uint64_t key;
  tree_node* left = nullptr;
  tree_node* right = nullptr;
};

struct make_objects {
  heap_ref heap;
  std::uint64_t* sum;

  QUARRY_HD void operator()() const {
    auto* const root = heap.make<tree_node>(std::uint64_t{5});
    root->left = heap.make<tree_node>(std::uint64_t{7});
    simt::atomic_ref<std::uint64_t>{*sum}.fetch_add(root->key + root->left->key, simt::relaxed);
    heap.destroy(root->left);
    heap.destroy(root);
    heap.destroy(static_cast<tree_node*>(nullptr));
  }
};

TYPED_TEST(HeapRef, MakesAndDestroysObjects) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<std::uint64_t> sum(1);
  backend.run({1, 32}, make_objects{heap.ref(), sum.data()});
  EXPECT_EQ(sum.data()[0], 32u * 12u);
  EXPECT_TRUE(heap.live_allocations().empty());
}

/// Flips each bit by itself: the bits of the mitigations, then the bits of the layout's version.
TYPED_TEST(HeapRef, RefusesAHeapWithAnotherLayoutVersionOrOtherMitigations) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> pointer(1);
  for (std::uint32_t bit = 0; bit < 7; ++bit) {
    auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(heap.ref());
    halves[1] ^= 1u << bit;
    backend.run({1, 1}, allocate_one{std::bit_cast<heap_ref>(halves), 64, pointer.data()});
    EXPECT_EQ(pointer.data()[0], nullptr);
    EXPECT_EQ(heap.fault_count(fault_kind::wrong_version), bit + 1);
  }
}

}  // namespace quarry::heap_ref_test
