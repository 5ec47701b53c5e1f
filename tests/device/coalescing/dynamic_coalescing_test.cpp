// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/dynamic_coalescing.hpp"

#include "support/coalescing.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace dynamic_coalescing_test {

QUARRY_HD bytes size_for(std::uint32_t kind, std::uint32_t lane) {
  switch (kind) {
    // headers of 2 bytes, except where a size is a multiple of 4
    case 0:
      return 1 + lane % 3;
    case 1:
      return 4 + lane % 2 * 8;  // headers of 4 bytes
    case 2:
      return lane * 8;  // headers of 8 bytes
    case 3:
      return lane * 16;  // payloads aligned to 16
    case 4:
      return mix(lane) % 200;  // mixed headers
    case 5:
      return lane % 4 == 1 ? 30000 + lane : lane;  // large distances
    default:
      return lane == 5 ? segment_header::max_bytes + 1 : lane;  // one lane requests too much
  }
}
constexpr std::uint32_t kinds = 7;

struct allocate_by_kind {
  arena upstream;
  std::uint32_t kind;
  char** held;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    bytes const size = size_for(kind, rank % simt::warp_size);
    held[rank] = static_cast<char*>(dynamic_coalescing::malloc(upstream, size));
    if (held[rank] == nullptr) return;
    for (bytes i = 0; i < size; ++i) held[rank][i] = static_cast<char>(rank);
  }
};

/// Each lane frees another lane's allocation. `multiplier` decides the order.
struct free_in_order {
  arena upstream;
  std::uint32_t kind;
  char** held;
  std::uint32_t multiplier;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    auto const rank = static_cast<std::uint32_t>((place.rank() * multiplier + 5) % place.count());
    if (held[rank] == nullptr) return;
    bytes const size = size_for(kind, rank % simt::warp_size);
    std::uint32_t bad = 0;
    for (bytes i = 0; i < size; ++i) bad += held[rank][i] != static_cast<char>(rank) ? 1 : 0;
    if (!dynamic_coalescing::free(upstream, held[rank])) ++bad;
    if (bad != 0) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

template <class Backend>
struct DynamicCoalescing : testing::Test {};
TYPED_TEST_SUITE(DynamicCoalescing, backends, backend_names);

TYPED_TEST(DynamicCoalescing, TheLastFreeOfAGroupReturnsTheSuperblock) {
  for (auto const seed : TypeParam::seeds()) {
    for (std::uint32_t kind = 0; kind < kinds; ++kind) {
      TypeParam const backend{seed};
      arena_owner<TypeParam> upstream{80, kind == 5 ? bytes{300000} : bytes{16384}};
      if (kind == 5 && seed > 8) continue;
      typename TypeParam::template array<char*> held(80);
      typename TypeParam::template array<std::uint32_t> wrong(1);
      backend.run({2, 40}, allocate_by_kind{upstream.ref(), kind, held.data()});
      for (std::uint32_t rank = 0; rank < 80; ++rank) {
        bytes const own = size_for(kind, rank % simt::warp_size);
        auto const address = reinterpret_cast<std::uintptr_t>(held[rank]);
        bytes const alignment = own % 16 == 0 ? 16 : own % 8 == 0 ? 8 : own % 4 == 0 ? 4 : 2;
        if (own > segment_header::max_bytes) {
          EXPECT_EQ(address, 0u);
          continue;
        }
        ASSERT_NE(address, 0u);
        EXPECT_EQ(address % alignment, 0u) << "size " << own;
        segment_header const header{held[rank]};
        EXPECT_GE(header.size(header.load()), own);
        EXPECT_LT(header.size(header.load()), own + 8);
      }
      EXPECT_GT(upstream.live(), 0u);
      backend.run({2, 40}, free_in_order{upstream.ref(), kind, held.data(),
                                         seed % 2 == 0 ? 79u : 3u, wrong.data()});
      EXPECT_EQ(wrong[0], 0u);
      EXPECT_EQ(upstream.live(), 0u);
      EXPECT_EQ(upstream.counts[0].invalid_frees, 0u);
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed << " kind " << kind;
    }
  }
}

TYPED_TEST(DynamicCoalescing, AllLanesOfAGroupGetNullptrIfThereIsNoMemory) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    arena_owner<TypeParam> upstream{8};
    upstream.counts[0].max_requests = 0;
    typename TypeParam::template array<char*> held(80);
    backend.run({2, 40}, allocate_by_kind{upstream.ref(), 4, held.data()});
    for (std::uint32_t rank = 0; rank < 80; ++rank) EXPECT_EQ(held[rank], nullptr);
    EXPECT_EQ(upstream.live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

/// The lanes of one whole warp, as on hardware: the group is not split.
struct whole_warp {
  explicit whole_warp(std::uint32_t kind)
      : upstream{32, kind == 5 ? bytes{300000} : bytes{16384}}, held(32) {
    run_whole_warp(32, allocate_by_kind{upstream.ref(), kind, held.data()});
  }
  arena_owner<fibers_backend> upstream;
  std::vector<char*> held;
};

TEST(DynamicCoalescingLayout, SegmentsOfNeighbouringLanesTouch) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t kind = 0; kind < kinds; ++kind) {
    whole_warp warp{kind};
    EXPECT_EQ(warp.upstream.live(), 1u) << "one allocation for all lanes";
    char* end = warp.upstream.ref().memory;
    bytes total = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      bytes const size = size_for(kind, lane);
      if (warp.held[lane] == nullptr) {
        total = 0;
        break;  // the lane that requests too much has a segment too
      }
      segment_header const header{warp.held[lane]};
      EXPECT_GE(header.address(), end) << "kind " << kind << " lane " << lane;
      EXPECT_LE(header.address() - end,
                8 + (kind == 3 || kind == 4 || kind == 0 || kind == 2 || kind == 5 ? 8 : 0) + 15);
      end = warp.held[lane] + size;
      total = static_cast<bytes>(end - warp.upstream.ref().memory);
    }
    if (total != 0) {
      EXPECT_LE(total, warp.upstream.counts[0].largest_request);
      EXPECT_LE(warp.upstream.counts[0].largest_request - total, 16u);
    }
  }
}

