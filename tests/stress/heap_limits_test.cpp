// SPDX-License-Identifier: Apache-2.0
// The heap at its limits: full, idle after use, and used by a program that frees twice.
#include "support/backends.hpp"

namespace quarry {
namespace heap_limits_test {

using namespace test;

template <class Backend>
constexpr bool is_gpu =
    !std::is_same_v<Backend, threads_backend> && !std::is_same_v<Backend, fibers_backend> &&
    !std::is_same_v<Backend, together_backend>;

/// The seeds of the back end; on the CPU a quarter of them, because these tests take long.
template <class Backend>
std::vector<std::uint64_t> some_seeds() {
  auto seeds = Backend::seeds();
  if (!is_gpu<Backend>) seeds.resize((seeds.size() + 3) / 4);
  return seeds;
}

/// Lanes replace pointers of a table and free some of them a second time, while other lanes
/// allocate the memory again.
struct free_twice {
  heap_ref heap;
  std::uint64_t* table;
  std::uint32_t places;
  std::uint32_t turns;
  std::uint32_t seed;

  QUARRY_HD void operator()() const {
    std::uint32_t random = mix(static_cast<std::uint32_t>(simt::this_place().rank()) * 977 + seed);
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
      random = mix(random + turn);
      simt::atomic_ref<std::uint64_t> place{table[random % places]};
      if ((random >> 20) % 3 == 0) {
        heap.free(reinterpret_cast<void*>(place.load(simt::relaxed)));  // stays in the table
        continue;
      }
      std::uint32_t const kind = random >> 24 & 15;
      bytes const size = kind < 10 ? 16u << kind % 5 : kind < 15 ? 20'000u : 200'000u;
      auto const fresh = reinterpret_cast<std::uint64_t>(heap.malloc(size));
      heap.free(reinterpret_cast<void*>(place.exchange(fresh, simt::acq_rel)));
    }
  }
};

/// Allocates and frees `each` slices of each of many classes.
struct use_classes {
  heap_ref heap;
  std::uint32_t classes;
  std::uint32_t each;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = simt::this_place().rank();
    if (rank >= std::uint64_t{classes} * each) return;
    heap.free(heap.malloc(size_of_class(static_cast<size_class>(rank % classes)) - 8));
  }
};

struct allocate_one {
  heap_ref heap;
  bytes size;
  std::uint64_t* pointer;
  QUARRY_HD void operator()() const {
    *pointer = reinterpret_cast<std::uint64_t>(heap.malloc(size));
  }
};

/// Each lane allocates until its place in `pointers` is set, at most `turns` times.
struct allocate_each {
  heap_ref heap;
  bytes size;
  std::uint64_t* pointers;
  std::uint32_t turns;
  QUARRY_HD void operator()() const {
    std::uint64_t& own = pointers[simt::this_place().rank()];
    for (std::uint32_t turn = 0; turn < turns && own == 0; ++turn)
      own = reinterpret_cast<std::uint64_t>(heap.malloc(size));
  }
};

struct free_each {
  heap_ref heap;
  std::uint64_t* pointers;
  QUARRY_HD void operator()() const {
    std::uint64_t& own = pointers[simt::this_place().rank()];
    heap.free(reinterpret_cast<void*>(own));
    own = 0;
  }
};

/// Even lanes allocate from a full heap, odd lanes from a roomy one. A lane counts what it got.
struct use_two_heaps {
  heap_ref full;
  heap_ref roomy;
  std::uint32_t turns;
  std::uint32_t* successes;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = simt::this_place().rank();
    heap_ref const heap = rank % 2 == 0 ? full : roomy;
    std::uint32_t random = mix(static_cast<std::uint32_t>(rank) + 1);
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
      random = mix(random);
      void* const pointer = heap.malloc(16u << random % 6);
      successes[rank] += pointer != nullptr;
      heap.free(pointer);
    }
  }
};

template <class Backend>
struct HeapLimits : testing::Test {};
TYPED_TEST_SUITE(HeapLimits, backends, backend_names);

