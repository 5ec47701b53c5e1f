// SPDX-License-Identifier: Apache-2.0
// Each mitigation has a kernel that must cause exactly one kind of fault record. Builds without the
// mitigation, or without any mitigation, run the same kernels and must record nothing. This shows
// that the mitigation finds the error.
#include "quarry/device/detail/hardening.hpp"

#include "support/backends.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace quarry {

using namespace detail;
namespace hardening_test {

constexpr bool has_canary = is_on(mitigation::canary);
constexpr bool has_poison = is_on(mitigation::poison);
constexpr bool has_quarantine = is_on(mitigation::quarantine);
constexpr bool has_random_start = is_on(mitigation::random_start);

constexpr heap_options small{.bytes = 4_MiB, .segment_bytes = 64_KiB, .seed = 42};
constexpr heap_options one_segment{.bytes = 64_KiB, .segment_bytes = 64_KiB, .seed = 42};

/// Fails the test unless the heap recorded `count` faults of this kind and no fault of another
/// kind.
void expect_only(heap const& checked, fault_kind kind, std::uint64_t count) {
  for (auto i = 1u; i < static_cast<std::uint32_t>(fault_kind::count_); ++i) {
    auto const other = static_cast<fault_kind>(i);
    EXPECT_EQ(checked.fault_count(other), other == kind ? count : 0u) << name_of(other);
  }
  EXPECT_EQ(checked.first_fault().value_or(fault{}).kind, count == 0 ? fault_kind::none : kind);
}

void expect_none(heap const& checked) { expect_only(checked, fault_kind::none, 0); }

template <class Backend>
struct Hardening : testing::Test {};
TYPED_TEST_SUITE(Hardening, test::backends, test::backend_names);

TEST(Hardening, AddsEightBytesForTheCanaryAndNoneWithoutIt) {
  EXPECT_EQ(hardening::padded(100), has_canary ? 108u : 100u);
  EXPECT_EQ(hardening::usable(112), has_canary ? 104u : 112u);
  EXPECT_EQ(hardening::padded(~bytes{0} - 3), ~bytes{0} - 3) << "the sum does not wrap around";
}

/// Flips bits of one byte at `distance` from the end of the usable bytes.
struct write_at_the_end {
  heap_ref heap;
  bytes size;
  std::int64_t distance;
  std::uint32_t flipped;

  QUARRY_HD void operator()() const {
    auto* const p = static_cast<unsigned char*>(heap.malloc(size));
    auto* const target = p + heap.usable_size(p) + distance;
    *target = static_cast<unsigned char>(*target ^ flipped);
    heap.free(p);
  }
};

TYPED_TEST(Hardening, CanaryDetectsAWriteOneByteBeyondTheEnd) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  backend.run({1, 1}, write_at_the_end{heap.ref(), 40, 0, 1});
  expect_only(heap, fault_kind::overrun, has_canary ? 1 : 0);
  EXPECT_TRUE(heap.audit().empty());
  EXPECT_TRUE(heap.live_allocations().empty()) << "the free still releases the memory";
}

TYPED_TEST(Hardening, CanaryDetectsAWriteOneByteBeyondWholeSegments) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  // Without a canary the byte would belong to the next segment.
  backend.run({1, 1}, write_at_the_end{heap.ref(), 100'000, has_canary ? 0 : -1, 1});
  expect_only(heap, fault_kind::overrun, has_canary ? 1 : 0);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(Hardening, CanaryDetectsExactlyTheWritesIntoItsEightBytes) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::dice random{seed};
    TypeParam const backend{seed};
    auto const heap = backend.make_heap(small);
    auto const distance = static_cast<std::int64_t>(random.below(16)) - 8;
    std::uint32_t const flipped = 1 + random.below(255);
    backend.run({1, 1}, write_at_the_end{heap.ref(), random.below(2000), distance, flipped});
    expect_only(heap, fault_kind::overrun, has_canary && distance >= 0 ? 1 : 0);
  }
}

/// Frees the slice after its own slice. No lane has allocated that slice.
struct free_unallocated_slice {
  heap_ref heap;
  void** own;
  std::uint32_t* damaged;

  QUARRY_HD void operator()() const {
    auto* const p = static_cast<char*>(heap.malloc(40));
    auto* const next = reinterpret_cast<std::uint32_t*>(p + 48);
    for (int i = 0; i < 12; ++i) next[i] = 77;
    heap.free(next);
    for (int i = 0; i < 12; ++i) *damaged += next[i] == 77 ? 0 : 1;
    *own = p;
  }
};

