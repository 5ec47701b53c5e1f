// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/static_coalescing.hpp"

#include "support/coalescing.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {

using namespace detail;
namespace static_coalescing_test {

/// The allocate and free calls of one variant, without a coalescing heap around them.
template <coalesce Among, locate_by By>
struct variant {
  static constexpr coalesce among = Among;
  static constexpr bool with_header = By == locate_by::header;
  [[nodiscard]] static bool needs_map() { return !with_header; }
  [[nodiscard]] static bool is_of_block() { return among == coalesce::block; }
  arena upstream;
  superblock_map map;

  QUARRY_HD char* malloc(bytes size, bool& map_is_full) const {
    superblock_map own = map;
    auto const result = static_coalescing::malloc<Among, By>(upstream, own, size);
    map_is_full = result.map_is_full;
    return static_cast<char*>(result.pointer);
  }
  QUARRY_HD bool free(char* part) const {
    superblock* owner = nullptr;
    if constexpr (with_header) {
      owner = superblock::named_by(reinterpret_cast<std::uint64_t*>(part)[-1], part);
    } else {
      superblock_map own = map;
      owner = static_cast<superblock*>(own.remove(part));
    }
    if (owner == nullptr) return false;
    static_coalescing::free(upstream, owner);
    return true;
  }
};

template <class Variant>
struct allocate_and_fill {
  Variant allocator;
  bytes size;
  char** held;
  std::uint32_t* full;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    bool map_is_full = false;
    held[rank] = allocator.malloc(size, map_is_full);
    if (map_is_full) simt::atomic_ref<std::uint32_t>{*full}.fetch_add(1, simt::relaxed);
    if (held[rank] == nullptr) return;
    for (bytes i = 0; i < size; ++i) held[rank][i] = static_cast<char>(rank);
  }
};

