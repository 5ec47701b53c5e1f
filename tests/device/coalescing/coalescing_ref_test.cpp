// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/coalescing_ref.hpp"

#include "support/coalescing.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace coalescing_ref_test {

constexpr simt::grid two_blocks{2, 40};  // the last warp of each block has 8 lanes
constexpr std::uint32_t lanes_of_two_blocks = 80;

/// The value that a lane with this rank writes into byte `i` of its allocation. It is `fill` if
/// `fill` is less than 256.
QUARRY_HD unsigned char byte_of(std::uint32_t fill, std::uint64_t rank, std::uint64_t i) {
  return static_cast<unsigned char>(fill < 256 ? fill : rank * 31 + i);
}
constexpr std::uint32_t own_bytes = 256;

QUARRY_HD void count(std::uint32_t* wrong, bool is_wrong) {
  if (is_wrong) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
}

/// Each lane makes one allocation and fills it.
template <class Ref>
struct allocate_one_each {
  Ref ref;
  std::uint32_t method;
  bytes size;
  std::uint32_t fill;
  unsigned char** held;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    held[rank] = static_cast<unsigned char*>(allocate(ref, method, size));
    for (bytes i = 0; held[rank] != nullptr && i < size; ++i)
      held[rank][i] = byte_of(fill, rank, i);
    ref.leave();
  }
};

/// Each lane frees the allocation of another lane, if `mask` and `value` choose the other lane's
/// rank.
template <class Ref>
struct free_another {
  Ref ref;
  bytes size;
  std::uint32_t fill;
  unsigned char** held;
  std::uint32_t mask;
  std::uint32_t value;
  bool is_live;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    auto const rank = (place.rank() * 7 + 3) % place.count();
    if ((rank & mask) != value || held[rank] == nullptr) return;
    for (bytes i = 0; is_live && i < size; ++i)
      count(wrong, held[rank][i] != byte_of(fill, rank, i));
    ref.free(held[rank]);
  }
};

/// Each lane has some allocations of all methods, fills them with its own pattern, and checks them
/// before it frees them.
template <class Ref>
struct churn {
  Ref ref;
  std::uint32_t seed;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    constexpr std::uint32_t places = 3;
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    unsigned char* held[places] = {};
    std::uint32_t sizes[places] = {};
    for (std::uint32_t step = 0; step < 24; ++step) {
      std::uint32_t const method = mix(step + seed) % methods;
      std::uint32_t const size = mix(method == dynamic ? rank * 100 + step : step + 7 + seed) % 120;
      std::uint32_t const place = mix(rank + step) % places;
      if (held[place] != nullptr) {
        for (std::uint32_t i = 0; i < sizes[place]; ++i)
          count(wrong, held[place][i] != byte_of(own_bytes, rank + place, i));
        ref.free(held[place]);
      }
      held[place] = static_cast<unsigned char*>(allocate(ref, method, size));
      sizes[place] = size;
      count(wrong, held[place] == nullptr);
      if (held[place] == nullptr) continue;
      count(wrong, ref.usable_size(held[place]) < size);
      for (std::uint32_t i = 0; i < size; ++i) held[place][i] = byte_of(own_bytes, rank + place, i);
    }
    for (auto* pointer : held) ref.free(pointer);
    ref.leave();
  }
};

template <class Setting>
struct CoalescingRef : testing::Test {};
TYPED_TEST_SUITE(CoalescingRef, settings, setting_names);