TYPED_TEST(Hardening, CanaryDetectsAFreeOfAnUnallocatedSliceAndChangesNothing) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> own(1);
  typename TypeParam::template array<std::uint32_t> damaged(1);
  backend.run({1, 1}, free_unallocated_slice{heap.ref(), own.data(), damaged.data()});
  expect_only(heap, fault_kind::double_free, has_canary ? 1 : 0);
  EXPECT_EQ(damaged.data()[0], 0u);
  if (!has_canary) return;  // without a canary the heap accepts this free
  EXPECT_TRUE(heap.audit().empty());
  ASSERT_EQ(heap.live_allocations().size(), 1u);
  EXPECT_EQ(heap.live_allocations()[0].address, own.data()[0]);
}

/// Writes to a freed slice, and then allocates all `slices` slices of this size, so that it gets
/// the freed slice again. Keeps one slice allocated, so that the segment stays in use.
struct write_after_free {
  heap_ref heap;
  bytes size;
  std::uint32_t slices;
  bytes offset;

  QUARRY_HD void operator()() const {
    void* const kept = heap.malloc(size);
    auto* const p = static_cast<char*>(heap.malloc(size));
    heap.free(p);
    p[offset] = 1;
    void* other_slices[16];
    for (std::uint32_t i = 1; i < slices; ++i) other_slices[i] = heap.malloc(size);
    for (std::uint32_t i = 1; i < slices; ++i) heap.free(other_slices[i]);
    heap.free(kept);
  }
};

TYPED_TEST(Hardening, PoisonDetectsAWriteAfterFree) {
  for (bytes const offset : {0, 8, 4087}) {
    SCOPED_TRACE("offset " + std::to_string(offset));
    TypeParam const backend;
    auto const heap = backend.make_heap(one_segment);
    backend.run({1, 1}, write_after_free{heap.ref(), 4088, 16, offset});
    expect_only(heap, fault_kind::use_after_free, has_poison ? 1 : 0);
    EXPECT_TRUE(heap.audit().empty());
  }
}

TYPED_TEST(Hardening, PoisonDetectsAWriteToMemoryThatIsTooLargeForTheQuarantine) {
  TypeParam const backend;
  auto const heap = backend.make_heap(one_segment);
  backend.run({1, 1}, write_after_free{heap.ref(), 20'000, 3, 100});
  expect_only(heap, fault_kind::use_after_free, has_poison ? 1 : 0);
}

/// Writes to freed memory, at its data or its mark. Then frees other allocations until that memory
/// leaves the quarantine.
struct write_in_quarantine {
  heap_ref heap;
  bytes offset;

  QUARRY_HD void operator()() const {
    auto* const p = static_cast<char*>(heap.malloc(40));
    heap.free(p);
    p[offset] = 1;
    for (std::uint32_t i = 0; i < quarantine_entries; ++i) heap.free(heap.malloc(40));
  }
};

TYPED_TEST(Hardening, PoisonDetectsAWriteAfterFreeWhenTheMemoryLeavesTheQuarantine) {
  for (bytes const offset : {0, 39, 40}) {
    SCOPED_TRACE("offset " + std::to_string(offset));
    TypeParam const backend;
    auto const heap = backend.make_heap(small);
    backend.run({1, 1}, write_in_quarantine{heap.ref(), offset});
    expect_only(heap, fault_kind::use_after_free, has_poison && has_quarantine ? 1 : 0);
  }
}

struct allocate {
  heap_ref heap;
  bytes size;
  void** pointers;

  QUARRY_HD void operator()() const { pointers[simt::this_place().rank()] = heap.malloc(size); }
};

/// Reuses memory across classes, whole segments and resets. Each lane writes only to its own
/// memory.
struct reuse_memory {
  heap_ref heap;
  std::uint32_t seed;
  std::uint32_t steps;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    std::uint32_t random = mix(seed * 7919 + rank);
    void* held[3] = {};
    for (std::uint32_t step = 0; step < steps; ++step) {
      random = mix(random + step);
      void*& pointer = held[random % 3];
      heap.free(pointer);
      bytes const size = random % 7 == 0   ? 70'000
                         : random % 5 == 0 ? 30'000
                                           : bytes{16} << random / 8 % 8;
      pointer = heap.malloc(size - 8);
      if (pointer == nullptr) continue;
      auto* const words = static_cast<std::uint64_t*>(pointer);
      for (bytes i = 0; i < size / 8 - 1; i += random % 4 + 1) words[i] = random;
    }
    for (void* const pointer : held) heap.free(pointer);
  }
};

TYPED_TEST(Hardening, DoesNotMistakeDataOfAnEarlierUseForAWriteAfterFree) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto heap = backend.make_heap({.bytes = 512_KiB, .segment_bytes = 64_KiB, .seed = seed});
    for (int round = 0; round < 3; ++round) {
      backend.run({1, 4}, reuse_memory{heap.ref(), static_cast<std::uint32_t>(seed), 60});
      for (auto i = 2u; i < static_cast<std::uint32_t>(fault_kind::count_); ++i) {
        EXPECT_EQ(heap.fault_count(static_cast<fault_kind>(i)), 0u)
            << name_of(static_cast<fault_kind>(i));
      }
      auto const problems = heap.audit();
      EXPECT_TRUE(problems.empty()) << problems.front();
      EXPECT_TRUE(heap.live_allocations().empty());
      heap.reset();
    }
  }
}