/// Each lane checks and frees the allocation of another lane, in another block if there is one.
template <class Variant>
struct check_and_free {
  Variant allocator;
  bytes size;
  char** held;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    auto const rank = (place.rank() * 7 + place.count() / 2) % place.count();
    if (held[rank] == nullptr) return;
    std::uint32_t bad = 0;
    for (bytes i = 0; i < size; ++i) bad += held[rank][i] != static_cast<char>(rank) ? 1 : 0;
    if (!allocator.free(held[rank])) ++bad;
    if (bad != 0) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

template <class Backend, class Variant>
struct one_case {
  using backend = Backend;
  using variant = Variant;
};
template <class>
struct with_all_variants;
template <class... Backends>
struct with_all_variants<testing::Types<Backends...>> {
  using type = testing::Types<one_case<Backends, variant<coalesce::warp, locate_by::header>>...,
                              one_case<Backends, variant<coalesce::warp, locate_by::map>>...,
                              one_case<Backends, variant<coalesce::block, locate_by::header>>...,
                              one_case<Backends, variant<coalesce::block, locate_by::map>>...>;
};
struct case_names {
  template <class Case>
  static std::string GetName(int) {
    return std::string{Case::backend::name} +
           (Case::variant::among == coalesce::block ? "_block" : "_warp") +
           (Case::variant::with_header ? "_header" : "_map");
  }
};

/// A grid that the back end can run with barriers. A grid of threads has at most 8 lanes.
template <class Case>
simt::grid grid_of() {
  // the last warp has 8 lanes
  return std::string_view{Case::backend::name} == "threads" ? simt::grid{2, 4} : simt::grid{2, 40};
}

template <class Case>
struct StaticCoalescing : testing::Test {};
TYPED_TEST_SUITE(StaticCoalescing, typename with_all_variants<backends>::type, case_names);

template <class Case>
struct bench {  // one upstream and one map
  explicit bench(std::uint32_t map_capacity = 512)
      : upstream{80, 16384},
        slots(map_capacity),
        held(80),
        wrong(1),
        full(1),
        map_slots{map_capacity} {}
  [[nodiscard]] typename Case::variant variant() {
    return {upstream.ref(), {slots.data(), map_slots}};
  }
  void allocate(typename Case::backend const& fixture, bytes size) {
    fixture.run(grid_of<Case>(), allocate_and_fill<typename Case::variant>{
                                     variant(), size, held.data(), full.data()});
  }
  void free(typename Case::backend const& fixture, bytes size) {
    fixture.run(grid_of<Case>(),
                check_and_free<typename Case::variant>{variant(), size, held.data(), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(upstream.live(), 0u);
    EXPECT_EQ(upstream.counts[0].invalid_frees, 0u);
  }
  template <class T>
  using array = typename Case::backend::template array<T>;
  arena_owner<typename Case::backend> upstream;
  array<superblock_map::slot> slots;
  array<char*> held;
  array<std::uint32_t> wrong;
  array<std::uint32_t> full;
  std::uint32_t map_slots;
};

TYPED_TEST(StaticCoalescing, EachLaneHasItsPartAndTheLastFreeReturnsTheSuperblock) {
  for (auto const seed : TypeParam::backend::seeds()) {
    typename TypeParam::backend const backend{seed};
    for (bytes const size : {bytes{0}, bytes{1}, bytes{16}, bytes{100}}) {
      bench<TypeParam> fixture;
      fixture.allocate(backend, size);
      auto const lanes = grid_of<TypeParam>().blocks * grid_of<TypeParam>().threads;
      for (std::uint32_t i = 0; i < lanes; ++i) {
        ASSERT_NE(fixture.held[i], nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fixture.held[i]) % 16, 0u);
      }
      if (TypeParam::variant::among == coalesce::block) {
        EXPECT_EQ(fixture.upstream.live(), 2u);
      }
      EXPECT_GE(fixture.upstream.live(), 2u);
      fixture.free(backend, size);
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed << " size " << size;
    }
  }
}

TYPED_TEST(StaticCoalescing, PartsOfABlockAreAdjacent) {
  if (!TypeParam::variant::is_of_block())
    GTEST_SKIP() << "StaticCoalescingLayout tests the layout of a warp";
  typename TypeParam::backend const backend{5};
  for (bytes const size : {bytes{0}, bytes{4}, bytes{16}, bytes{100}}) {
    bench<TypeParam> fixture;
    fixture.allocate(backend, size);
    auto const [blocks, threads] = grid_of<TypeParam>();
    auto const stride =
        static_cast<std::ptrdiff_t>(superblock::stride(size, TypeParam::variant::with_header));
    for (std::uint32_t block = 0; block < blocks; ++block) {
      for (std::uint32_t i = 1; i < threads; ++i) {
        EXPECT_EQ(fixture.held[block * threads + i] - fixture.held[block * threads + i - 1],
                  stride);
      }
    }
    EXPECT_EQ(fixture.upstream.counts[0].largest_request,
              16 + threads * static_cast<bytes>(stride));
    fixture.free(backend, size);
  }
}

TYPED_TEST(StaticCoalescing, AllLanesGetNullptrWithoutMemoryAndLeakNothing) {
  for (auto const seed : TypeParam::backend::seeds()) {
    typename TypeParam::backend const backend{seed};
    bench<TypeParam> fixture;
    fixture.upstream.counts[0].max_requests = 1;  // only one group gets memory
    fixture.allocate(backend, 48);
    auto const lanes = grid_of<TypeParam>().blocks * grid_of<TypeParam>().threads;
    std::uint32_t served = 0;
    for (std::uint32_t i = 0; i < lanes; ++i) served += fixture.held[i] != nullptr ? 1 : 0;
    EXPECT_GE(served, 1u);
    EXPECT_LE(served, TypeParam::variant::among == coalesce::block ? grid_of<TypeParam>().threads
                                                                   : simt::warp_size);
    if (TypeParam::variant::among == coalesce::block) {
      EXPECT_EQ(served, grid_of<TypeParam>().threads) << "all lanes of one block";
    }
    EXPECT_EQ(fixture.full[0], 0u);
    fixture.free(backend, 48);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(StaticCoalescing, RefusesSizesThatExceedAnyMemory) {
  typename TypeParam::backend const backend{1};
  bench<TypeParam> fixture;
  for (bytes const size :
       {static_coalescing::max_bytes + 1, ~bytes{0}, ~bytes{0} - 15, ~bytes{0} / 16}) {
    EXPECT_EQ((static_coalescing::open<locate_by::header>(fixture.upstream.ref(), 32, size)),
              nullptr);
    EXPECT_EQ(fixture.upstream.counts[0].requests, 0u) << "the size of the superblock overflowed";
  }
}

TYPED_TEST(StaticCoalescing, AFullMapRefusesSomeLanesAndLeaksNothing) {
  if (!TypeParam::variant::needs_map()) GTEST_SKIP() << "needs no map";
  for (auto const seed : TypeParam::backend::seeds()) {
    typename TypeParam::backend const backend{seed};
    for (std::uint32_t const capacity : {0u, 1u, 4u}) {
      bench<TypeParam> fixture{capacity};
      auto const lanes = grid_of<TypeParam>().blocks * grid_of<TypeParam>().threads;
      fixture.allocate(backend, 24);
      std::uint32_t served = 0;
      for (std::uint32_t i = 0; i < lanes; ++i) served += fixture.held[i] != nullptr ? 1 : 0;
      EXPECT_EQ(served, capacity);
      EXPECT_EQ(fixture.full[0], lanes - capacity);
      fixture.free(backend, 24);
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed << " capacity " << capacity;
    }
  }
}

TEST(StaticCoalescingLayout, PartsOfAWarpAreAdjacent) {
  QUARRY_TEST_USES_FIBERS();
  for (bool const with_header : {false, true}) {
    for (bytes const size : {bytes{0}, bytes{4}, bytes{16}, bytes{100}, bytes{400}}) {
      for (std::uint32_t const lanes : {32u, 13u, 1u}) {
        arena_owner<fibers_backend> upstream{4, 32768};
        std::vector<superblock_map::slot> slots(128);
        superblock_map map{slots.data(), 128};
        std::vector<char*> held(lanes);
        auto const source = upstream.ref();
        run_whole_warp(lanes, [&] {
          auto const result =
              with_header
                  ? static_coalescing::malloc<coalesce::warp, locate_by::header>(source, map, size)
                  : static_coalescing::malloc<coalesce::warp, locate_by::map>(source, map, size);
          held[simt::this_place().thread] = static_cast<char*>(result.pointer);
        });
        EXPECT_EQ(upstream.live(), 1u);
        bytes const stride = superblock::stride(size, with_header);
        EXPECT_EQ(upstream.counts[0].largest_request, 16 + lanes * stride);
        for (std::uint32_t i = 0; i < lanes; ++i) {
          EXPECT_EQ(held[i], source.memory + 16 + (with_header ? 16 : 0) + i * stride)
              << "lane " << i;
        }
      }
    }
  }
}

TEST(StaticCoalescingLayout, LanesOfOneWarpFormAGroupForEachSize) {
  QUARRY_TEST_USES_FIBERS();
  arena_owner<fibers_backend> upstream{4, 32768};
  superblock_map map;
  std::vector<char*> held(32);
  run_whole_warp(32, [&] {
    auto const lane = simt::this_place().thread;
    held[lane] = static_cast<char*>(static_coalescing::malloc<coalesce::warp, locate_by::header>(
                                        upstream.ref(), map, lane % 2 * 32 + 16)
                                        .pointer);
  });
  EXPECT_EQ(upstream.live(), 2u);
  for (std::uint32_t i = 2; i < 32; ++i) EXPECT_EQ(held[i] - held[i - 2], i % 2 == 0 ? 32 : 64);
}

}  // namespace static_coalescing_test
}  // namespace quarry::test
