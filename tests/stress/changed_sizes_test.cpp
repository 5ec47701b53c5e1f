// SPDX-License-Identifier: Apache-2.0
// Lanes change their sizes over time, with half of the heap in use.
#include "quarry/device/detail/other_classes.hpp"

#include "support/backends.hpp"
#include "support/shadow.hpp"

#include <gtest/gtest.h>

namespace quarry {

using detail::other_classes;
namespace changed_sizes_test {

/// Each lane replaces allocations in places of its own. The sizes change over time, so that classes
/// that are in use no more hold most of the memory.
struct change_sizes {
  heap_ref heap;
  test::shadow_map shadow;
  void** places;
  bytes* sizes;
  std::uint32_t places_each;
  std::uint32_t steps;
  std::uint32_t* overlaps;
  std::uint32_t* requests;
  std::uint32_t* refused;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    std::uint32_t random = mix(rank + 1);
    for (std::uint32_t largest = 64; largest <= 4096; largest *= 4) {
      for (std::uint32_t step = 0; step < steps; ++step) {
        random = mix(random + step);
        std::uint32_t const place = rank * places_each + random % places_each;
        if (places[place] != nullptr) {
          overlaps[rank] += shadow.unmark(places[place], sizes[place]);
          heap.free(places[place]);
        }
        sizes[place] = 1 + mix(random) % largest;
        // few places are in use while sizes are large, so that half of the heap is requested
        bool const is_used = random % places_each < places_each * 64 / largest + 1;
        places[place] = is_used ? heap.malloc(sizes[place]) : nullptr;
        if (places[place] != nullptr) overlaps[rank] += shadow.mark(places[place], sizes[place]);
        requests[rank] += is_used ? 1 : 0;
        refused[rank] += is_used && places[place] == nullptr ? 1 : 0;
      }
    }
    for (std::uint32_t i = 0; i < places_each; ++i) {
      void* const last = places[rank * places_each + i];
      if (last == nullptr) continue;
      overlaps[rank] += shadow.unmark(last, sizes[rank * places_each + i]);
      heap.free(last);
    }
  }
};

template <class Backend>
class ChangedSizes : public testing::Test {};
TYPED_TEST_SUITE(ChangedSizes, test::backends, test::backend_names);

TYPED_TEST(ChangedSizes, AreServedFromTheMemoryOfTheFormerSizes) {
  constexpr std::uint32_t lanes = 32;
  constexpr std::uint32_t places_each = 64;
  auto seeds = TypeParam::seeds();
  if (seeds.size() > 20) seeds.resize(20);
  for (auto const seed : seeds) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 256_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> shadow(
        test::shadow_map::words_for(heap.region_bytes()));
    typename TypeParam::template array<void*> places(lanes * places_each);
    typename TypeParam::template array<bytes> sizes(lanes * places_each);
    typename TypeParam::template array<std::uint32_t> overlaps(lanes), requests(lanes),
        refused(lanes);
    backend.run({2, lanes / 2},
                change_sizes{heap.ref(), test::shadow_map{shadow.data(), heap.region()},
                             places.data(), sizes.data(), places_each, 150, overlaps.data(),
                             requests.data(), refused.data()});
    std::uint32_t wrong = 0;
    std::uint32_t asked = 0;
    std::uint32_t failed = 0;
    for (std::uint32_t i = 0; i < lanes; ++i) {
      wrong += overlaps[i];
      asked += requests[i];
      failed += refused[i];
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_LT(failed, other_classes::joins_slices ? asked / 50 : asked)
        << "a fifth, if classes did not serve each other";
    EXPECT_EQ(heap.fault_count(fault_kind::interior_pointer), 0u);
    EXPECT_EQ(heap.fault_count(fault_kind::double_free), 0u);
    for (auto const& problem : heap.audit()) ADD_FAILURE() << problem;
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

/// Each lane allocates slices of 1 KiB, frees those in the first three quarters of each segment,
/// and then allocates and frees more than half a segment again and again.
struct request_large {
  heap_ref heap;
  test::shadow_map shadow;
  void** places;
  std::uint32_t places_each;
  std::uint32_t* overlaps;
  std::uint32_t* served;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    void** const own = places + rank * places_each;
    for (std::uint32_t i = 0; i < places_each; ++i) {
      own[i] = heap.malloc(small);
      if (own[i] != nullptr) overlaps[rank] += shadow.mark(own[i], small);
    }
    for (std::uint32_t i = 0; i < places_each; ++i) {
      if (reinterpret_cast<std::uint64_t>(own[i]) % 65'536 >= 49'152) continue;
      free(own[i], small, rank);
      own[i] = nullptr;
    }
    for (std::uint32_t i = 0; i < 10; ++i) {
      void* const memory = heap.malloc(large);
      if (memory == nullptr) continue;
      ++served[rank];
      overlaps[rank] += shadow.mark(memory, large);
      free(memory, large, rank);
    }
    for (std::uint32_t i = 0; i < places_each; ++i) free(own[i], small, rank);
  }
  QUARRY_HD void free(void* memory, bytes size, std::uint32_t rank) const {
    if (memory == nullptr) return;
    overlaps[rank] += shadow.unmark(memory, size);
    heap.free(memory);
  }
  static constexpr bytes small = 1000;
  static constexpr bytes large = 40'000;
};

TYPED_TEST(ChangedSizes, AdjacentSlicesServeLargeRequestsOfManyLanes) {
  constexpr std::uint32_t lanes = 32;
  constexpr std::uint32_t places_each = 32;  // 16 segments of 64 slices
  auto seeds = TypeParam::seeds();
  if (seeds.size() > 20) seeds.resize(20);
  for (auto const seed : seeds) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> shadow(
        test::shadow_map::words_for(heap.region_bytes()));
    typename TypeParam::template array<void*> places(lanes * places_each);
    typename TypeParam::template array<std::uint32_t> overlaps(lanes), served(lanes);
    backend.run({2, lanes / 2},
                request_large{heap.ref(), test::shadow_map{shadow.data(), heap.region()},
                              places.data(), places_each, overlaps.data(), served.data()});
    std::uint32_t wrong = 0;
    std::uint32_t all_served = 0;
    for (std::uint32_t i = 0; i < lanes; ++i) {
      wrong += overlaps[i];
      all_served += served[i];
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_GE(all_served, other_classes::joins_slices ? 16u : 0u);
    EXPECT_EQ(heap.fault_count(fault_kind::interior_pointer), 0u);
    EXPECT_EQ(heap.fault_count(fault_kind::double_free), 0u);
    for (auto const& problem : heap.audit()) ADD_FAILURE() << problem;
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

}  // namespace changed_sizes_test
}  // namespace quarry