/// Records the results of malloc while each allocation is freed at once. Keeps one slice allocated,
/// so that the segment stays in use.
struct allocate_and_free {
  heap_ref heap;
  std::uint32_t rounds;
  void** pointers;

  QUARRY_HD void operator()() const {
    void* const kept = heap.malloc(40);
    for (std::uint32_t i = 0; i < rounds; ++i) heap.free(pointers[i] = heap.malloc(40));
    heap.free(kept);
  }
};

TYPED_TEST(Hardening, QuarantineDelaysTheReuseOfAnAddressByManyFrees) {
  TypeParam const backend;
  auto const heap = backend.make_heap(one_segment);
  constexpr std::uint32_t rounds = 3000;  // more than the segment has slices
  typename TypeParam::template array<void*> pointers(rounds);
  backend.run({1, 1}, allocate_and_free{heap.ref(), rounds, pointers.data()});
  expect_none(heap);
  std::uint32_t fewest_frees = rounds;
  std::map<void*, std::uint32_t> last;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    auto const [entry, is_new] = last.emplace(pointers.data()[i], i);
    if (!is_new) fewest_frees = std::min(fewest_frees, i - entry->second);
    entry->second = i;
  }
  ASSERT_LT(fewest_frees, rounds) << "no address was reused";
  EXPECT_EQ(fewest_frees > quarantine_entries, has_quarantine)
      << "an address was reused after " << fewest_frees << " frees";
}

struct free_twice {
  heap_ref heap;

  QUARRY_HD void operator()() const {
    void* const p = heap.malloc(40);
    heap.free(p);
    heap.free(p);
  }
};

TYPED_TEST(Hardening, ReportsADoubleFreeWithAndWithoutAQuarantine) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<void*> kept(1);
  backend.run({1, 1}, allocate{heap.ref(), 40, kept.data()});  // keeps the segment in use
  backend.run({1, 1}, free_twice{heap.ref()});
  expect_only(heap, fault_kind::double_free, 1);
  EXPECT_EQ(heap.live_allocations().size(), 1u);
  EXPECT_TRUE(heap.audit().empty());
}

/// Allocates two sizes in a heap of one segment. The second one reclaims the slices of the first
/// that were not allocated, so that they are free although no lane ever freed them.
struct reclaim_slices {
  heap_ref heap;
  void** pointers;

  QUARRY_HD void operator()() const {
    pointers[0] = heap.malloc(40);
    pointers[1] = heap.malloc(1000);
  }
};

/// Frees a slice that is free and was never allocated.
struct free_reclaimed_slice {
  heap_ref heap;
  void** pointers;
  bytes* size;

  QUARRY_HD void operator()() const {
    auto const own = reinterpret_cast<std::uint64_t>(pointers[0]);
    auto const other = reinterpret_cast<std::uint64_t>(pointers[1]);  // perhaps nullptr
    std::uint64_t const segment = own / 65536 * 65536;
    std::uint64_t target = segment + 48 * 200;
    for (; target - own < 48 || target + 2048 - other < 4096; target += 48 * 100) {
    }
    heap.free(reinterpret_cast<void*>(target));
    *size = heap.usable_size(reinterpret_cast<void*>(target));
  }
};

TYPED_TEST(Hardening, DetectsAFreeOfAReclaimedSliceAndChangesNothing) {
  TypeParam const backend;
  auto heap = backend.make_heap(one_segment);
  typename TypeParam::template array<void*> pointers(2);
  typename TypeParam::template array<bytes> size(1);
  backend.run({1, 1}, reclaim_slices{heap.ref(), pointers.data()});
  auto const before = heap.stats();
  heap.clear_faults();
  backend.run({1, 1}, free_reclaimed_slice{heap.ref(), pointers.data(), size.data()});
  expect_only(heap, fault_kind::double_free, has_canary ? 2 : 1);
  EXPECT_EQ(size.data()[0], has_canary ? 0u : 48u);
  EXPECT_EQ(heap.stats().allocations_in_use, before.allocations_in_use);
  EXPECT_EQ(heap.stats().free_slices, before.free_slices);
  EXPECT_TRUE(heap.audit().empty());
}

