// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/coalescing_heap.hpp"

#include "support/coalescing.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace quarry::test {
namespace coalescing_heap_test {

template <class Ref>
struct allocate_by_way {
  Ref ref;
  std::uint32_t how;
  bytes size;
  void** held;

  QUARRY_HD void operator()() const { held[simt::this_place().rank()] = allocate(ref, how, size); }
};

template <class Ref>
struct free_own {
  Ref ref;
  void** held;

  QUARRY_HD void operator()() const {
    ref.free(held[simt::this_place().rank()]);
    ref.leave();
  }
};

/// Odd lanes use the second of two coalescing heaps, even lanes the first.
template <class Ref>
struct use_one_of_two {
  Ref refs[2];
  std::uint32_t how;
  bool is_freeing;
  unsigned char** held;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    Ref const ref = refs[rank % 2];
    for (std::uint32_t round = 0; round < 2; ++round) {
      unsigned char*& own = held[rank * 2 + round];
      if (is_freeing) {
        free(ref, own, static_cast<unsigned char>(rank));
        continue;
      }
      own = static_cast<unsigned char*>(allocate(ref, how, size));
      for (std::uint32_t i = 0; own != nullptr && i < size; ++i)
        own[i] = static_cast<unsigned char>(rank);
    }
    // What is reserved is for all lanes of a warp, also for those that use the other heap.
    for (Ref const& each : refs) {
      if (is_freeing) each.leave();
    }
  }

 private:
  static constexpr bytes size = 24;

  QUARRY_HD void free(Ref const& ref, unsigned char* own, unsigned char fill) const {
    bool is_right = own != nullptr && ref.usable_size(own) >= size;
    for (std::uint32_t i = 0; is_right && i < size; ++i) is_right = own[i] == fill;
    if (!is_right) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
    ref.free(own);
  }
};

template <class Setting>
struct CoalescingHeap : testing::Test {};
TYPED_TEST_SUITE(CoalescingHeap, settings, setting_names);

template <class Setting>
std::uint32_t served(typename Setting::template array<void*>& held) {
  std::uint32_t result = 0;
  for (void* const one : held) result += one != nullptr ? 1 : 0;
  return result;
}

TYPED_TEST(CoalescingHeap, RefsAreAPointerWide) {
  EXPECT_EQ(sizeof(typename TypeParam::ref_type), 8u);
}

TYPED_TEST(CoalescingHeap, AFullMapIsReportedAndTheOtherKindsStillWork) {
  using ref = typename TypeParam::ref_type;
  for (std::uint64_t const seed : {1u, 2u, 3u}) {
    TypeParam fixture{seed, 16};
    typename TypeParam::template array<void*> held(80);
    typename TypeParam::template array<void*> others(80);
    fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), map_warp, 24, held.data()});
    EXPECT_EQ(served<TypeParam>(held), 16u);
    EXPECT_EQ(fixture.count(fault_kind::table_full), 64u);
    EXPECT_EQ(fixture.count(fault_kind::out_of_memory), 0u);
    for (std::uint32_t const how : {dynamic, header_warp, reserved, slices}) {
      fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), how, 24, others.data()});
      EXPECT_EQ(served<TypeParam>(others), 80u);
      fixture.run({2, 40}, free_own<ref>{fixture.ref(), others.data()});
    }
    fixture.run({2, 40}, free_own<ref>{fixture.ref(), held.data()});
    EXPECT_EQ(fixture.refused(), 0u);
    fixture.expect_empty();
    fixture.run({1, 16}, allocate_by_way<ref>{fixture.ref(), map_warp, 24, held.data()});
    EXPECT_EQ(fixture.count(fault_kind::table_full), 64u) << "what is freed leaves room";
    fixture.run({1, 16}, free_own<ref>{fixture.ref(), held.data()});
    fixture.expect_empty();
  }
}