TEST(DynamicCoalescingLayout, SmallSizesHaveHeadersOf2Bytes) {
  QUARRY_TEST_USES_FIBERS();
  arena_owner<fibers_backend> upstream{32, 16384};
  std::vector<char*> held(32);
  run_whole_warp(32, [&] {
    auto const rank = simt::this_place().rank();
    held[rank] = static_cast<char*>(dynamic_coalescing::malloc(upstream.ref(), 6));
  });
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(segment_header{held[lane]}.width(), 2u);
    EXPECT_EQ(held[lane] - held[0], lane * 8) << "2 bytes of header and 6 of payload";
  }
}

TEST(DynamicCoalescingLayout, TheFlagsMarkTheFirstAndTheLastSegment) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t kind = 0; kind < kinds - 1; ++kind) {
    whole_warp warp{kind};
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      segment_header const header{warp.held[lane]};
      std::uint64_t const seen = header.load();
      EXPECT_EQ((seen & segment_header::is_free), 0u);
      EXPECT_EQ((seen & segment_header::is_superblock) != 0, lane == 0);
      EXPECT_EQ((seen & segment_header::is_last) != 0, lane == 31);
      EXPECT_EQ(header.distance(seen),
                lane == 0 ? 0u : static_cast<bytes>(warp.held[lane] - warp.held[lane - 1]));
    }
    EXPECT_EQ(segment_header{warp.held[0]}.base(), warp.upstream.ref().memory);
    EXPECT_TRUE(segment_header::begins_at(warp.upstream.ref().memory)) << "kind " << kind;
  }
}