/// Uses freed memory as if it were allocated. Keeps one slice allocated, so that the segment stays
/// in use.
struct use_freed {
  heap_ref heap;
  bytes* sizes;

  QUARRY_HD void operator()() const {
    auto* const kept = static_cast<char*>(heap.malloc(40));
    void* const p = heap.malloc(40);
    heap.free(p);
    sizes[0] = heap.usable_size(p);
    sizes[1] = heap.usable_size(kept + (p == kept + 48 ? 96 : 48));  // never allocated
    if (has_canary) sizes[2] = heap.realloc(p, 100) == nullptr ? 0 : 1;
    if (has_canary) heap.free(p, 40);
    sizes[3] = heap.usable_size(kept);
  }
};

TYPED_TEST(Hardening, CanaryDetectsTheUseOfFreedMemoryAndChangesNothing) {
  TypeParam const backend;
  auto const heap = backend.make_heap(small);
  typename TypeParam::template array<bytes> sizes(4);
  backend.run({1, 1}, use_freed{heap.ref(), sizes.data()});
  expect_only(heap, fault_kind::double_free, has_canary ? 4 : 0);
  for (std::uint32_t const i : {0u, 1u}) EXPECT_EQ(sizes.data()[i], has_canary ? 0u : 48u) << i;
  EXPECT_EQ(sizes.data()[2], 0u) << "`realloc` does not copy it";
  EXPECT_EQ(sizes.data()[3], has_canary ? 40u : 48u);
  EXPECT_EQ(heap.live_allocations().size(), 1u);
  EXPECT_TRUE(heap.audit().empty());
}

/// Allocates all memory in slices of one size, frees it, and continues with the next size.
struct fill_and_free {
  heap_ref heap;
  std::uint32_t* refused;

  QUARRY_HD void operator()() const {
    constexpr bytes sizes[] = {4088, 4088, 2040, 65'000, 4088};
    for (bytes const size : sizes) {
      void* pointers[16];
      bytes const count = size > 60'000 ? 1 : 16;
      for (bytes i = 0; i < count; ++i) {
        pointers[i] = heap.malloc(size);
        if (pointers[i] == nullptr) ++*refused;
      }
      for (bytes i = 0; i < count; ++i) heap.free(pointers[i]);
    }
  }
};

TYPED_TEST(Hardening, ReusesQuarantinedMemoryWhenNoOtherMemoryIsFree) {
  TypeParam const backend;
  auto const heap = backend.make_heap(one_segment);
  typename TypeParam::template array<std::uint32_t> refused(1);
  backend.run({1, 1}, fill_and_free{heap.ref(), refused.data()});
  EXPECT_EQ(refused.data()[0], 0u);
  expect_none(heap);
  EXPECT_TRUE(heap.live_allocations().empty());
  EXPECT_TRUE(heap.audit().empty());
}

/// Finds the segment of the first allocation, counted from the start of the region.
struct find_the_first {
  heap_ref heap;
  std::uint64_t* segments;

  QUARRY_HD void operator()() const {
    auto const* const p = static_cast<char const*>(heap.malloc(40));
    for (*segments = 0; heap.owns(p - (*segments + 1) * 65536);) ++*segments;
  }
};

TYPED_TEST(Hardening, RandomStartPlacesTheFirstAllocationByTheSeed) {
  std::set<std::uint64_t> initial_starts;
  std::set<std::uint64_t> reset_starts;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    TypeParam const backend;
    auto options = small;
    options.seed = seed;
    auto heap = backend.make_heap(options);
    typename TypeParam::template array<std::uint64_t> segments(1);
    backend.run({1, 1}, find_the_first{heap.ref(), segments.data()});
    initial_starts.insert(segments.data()[0]);
    heap.reset();
    backend.run({1, 1}, find_the_first{heap.ref(), segments.data()});
    reset_starts.insert(segments.data()[0]);
    expect_none(heap);
  }
  EXPECT_EQ(initial_starts.size() > 1, has_random_start);
  EXPECT_EQ(reset_starts.size() > 1, has_random_start);
}

}  // namespace hardening_test
}  // namespace quarry