TYPED_TEST(CoalescingHeap, LanesOfAWarpThatUseTwoHeapsGetMemoryFromTheirOwn) {
  using kernel = use_one_of_two<typename TypeParam::ref_type>;
  for (auto const seed : TypeParam::seeds()) {
    for (std::uint32_t how = 0; how < ways; ++how) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", way " + std::to_string(how));
      TypeParam even{seed}, odd{seed};
      typename TypeParam::template array<unsigned char*> held(160);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      for (bool const is_freeing : {false, true})
        even.run({2, 40},
                 kernel{{even.ref(), odd.ref()}, how, is_freeing, held.data(), wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      for (auto* const one : {&even, &odd}) {
        one->expect_no_fault();
        one->expect_empty();
      }
      if (this->HasFailure()) return;
    }
  }
}

/// Lanes of both may then share a superblock, but a map and rings are one coalescing heap's own.
TYPED_TEST(CoalescingHeap, LanesOfAWarpThatUseTwoHeapsOverOneUpstreamKeepThemApart) {
  using kernel = use_one_of_two<typename TypeParam::ref_type>;
  for (auto const seed : TypeParam::seeds()) {
    for (std::uint32_t how = 0; how < ways; ++how) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", way " + std::to_string(how));
      TypeParam even{seed};
      coalescing_heap const odd{even.upstream().ref(),
                                {.map_capacity = 256, .warps = 16, .where = even.where()}};
      typename TypeParam::template array<unsigned char*> held(160);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      for (bool const is_freeing : {false, true})
        even.run({2, 40},
                 kernel{{even.ref(), odd.ref()}, how, is_freeing, held.data(), wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      even.expect_no_fault();
      EXPECT_FALSE(odd.first_fault());
      even.expect_empty();
      if (this->HasFailure()) return;
    }
  }
}

TYPED_TEST(CoalescingHeap, WithoutMapAndRingsTheseCallsAreRefusedOrServedOtherwise) {
  using ref = typename TypeParam::ref_type;
  TypeParam fixture{1, 0, 0};
  typename TypeParam::template array<void*> held(80);
  fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), map_warp, 24, held.data()});
  EXPECT_EQ(served<TypeParam>(held), 0u);
  EXPECT_EQ(fixture.count(fault_kind::table_full), 80u);
  fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), reserved, 24, held.data()});
  EXPECT_EQ(served<TypeParam>(held), 80u);
  fixture.run({2, 40}, free_own<ref>{fixture.ref(), held.data()});
  fixture.expect_empty();
}

TYPED_TEST(CoalescingHeap, WarpsBeyondItsRingsFallBack) {
  using ref = typename TypeParam::ref_type;
  TypeParam fixture{1, 0, 1};
  typename TypeParam::template array<void*> held(160);
  fixture.run({4, 40}, allocate_by_way<ref>{fixture.ref(), reserved, 24, held.data()});
  EXPECT_EQ(served<TypeParam>(held), 160u);
  fixture.run({4, 40}, free_own<ref>{fixture.ref(), held.data()});
  fixture.expect_no_fault();
  fixture.expect_empty();
}

TYPED_TEST(CoalescingHeap, NoMemoryIsReportedByEachLaneAndLeaksNothing) {
  using ref = typename TypeParam::ref_type;
  for (auto const seed : TypeParam::seeds()) {
    for (std::uint32_t how = 0; how < slices; ++how) {
      TypeParam fixture{seed};
      if constexpr (!TypeParam::tells) fixture.upstream().limit(0);
      typename TypeParam::template array<void*> held(80);
      bytes const size = TypeParam::tells ? bytes{5} << 20 : bytes{100};
      fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), how, size, held.data()});
      EXPECT_EQ(served<TypeParam>(held), 0u);
      EXPECT_EQ(fixture.count(fault_kind::out_of_memory), 80u);
      EXPECT_EQ(fixture.together().first_fault()->size, size);
      if constexpr (TypeParam::tells) {
        fixture.upstream().owner().clear_faults();
      } else {
        fixture.upstream().limit(1000000);
      }
      fixture.expect_empty();
      fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), how, 100, held.data()});
      if (how != reserved) {
        EXPECT_EQ(served<TypeParam>(held), 80u) << "and then there is memory again";
      }
      fixture.run({2, 40}, free_own<ref>{fixture.ref(), held.data()});
      fixture.expect_empty();
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed << " way " << how;
    }
    if (seed == 20) break;
  }
}