TEST(DynamicCoalescingLayout, TheLastFreeReturnsTheSuperblockWhateverTheOrder) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    dice random{seed};
    std::uint32_t const kind = random.below(kinds - 2);
    whole_warp warp{kind};
    std::vector<std::uint32_t> order(32);
    std::iota(order.begin(), order.end(), 0u);
    for (std::uint32_t i = 31; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    std::vector<bool> is_free(32);
    for (std::uint32_t step = 0; step < 32; ++step) {
      ASSERT_EQ(warp.upstream.live(), 1u) << "seed " << seed;
      // Exactly the highest allocated segment has the last flag, as the paper requires.
      std::uint32_t highest = 31;
      while (is_free[highest]) --highest;
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        std::uint64_t const seen = segment_header{warp.held[lane]}.load();
        ASSERT_EQ((seen & segment_header::is_free) != 0, is_free[lane]);
        if (!is_free[lane]) {
          ASSERT_EQ((seen & segment_header::is_last) != 0, lane == highest)
              << "seed " << seed << " lane " << lane;
        }
      }
      ASSERT_TRUE(dynamic_coalescing::free(warp.upstream.ref(), warp.held[order[step]]));
      is_free[order[step]] = true;
      std::uint32_t const freed_lane = order[random.below(step + 1)];
      if (step < 31) {
        ASSERT_FALSE(dynamic_coalescing::free(warp.upstream.ref(), warp.held[freed_lane]))
            << "a double free";
      }
    }
    ASSERT_EQ(warp.upstream.live(), 0u);
    ASSERT_EQ(warp.upstream.counts[0].invalid_frees, 0u);
  }
}

/// Sizes whose distances need all of a header's bits. The test does not touch this memory.
TEST(DynamicCoalescingLayout, DistancesToLargeNeighboursAreExact) {
  QUARRY_TEST_USES_FIBERS();
  for (bytes const large : {(bytes{1} << 29) + 24, (bytes{1} << 30) + 3, (bytes{1} << 32) - 64}) {
    std::uint64_t live = 0;
    std::uint64_t remaining = 100;
    counted_platform const upstream{&live, &remaining};
    std::vector<char*> held(3);
    run_whole_warp(3, [&] {
      auto const rank = simt::this_place().rank();
      held[rank] = static_cast<char*>(dynamic_coalescing::malloc(upstream, rank == 1 ? large : 20));
    });
    if (held[0] == nullptr) GTEST_SKIP() << "this machine cannot allocate that much";
    for (std::uint32_t const lane : {1u, 2u}) {
      segment_header const header{held[lane]};
      EXPECT_EQ(header.distance(header.load()), static_cast<bytes>(held[lane] - held[lane - 1]))
          << large;
    }
    EXPECT_GE(segment_header{held[1]}.size(segment_header{held[1]}.load()), large);
    for (std::uint32_t const lane : {0u, 2u, 1u})
      EXPECT_TRUE(dynamic_coalescing::free(upstream, held[lane]));
    EXPECT_EQ(live, 0u);
  }
}

/// The test builds one superblock of four segments, and four threads free them at once. On threads
/// a group has one lane, so no call makes such a superblock.
TEST(DynamicCoalescingThreads, TheThreadThatFreesTheSuperblockSeesTheWritesOfAllOwners) {
  for (std::uint32_t const width : {8u, 4u, 2u}) {
    for (int round = 0; round < 300; ++round) {
      arena_owner<threads_backend> upstream{1, 256};
      auto const source = upstream.ref();
      char* const base = static_cast<char*>(source.malloc(128));
      std::array<char*, 4> payloads{};
      for (std::uint32_t i = 0; i < 4; ++i) {
        payloads[i] = base + i * 32 + width;
        segment_header{payloads[i]}.write(
            (i == 0 ? segment_header::is_superblock : 0) | (i == 3 ? segment_header::is_last : 0),
            i == 0 ? 0 : 32, 20);
      }
      simt::launch_threads({4, 1}, 4, [&] {
        auto const index = simt::this_place().block;
        for (int i = 0; i < 20; ++i) payloads[index][i] = static_cast<char>(i);
        EXPECT_TRUE(dynamic_coalescing::free(source, payloads[index]));
      });
      ASSERT_EQ(upstream.live(), 0u);
      ASSERT_EQ(upstream.counts[0].invalid_frees, 0u);
    }
  }
}

}  // namespace dynamic_coalescing_test
}  // namespace quarry::test