TYPED_TEST(CoalescingRef, AllocationsOfAllMethodsLiveTogether) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam fixture{seed};
    typename TypeParam::template array<std::uint32_t> wrong(1);
    fixture.run(two_blocks, churn<typename TypeParam::ref_type>{
                                fixture.ref(), static_cast<std::uint32_t>(seed), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    fixture.expect_no_fault();
    fixture.expect_empty();
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(CoalescingRef, AnyLaneOfALaterKernelFreesALanesAllocation) {
  for (std::uint32_t method = 0; method < methods; ++method) {
    for (bytes const size : {bytes{0}, bytes{1}, bytes{14}, bytes{24}, bytes{100}, bytes{400}}) {
      TypeParam fixture{size + method};
      typename TypeParam::template array<unsigned char*> held(lanes_of_two_blocks);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      using ref = typename TypeParam::ref_type;
      fixture.run(two_blocks,
                  allocate_one_each<ref>{fixture.ref(), method, size, own_bytes, held.data()});
      for (std::uint32_t parity = 0; parity < 2; ++parity)
        fixture.run(two_blocks, free_another<ref>{fixture.ref(), size, own_bytes, held.data(), 1,
                                                  parity, true, wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      fixture.expect_no_fault();
      fixture.expect_empty();
      ASSERT_FALSE(this->HasFailure()) << "method " << method << " size " << size;
    }
  }
}

/// Contents of neighbours that a free could mistake for a header. ThreadSanitizer looks for races,
/// which do not depend on the contents.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t header_like_fills[] = {own_bytes};
#else
constexpr std::uint32_t header_like_fills[] = {own_bytes, 0x00, 0x04, 0x08, 0x0e, 0x0c, 0xff};
#endif

TYPED_TEST(CoalescingRef, ADoubleFreeIsReportedAndChangesNothing) {
  if (!TypeParam::can_tell())
    GTEST_SKIP()
        << "this upstream reports it only while the superblock lives; other tests check that";
  using ref = typename TypeParam::ref_type;
  for (std::uint32_t method = 0; method < methods; ++method) {
    for (std::uint32_t const fill : header_like_fills) {
      for (bytes const size : {bytes{8}, bytes{14}, bytes{16}, bytes{24}, bytes{40}, bytes{96}}) {
        TypeParam fixture{size};
        typename TypeParam::template array<unsigned char*> held(lanes_of_two_blocks);
        typename TypeParam::template array<std::uint32_t> wrong(1);
        fixture.run(two_blocks,
                    allocate_one_each<ref>{fixture.ref(), method, size, fill, held.data()});
        fixture.run(two_blocks, free_another<ref>{fixture.ref(), size, fill, held.data(), 1, 0,
                                                  true, wrong.data()});
        fixture.expect_no_fault();
        fixture.run(two_blocks, free_another<ref>{fixture.ref(), size, fill, held.data(), 1, 0,
                                                  false, wrong.data()});
        EXPECT_EQ(fixture.refused() + fixture.upstream().faults(), lanes_of_two_blocks / 2);
        EXPECT_EQ(fixture.upstream().faults(), 0u);
        fixture.run(two_blocks, free_another<ref>{fixture.ref(), size, fill, held.data(), 1, 1,
                                                  true, wrong.data()});
        EXPECT_EQ(wrong[0], 0u) << "a neighbour's bytes changed";
        EXPECT_EQ(fixture.refused(), lanes_of_two_blocks / 2);
        fixture.expect_empty();
        ASSERT_FALSE(this->HasFailure())
            << "method " << method << " fill " << fill << " size " << size;
      }
    }
  }
}

/// All lanes free one allocation at once.
template <class Ref>
struct free_one_together {
  Ref ref;
  unsigned char** held;

  QUARRY_HD void operator()() const { ref.free(held[5]); }
};

TYPED_TEST(CoalescingRef, OneOfTheLanesThatFreeOneAllocationAtOnceSucceeds) {
  if (!TypeParam::can_tell())
    GTEST_SKIP() << "this upstream reports it only while the superblock lives";
  using ref = typename TypeParam::ref_type;
  for (auto const seed : TypeParam::seeds()) {
    for (std::uint32_t method = 0; method < slices; ++method) {
      TypeParam fixture{seed};
      typename TypeParam::template array<unsigned char*> held(16);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      fixture.run({1, 8},
                  allocate_one_each<ref>{fixture.ref(), method, 40, own_bytes, held.data()});
      fixture.run({1, 8}, free_one_together<ref>{fixture.ref(), held.data()});
      EXPECT_EQ(fixture.refused(), 7u);
      held[5] = nullptr;
      fixture.run({1, 8}, free_another<ref>{fixture.ref(), 40, own_bytes, held.data(), 0, 0, true,
                                            wrong.data()});
      EXPECT_EQ(fixture.refused(), 7u);
      EXPECT_EQ(wrong[0], 0u);
      fixture.expect_empty();
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed << " method " << method;
    }
  }
}

/// Frees addresses that no call returned, while each lane has an allocation.
template <class Ref>
struct free_foreign_pointers {
  Ref ref;
  unsigned char** held;
  bool frees_interior_pointers;
  std::uint32_t* attempts;

  QUARRY_HD void operator()() const {
    for (std::uint64_t const address : {1u, 3u, 5u, 4097u, 2u, 4098u}) {
      if (!frees_interior_pointers && address % 2 == 0)
        break;  // a free reads at even addresses if the upstream cannot tell
      ref.free(reinterpret_cast<void*>(address));
      count(attempts, true);
    }
    if (!frees_interior_pointers) return;
    auto const rank = simt::this_place().rank();
    for (std::uint32_t const offset : {1u, 2u, 4u, 8u, 16u, 24u, 32u}) {
      ref.free(held[rank] + offset);
      count(attempts, true);
    }
  }
};

TYPED_TEST(CoalescingRef, AForeignPointerIsReportedAndChangesNothing) {
  using ref = typename TypeParam::ref_type;
  for (std::uint32_t const method : {header_warp, map_warp, reserved}) {
    for (std::uint32_t const fill : header_like_fills) {
      TypeParam fixture{3};
      typename TypeParam::template array<unsigned char*> held(lanes_of_two_blocks);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      typename TypeParam::template array<std::uint32_t> attempts(1);
      fixture.run(two_blocks, allocate_one_each<ref>{fixture.ref(), method, 64, fill, held.data()});
      fixture.run(two_blocks, free_foreign_pointers<ref>{fixture.ref(), held.data(),
                                                         TypeParam::tells && method != reserved,
                                                         attempts.data()});
      EXPECT_EQ(fixture.refused(), attempts[0]);
      fixture.run(two_blocks, free_another<ref>{fixture.ref(), 64, fill, held.data(), 0, 0, true,
                                                wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      EXPECT_EQ(fixture.refused(), attempts[0]);
      fixture.expect_empty();
      ASSERT_FALSE(this->HasFailure()) << "method " << method << " fill " << fill;
    }
  }
}

/// Grows and shrinks by realloc, calls calloc, and makes calls that both refuse. Counts every wrong
/// result.
template <class Ref>
struct resize {
  Ref ref;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    for (std::uint32_t method = 0; method < methods; ++method) {
      auto* pointer = static_cast<unsigned char*>(allocate(ref, method, 20));
      for (std::uint32_t i = 0; i < 20; ++i) pointer[i] = byte_of(own_bytes, rank, i);
      auto* const shrunk = static_cast<unsigned char*>(ref.realloc(pointer, 7));
      count(wrong, shrunk != pointer || ref.usable_size(shrunk) < 20);
      auto* const larger = static_cast<unsigned char*>(ref.realloc(shrunk, 3000 + rank));
      count(wrong, larger == nullptr || larger == shrunk || ref.usable_size(larger) < 3000 + rank);
      for (std::uint32_t i = 0; i < 20; ++i) count(wrong, larger[i] != byte_of(own_bytes, rank, i));
      count(wrong,
            ref.realloc(larger, ~bytes{0}) != nullptr || larger[3] != byte_of(own_bytes, rank, 3));
      ref.free(larger);
    }
    auto* const first = static_cast<unsigned char*>(ref.realloc(nullptr, 33));
    count(wrong, first == nullptr);
    ref.free(first);
    auto* const zeroed = static_cast<unsigned char*>(ref.calloc(9, 5));
    for (std::uint32_t i = 0; i < 45; ++i) count(wrong, zeroed[i] != 0);
    ref.free(zeroed);
    count(wrong, ref.calloc(~bytes{0} / 2, 3) != nullptr);
    count(wrong, ref.realloc(reinterpret_cast<void*>(std::uintptr_t{3}), 8) != nullptr);
    count(wrong, ref.usable_size(reinterpret_cast<void*>(std::uintptr_t{3})) != 0);
    ref.leave();
  }
};

TYPED_TEST(CoalescingRef, ReallocAndCallocWorkForAllMethods) {
  for (std::uint64_t const seed : {1u, 2u, 3u}) {
    TypeParam fixture{seed};
    typename TypeParam::template array<std::uint32_t> wrong(1);
    fixture.run(two_blocks, resize<typename TypeParam::ref_type>{fixture.ref(), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(fixture.count(fault_kind::foreign_pointer), 2 * lanes_of_two_blocks);
    EXPECT_EQ(fixture.count(fault_kind::out_of_memory), (methods + 1) * lanes_of_two_blocks);
    EXPECT_EQ(fixture.count(fault_kind::double_free), 0u);
    fixture.expect_empty();
  }
}

/// A freed part whose superblock is still allocated has no size and cannot grow.
template <class Ref>
struct resize_freed_part {
  Ref ref;
  std::uint32_t method;
  unsigned char** held;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    count(wrong, ref.usable_size(held[0]) != 0);
    count(wrong, ref.realloc(held[0], 4) != nullptr);
    count(wrong, ref.realloc(held[0], 400) != nullptr);
  }
};

TYPED_TEST(CoalescingRef, AFreedPartHasNoSizeAndDoesNotGrow) {
  if (!TypeParam::can_tell())
    GTEST_SKIP() << "this upstream reports it only while the superblock lives";
  using ref = typename TypeParam::ref_type;
  for (std::uint32_t method = 0; method < slices; ++method) {
    for (bytes const size : {bytes{7}, bytes{20}, bytes{24}, bytes{32}}) {
      TypeParam fixture{size};
      typename TypeParam::template array<unsigned char*> held(32);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      fixture.run({1, 32},
                  allocate_one_each<ref>{fixture.ref(), method, size, own_bytes, held.data()});
      fixture.run({1, 32}, free_another<ref>{fixture.ref(), size, own_bytes, held.data(), ~0u, 0,
                                             true, wrong.data()});
      fixture.run({1, 1}, resize_freed_part<ref>{fixture.ref(), method, held.data(), wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      EXPECT_EQ(fixture.refused(), 3u);
      held[0] = nullptr;
      fixture.run({1, 32}, free_another<ref>{fixture.ref(), size, own_bytes, held.data(), 0, 0,
                                             true, wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      fixture.expect_empty();
      ASSERT_FALSE(this->HasFailure()) << "method " << method << " size " << size;
    }
  }
}

/// All lanes of the block allocate together, and then fill their parts as in `allocate_one_each`.
template <class Ref, locate_by By>
struct allocate_by_block {
  Ref ref;
  bytes size;
  std::uint32_t fill;
  unsigned char** held;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    held[rank] = static_cast<unsigned char*>(ref.template malloc_static<coalesce::block, By>(size));
    for (bytes i = 0; held[rank] != nullptr && i < size; ++i)
      held[rank][i] = byte_of(fill, rank, i);
  }
};

/// Each lane grows its part and frees it.
template <class Ref>
struct grow_and_free {
  Ref ref;
  bytes size;
  unsigned char** held;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    count(wrong, ref.usable_size(held[rank]) != size);
    auto* const larger = static_cast<unsigned char*>(ref.realloc(held[rank], size + 100));
    for (bytes i = 0; i < size; ++i) count(wrong, larger[i] != byte_of(own_bytes, rank, i));
    ref.free(larger);
  }
};

/// A block's superblock lives while half of its lanes have their parts. Until then double frees are
/// reported over any upstream heap, except for a part in the map behind bytes that look like a
/// header.
template <class Setting, locate_by By>
void expect_a_block_is_served() {
  using ref = typename Setting::ref_type;
  constexpr simt::grid lanes{2, 4};
  for (auto const seed : Setting::seeds()) {
    for (std::uint32_t const fill : header_like_fills) {
      for (bytes const size : {bytes{8}, bytes{14}, bytes{24}, bytes{48}}) {
        // padding bytes have any value
        if (!Setting::can_tell() && By == locate_by::map && (fill != 0 || size % 16 != 0)) continue;
        Setting fixture{seed};
        typename Setting::template array<unsigned char*> held(8);
        typename Setting::template array<std::uint32_t> wrong(1);
        auto const free_half = [&](std::uint32_t parity, bool is_live) {
          fixture.run(lanes, free_another<ref>{fixture.ref(), size, fill, held.data(), 1, parity,
                                               is_live, wrong.data()});
        };
        fixture.run(lanes, allocate_by_block<ref, By>{fixture.ref(), size, fill, held.data()});
        free_half(0, true);
        fixture.expect_no_fault();
        free_half(0, false);
        EXPECT_EQ(fixture.refused(), 4u);
        free_half(1, true);
        EXPECT_EQ(fixture.refused(), 4u);
        EXPECT_EQ(wrong[0], 0u) << "a neighbour's bytes changed";
        fixture.expect_empty();
        ASSERT_FALSE(testing::Test::HasFailure())
            << "seed " << seed << " fill " << fill << " size " << size;
      }
    }
    Setting fixture{seed};
    typename Setting::template array<unsigned char*> held(8);
    typename Setting::template array<std::uint32_t> wrong(1);
    fixture.run(lanes, allocate_by_block<ref, By>{fixture.ref(), 30, own_bytes, held.data()});
    fixture.run(lanes, grow_and_free<ref>{fixture.ref(), 30, held.data(), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    fixture.expect_no_fault();
    fixture.expect_empty();
    if (seed == 40) break;
  }
}

TYPED_TEST(CoalescingRef, ServesABlockWithHeaders) {
  expect_a_block_is_served<TypeParam, locate_by::header>();
}
TYPED_TEST(CoalescingRef, ServesABlockByTheMap) {
  expect_a_block_is_served<TypeParam, locate_by::map>();
}

/// One lane frees an interior pointer of its own allocation. The bytes before this pointer read as
/// a header of a last segment at distance 0.
template <class Ref>
struct free_inside {
  Ref ref;

  QUARRY_HD void operator()() const {
    auto* const pointer = static_cast<unsigned char*>(ref.malloc(64));
    for (std::uint32_t i = 0; i < 64; ++i) pointer[i] = 0;
    pointer[0] = 4;
    ref.free(pointer + 2);
    ref.free(pointer);
  }
};

TYPED_TEST(CoalescingRef, AFreeOfAnInteriorPointerTerminates) {
  using ref = typename TypeParam::ref_type;
  TypeParam fixture;
  fixture.run({1, 1}, free_inside<ref>{fixture.ref()});
  EXPECT_EQ(fixture.refused(), 1u);
  fixture.expect_empty();
}

template <class Ref>
struct read_size_of_nullptr {
  Ref ref;
  bytes* size;

  QUARRY_HD void operator()() const { *size = ref.usable_size(nullptr); }
};

TYPED_TEST(CoalescingRef, NullptrHasNoSize) {
  using ref = typename TypeParam::ref_type;
  TypeParam fixture;
  typename TypeParam::template array<bytes> size(1, bytes{7});
  fixture.run({1, 1}, read_size_of_nullptr<ref>{fixture.ref(), size.data()});
  EXPECT_EQ(size[0], 0u);
  EXPECT_EQ(fixture.refused(), 1u);
}

TEST(CoalescingRefOverThePlatform, ADoubleFreeInAWarpIsReportedWhileItsSuperblockLives) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const method : {dynamic, header_warp, reserved}) {
    for (std::uint32_t const fill : header_like_fills) {
      for (bytes const size : {bytes{6}, bytes{12}, bytes{24}, bytes{32}}) {
        setting<fibers_backend, platform_upstream> fixture{1};
        std::vector<unsigned char*> held(32);
        auto const ref = fixture.ref();
        run_whole_warp(32, [&] {
          auto const lane = simt::this_place().thread;
          held[lane] = static_cast<unsigned char*>(allocate(ref, method, size));
          for (bytes i = 0; i < size; ++i) held[lane][i] = static_cast<unsigned char>(fill);
          ref.leave();
        });
        for (std::uint32_t lane = 0; lane < 32; lane += 2) ref.free(held[lane]);
        fixture.expect_no_fault();
        for (std::uint32_t lane = 0; lane < 32; lane += 2) ref.free(held[lane]);
        EXPECT_EQ(fixture.count(fault_kind::double_free), 16u)
            << "method " << method << " fill " << fill << " size " << size;
        for (std::uint32_t lane = 1; lane < 32; lane += 2) ref.free(held[lane]);
        EXPECT_EQ(fixture.refused(), 16u);
        fixture.expect_empty();
      }
    }
  }
}

}  // namespace coalescing_ref_test
}  // namespace quarry::test