TYPED_TEST(CoalescingHeap, ResetForgetsFaultsAndAllocations) {
  using ref = typename TypeParam::ref_type;
  TypeParam fixture{1, 16};
  typename TypeParam::template array<void*> held(80);
  fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), map_warp, 24, held.data()});
  EXPECT_TRUE(fixture.together().first_fault());
  fixture.run({2, 40}, free_own<ref>{fixture.ref(), held.data()});
  fixture.together().reset();
  EXPECT_FALSE(fixture.together().first_fault());
  EXPECT_EQ(fixture.count(fault_kind::table_full), 0u);
  fixture.run({1, 16}, allocate_by_way<ref>{fixture.ref(), map_warp, 24, held.data()});
  EXPECT_FALSE(fixture.together().first_fault()) << "the map is empty again";
  fixture.run({1, 16}, free_own<ref>{fixture.ref(), held.data()});
  fixture.expect_empty();
}

/// What was in use when both were reset must not be seen in what is allocated at the same
/// addresses, whose bytes nobody wrote.
TYPED_TEST(CoalescingHeap, AfterAResetOfBothNothingIsMistakenForWhatWasThere) {
  if constexpr (TypeParam::tells) {
    using ref = typename TypeParam::ref_type;
    for (std::uint32_t const before : {header_warp, map_warp, dynamic}) {
      for (std::uint32_t how = 0; how < ways; ++how) {
        for (bytes const size : {bytes{1}, bytes{12}, bytes{24}, bytes{32}}) {
          TypeParam fixture{size};
          typename TypeParam::template array<void*> held(80);
          fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), before, 24, held.data()});
          fixture.upstream().owner().reset();
          fixture.together().reset();
          fixture.run({2, 40}, allocate_by_way<ref>{fixture.ref(), how, size, held.data()});
          fixture.run({2, 40}, free_own<ref>{fixture.ref(), held.data()});
          fixture.expect_no_fault();
          fixture.expect_empty();
          ASSERT_FALSE(this->HasFailure())
              << "way " << how << " after " << before << " size " << size;
        }
      }
    }
  }
}

/// Each lane reserves and leaves, as a kernel does whose lanes end at different times.
template <class Ref>
struct reserve_and_leave {
  Ref ref;
  void** held;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    held[rank] = ref.malloc_reserved(20);  // 48 bytes from part to part; 24 if it falls back
    ref.leave();
  }
};

TYPED_TEST(CoalescingHeap, LanesThatLeftReserveAgainOnceTheHostSaysSo) {
  using ref = typename TypeParam::ref_type;
  TypeParam fixture;
  typename TypeParam::template array<void*> held(4);
  auto const lie_side_by_side = [&] {
    fixture.run({1, 4}, reserve_and_leave<ref>{fixture.ref(), held.data()});
    std::uint32_t beside = 0;
    for (std::size_t i = 1; i < 4; ++i)
      beside += static_cast<char*>(held[i]) - static_cast<char*>(held[i - 1]) == 48 ? 1 : 0;
    fixture.run({1, 4}, free_own<ref>{fixture.ref(), held.data()});
    fixture.expect_no_fault();
    fixture.expect_empty();
    return beside == 3;
  };
  if (fixture.name().starts_with("threads"))
    GTEST_SKIP() << "lanes of one warp come one by one, and the first may leave too early";
  (void)lie_side_by_side();
  EXPECT_FALSE(lie_side_by_side()) << "all have left";
  fixture.together().reset_reserved();
  bool again = false;
  for (int round = 0; round < 20 && !again; ++round) {
    again = lie_side_by_side();
    fixture.together().reset_reserved();
  }
  EXPECT_TRUE(again);
}

TEST(CoalescingHeapOptions, RefusesAMapThatIsTooLarge) {
  EXPECT_THROW(
      (coalescing_heap<platform_malloc_heap>{
          platform_malloc_heap{}, {.map_capacity = (1u << 31) + 1, .where = backend::cpu}}),
      std::invalid_argument);
}

TEST(CoalescingHeapOptions, RoundsTheMapUpToAPowerOfTwo) {
  coalescing_heap<platform_malloc_heap> const one{platform_malloc_heap{},
                                                  {.map_capacity = 100, .where = backend::cpu}};
  EXPECT_FALSE(one.first_fault());
}

}  // namespace coalescing_heap_test
}  // namespace quarry::test