TYPED_TEST(HeapLimits, FreesThatRaceWithASecondFreeAreReportedAndHarmOnlyTheHeap) {
  constexpr simt::grid lanes = is_gpu<TypeParam> ? simt::grid{132, 128} : simt::grid{2, 64};
  constexpr std::uint32_t places = lanes.blocks * lanes.threads;
  std::uint64_t reported = 0;
  for (auto const seed : some_seeds<TypeParam>()) {
    TypeParam const backend{seed};
    auto owner =
        backend.make_heap({.bytes = is_gpu<TypeParam> ? 32_MiB : 1_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint64_t> table(places);
    backend.run(lanes, free_twice{owner.ref(), table.data(), places, is_gpu<TypeParam> ? 200u : 40u,
                                  static_cast<std::uint32_t>(seed)});
    reported += owner.fault_count(fault_kind::double_free);
    owner.reset();
    owner.clear_faults();
    typename TypeParam::template array<std::uint64_t> pointers(128);
    backend.run(small_grid, allocate_each{owner.ref(), 100, pointers.data(), 1});
    backend.run(small_grid, free_each{owner.ref(), pointers.data()});
    expect_sound_and_empty(owner);
  }
  EXPECT_GT(reported, 0u);
}

TYPED_TEST(HeapLimits, AnIdleHeapIsAllocatedWholeByTheFirstCall) {
  std::vector<heap_options> sizes{{.bytes = 16_MiB, .segment_bytes = 64_KiB}};
  if (is_gpu<TypeParam>) {
    sizes.push_back({.bytes = 2_GiB, .segment_bytes = 4_MiB});
    sizes.push_back({.bytes = 8_GiB, .segment_bytes = 64_MiB});
  }
  for (heap_options const& options : sizes) {
    for (std::uint32_t const each : {1u, is_gpu<TypeParam> ? 4096u : 8u}) {
      TypeParam const backend{1};
      auto const owner = backend.make_heap(options);
      auto const classes = size_class_of(static_cast<std::uint32_t>(options.segment_bytes / 2));
      backend.run({(classes * each + 63) / 64, 64}, use_classes{owner.ref(), classes, each});
      typename TypeParam::template array<std::uint64_t> pointer(1);
      backend.run(
          {}, allocate_one{owner.ref(), detail::hardening::usable(options.bytes), pointer.data()});
      EXPECT_NE(pointer[0], 0u) << options.bytes << " bytes, " << each << " of each class";
      expect_sound(owner);
    }
  }
}

/// Nearly all calls are refused. As soon as memory is free, every lane gets its part again.
TYPED_TEST(HeapLimits, AFullHeapRefusesManyLanesAndServesThemAfterTheNextFree) {
  for (auto const seed : some_seeds<TypeParam>()) {
    constexpr simt::grid lanes = is_gpu<TypeParam> ? simt::grid{132, 256} : simt::grid{2, 64};
    constexpr std::uint64_t count = std::uint64_t{lanes.blocks} * lanes.threads;
    TypeParam const backend{seed};
    auto const owner = backend.make_heap({.bytes = 256_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint64_t> first(count);
    typename TypeParam::template array<std::uint64_t> second(count);
    for (bytes const size : {bytes{4000}, bytes{16}, bytes{600}}) {
      backend.run(lanes, allocate_each{owner.ref(), size, first.data(), 4});
      backend.run(lanes, allocate_each{owner.ref(), size, second.data(), 4});
      auto const is_set = [](std::uint64_t pointer) { return pointer != 0; };
      auto const got = std::count_if(first.begin(), first.end(), is_set) +
                       std::count_if(second.begin(), second.end(), is_set);
      ASSERT_GT(got, 0);
      backend.run(lanes, free_each{owner.ref(), first.data()});
      backend.run(lanes, free_each{owner.ref(), second.data()});
      backend.run(lanes, allocate_each{owner.ref(), size, first.data(), 4});
      backend.run(lanes, allocate_each{owner.ref(), size, second.data(), 4});
      ASSERT_EQ(std::count_if(first.begin(), first.end(), is_set) +
                    std::count_if(second.begin(), second.end(), is_set),
                got)
          << size << " bytes, seed " << seed;
      backend.run(lanes, free_each{owner.ref(), first.data()});
      backend.run(lanes, free_each{owner.ref(), second.data()});
    }
    expect_sound(owner);
    ASSERT_EQ(owner.fault_count(fault_kind::stalled), 0u);
  }
}

TYPED_TEST(HeapLimits, AFullHeapDoesNotDisturbAnotherHeapOfTheSameWarps) {
  for (auto const seed : some_seeds<TypeParam>()) {
    constexpr simt::grid lanes = is_gpu<TypeParam> ? simt::grid{132, 256} : simt::grid{2, 64};
    constexpr std::uint32_t turns = is_gpu<TypeParam> ? 50 : 8;
    TypeParam const backend{seed};
    auto const full = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    auto const roomy =
        backend.make_heap({.bytes = is_gpu<TypeParam> ? 256_MiB : 4_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint64_t> whole(1);
    backend.run({},
                allocate_one{full.ref(), detail::hardening::usable(bytes{1_MiB}), whole.data()});
    ASSERT_NE(whole[0], 0u);
    typename TypeParam::template array<std::uint32_t> successes(lanes.blocks * lanes.threads);
    backend.run(lanes, use_two_heaps{full.ref(), roomy.ref(), turns, successes.data()});
    for (std::size_t rank = 0; rank < successes.size(); ++rank)
      ASSERT_EQ(successes[rank], rank % 2 == 0 ? 0 : turns) << "lane " << rank << ", seed " << seed;
    expect_sound(full);
    expect_sound_and_empty(roomy);
  }
}

}  // namespace heap_limits_test
}  // namespace quarry
