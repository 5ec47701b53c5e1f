// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/lane_array.hpp"

#include "support/backends.hpp"
#include "support/counting_upstream.hpp"
#include "support/warp_of_threads.hpp"

#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace quarry {
namespace lane_array_test {

using namespace test;

using numbers = lane_array<std::uint32_t>;
static_assert(std::is_trivially_copyable_v<numbers> && sizeof(numbers) == 16);
static_assert(std::is_convertible_v<numbers, lane_span<std::uint32_t>>);
static_assert(std::is_convertible_v<numbers const, lane_span<std::uint32_t const>>);
static_assert(!std::is_convertible_v<numbers const, lane_span<std::uint32_t>>);
static_assert(std::random_access_iterator<numbers::iterator> &&
              std::random_access_iterator<numbers::const_iterator>);

constexpr std::uint32_t lane_count = 128;  // of small_grid

QUARRY_HD std::uint32_t own_rank() { return static_cast<std::uint32_t>(simt::this_place().rank()); }

QUARRY_HD void count_wrong(std::uint32_t* wrong, bool is_right) {
  if (!is_right) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
}

struct twelve_bytes {
  std::uint32_t parts[3];
};
struct alignas(16) sixteen_bytes {
  std::uint64_t parts[2];
};

/// Every lane makes an array, writes all of its bytes, and keeps the object. The array has `size`
/// elements, or a size that depends on the rank.
template <class T>
struct make_and_mark {
  heap_ref heap;
  lane_array<T>* arrays;
  std::uint64_t size;
  bool is_same_for_all;

  QUARRY_HD void operator()() const {
    auto const rank = own_rank();
    lane_array<T>& own = arrays[rank];
    own = lane_array<T>::make(heap, is_same_for_all ? size : rank * 7 % 5 * size);
    T value;
    std::memset(&value, static_cast<int>(rank + 1), sizeof value);
    own.fill(value);
  }
};

/// Lane k of another launch checks and destroys the array of lane (37 * k + first) % lane_count.
template <class T>
struct check_and_destroy {
  heap_ref heap;
  lane_array<T>* arrays;
  std::uint32_t first;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint32_t const other = (own_rank() * 37 + first) % lane_count;
    lane_array<T>& array = arrays[other];
    bool is_right = static_cast<bool>(array);
    for (T const& element : std::as_const(array)) {
      auto const* const bytes_of = reinterpret_cast<unsigned char const*>(&element);
      for (std::size_t i = 0; i < sizeof(T); ++i)
        is_right = is_right && bytes_of[i] == (other + 1) % 256;
    }
    count_wrong(wrong, is_right);
    count_wrong(wrong, array.destroy(heap));
    count_wrong(wrong, !array && array.empty());
  }
};

/// Lanes whose rank leaves `remainder` when divided by `divisor` destroy their arrays.
struct destroy_some {
  heap_ref heap;
  numbers* arrays;
  std::uint32_t divisor, remainder;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    if (own_rank() % divisor == remainder) count_wrong(wrong, arrays[own_rank()].destroy(heap));
  }
};

/// Groups the arrays that were made together, by the address of the first row.
template <class T, class Arrays>
std::map<std::uintptr_t, std::vector<lane_array<T>>> superblocks(Arrays& arrays) {
  std::map<std::uintptr_t, std::vector<lane_array<T>>> result;
  for (auto const& array : arrays) {
    result[reinterpret_cast<std::uintptr_t>(array.data()) - array.rank() * sizeof(T)].push_back(
        array);
  }
  return result;
}

/// Fails the test unless the ranks are 0, 1, ..., rows start at a multiple of 128 bytes, and
/// elements with one index are adjacent.
template <class T, class Arrays>
void expect_interleaved(Arrays& arrays) {
  for (auto& [row, lanes] : superblocks<T>(arrays)) {
    EXPECT_EQ(row % 128, 0u);
    std::ranges::sort(lanes, {}, &lane_array<T>::rank);
    for (std::uint32_t rank = 0; rank < lanes.size(); ++rank) {
      EXPECT_EQ(lanes[rank].rank(), rank);
      EXPECT_EQ(lanes[rank].stride(), lanes.size());
      for (std::uint32_t i = 0;
           rank > 0 && i < std::min(lanes[rank].size(), lanes[rank - 1].size()); ++i) {
        EXPECT_EQ(&lanes[rank][i] - &lanes[rank - 1][i], 1);
      }
    }
  }
}

/// Makes arrays of T in one launch, inspects them, and lets other lanes check and destroy them in
/// another launch.
template <class T, class Backend>
void expect_round_trip(Backend const& backend, std::uint64_t seed, bool is_same_for_all) {
  auto const heap = backend.make_heap({.bytes = 2_MiB, .segment_bytes = 64_KiB});
  typename Backend::template array<lane_array<T>> arrays(lane_count);
  typename Backend::template array<std::uint32_t> wrong(1);
  backend.run(small_grid, make_and_mark<T>{heap.ref(), arrays.data(), 6, is_same_for_all});
  for (std::uint32_t rank = 0; rank < lane_count; ++rank)
    EXPECT_EQ(arrays[rank].size(), is_same_for_all ? 6 : rank * 7 % 5 * 6);
  expect_interleaved<T>(arrays);
  EXPECT_EQ(heap.live_allocations().size(), superblocks<T>(arrays).size());
  backend.run(small_grid, check_and_destroy<T>{heap.ref(), arrays.data(),
                                               static_cast<std::uint32_t>(seed), wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
  expect_sound_and_empty(heap);
}

template <class Backend>
struct LaneArray : testing::Test {};
TYPED_TEST_SUITE(LaneArray, backends, backend_names);

TYPED_TEST(LaneArray, IsInterleavedWithItsNeighboursAndAnyLaneOfALaterKernelDestroysIt) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    bool const is_same_for_all = seed % 2 == 0;
    switch (seed / 2 % 6) {
      case 0:
        expect_round_trip<std::uint8_t>(backend, seed, is_same_for_all);
        break;
      case 1:
        expect_round_trip<std::uint16_t>(backend, seed, is_same_for_all);
        break;
      case 2:
        expect_round_trip<std::uint32_t>(backend, seed, is_same_for_all);
        break;
      case 3:
        expect_round_trip<std::uint64_t>(backend, seed, is_same_for_all);
        break;
      case 4:
        expect_round_trip<twelve_bytes>(backend, seed, is_same_for_all);
        break;
      default:
        expect_round_trip<sixteen_bytes>(backend, seed, is_same_for_all);
        break;
    }
  }
}

TYPED_TEST(LaneArray, KeepsItsSuperblockUntilTheLastLaneDestroysItsArray) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<numbers> arrays(lane_count);
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run(small_grid, make_and_mark<std::uint32_t>{heap.ref(), arrays.data(), 3, true});
    for (std::uint32_t remainder = 0; remainder < 3; ++remainder) {
      std::set<void const*> needed;
      for (auto const& [row, lanes] : superblocks<std::uint32_t>(arrays)) {
        if (row != 0) needed.insert(reinterpret_cast<void const*>(row));
      }
      EXPECT_EQ(heap.live_allocations().size(), needed.size());
      backend.run(small_grid, destroy_some{heap.ref(), arrays.data(), 3, remainder, wrong.data()});
      for (auto& array : arrays) {
        if (!array) array = {};  // all destroyed arrays then have the same null row
      }
    }
    EXPECT_EQ(wrong[0], 0u);
    expect_sound_and_empty(heap);
  }
}

/// Each lane makes, uses and destroys four arrays as its own random numbers decide. It does the
/// same with plain arrays and compares them. Even lanes use the first heap, odd lanes the second.
struct compare_with_plain_arrays {
  heap_ref heaps[2];
  std::uint32_t seed;
  std::uint32_t* wrong;

  static constexpr std::uint32_t maximum = 24;

  QUARRY_HD void operator()() const {
    heap_ref const heap = heaps[own_rank() % 2];
    std::uint32_t random = mix(seed * 1000 + own_rank());
    numbers arrays[4];
    std::uint32_t expected[4][maximum];
    std::uint32_t sizes[4] = {};
    for (std::uint32_t step = 0; step < 120; ++step) {
      random = mix(random + step);
      std::uint32_t const slot = random / 16 % 4, action = random % 16, value = random / 64;
      numbers& array = arrays[slot];
      std::uint32_t* const plain = expected[slot];
      std::uint32_t& size = sizes[slot];
      if (!array) {
        size = value % (maximum + 1);
        array = numbers::make(heap, size);
        for (std::uint32_t i = 0; i < size; ++i) plain[i] = array[i] = value + i;
      } else if (action < 2) {
        count_wrong(wrong, array.destroy(heap));
        size = 0;
      } else if (action < 4) {
        array.fill(value);
        for (std::uint32_t i = 0; i < size; ++i) plain[i] = value;
      } else if (action < 6) {
        std::uint32_t const first = value % maximum;
        array.subspan(first, 5).fill(value);
        for (std::uint32_t i = first; i < first + 5 && i < size; ++i) plain[i] = value;
      } else if (action < 8) {  // copies one array to another
        std::uint32_t const source = value % 4;
        std::uint32_t const copied = array.copy_from(expected[source], sizes[source]);
        count_wrong(wrong, copied == (size < sizes[source] ? size : sizes[source]));
        for (std::uint32_t i = 0; i < copied; ++i) plain[i] = expected[source][i];
      } else if (size != 0) {
        plain[value % size] = array[value % size] = value;
      }
      check(array, plain, size);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
      check(arrays[i], expected[i], sizes[i]);
      count_wrong(wrong, arrays[i].destroy(heap));
    }
  }

  QUARRY_HD void check(numbers const& array, std::uint32_t const* plain, std::uint32_t size) const {
    std::uint32_t copy[maximum];
    bool is_right = array.size() == size && array.copy_to(copy, maximum) == size;
    std::uint32_t i = 0;
    for (std::uint32_t const element : array) {
      is_right = is_right && element == plain[i] && copy[i] == element;
      ++i;
    }
    count_wrong(wrong, is_right && i == size);
  }
};

TYPED_TEST(LaneArray, AgreesWithAPlainArray) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 8_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run(small_grid,
                compare_with_plain_arrays{
                    {heap.ref(), heap.ref()}, static_cast<std::uint32_t>(seed), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    expect_sound_and_empty(heap);
  }
}

TYPED_TEST(LaneArray, IsAllocatedFromItsLanesHeapWhenLanesOfAWarpUseTwoHeaps) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const even = backend.make_heap({.bytes = 8_MiB, .segment_bytes = 64_KiB});
    auto const odd = backend.make_heap({.bytes = 8_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run(small_grid,
                compare_with_plain_arrays{
                    {even.ref(), odd.ref()}, static_cast<std::uint32_t>(seed), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    expect_sound_and_empty(even);
    expect_sound_and_empty(odd);
  }
}

/// Every lane makes arrays until an allocation fails, checks the arrays, and destroys the oldest
/// first.
struct fill_until_refused {
  heap_ref heap;
  std::uint64_t size;
  std::uint32_t* refused;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    numbers arrays[40];
    std::uint32_t count = 0;
    while (count < 40) {
      arrays[count] = numbers::make(heap, size);
      if (!arrays[count]) break;
      arrays[count].fill(own_rank() * 40 + count);
      ++count;
    }
    if (count < 40) {
      count_wrong(wrong, arrays[count].data() == nullptr && arrays[count].empty());
      count_wrong(wrong, arrays[count].destroy(heap));
      refused[own_rank()] = 1;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::uint32_t const element : arrays[i])
        count_wrong(wrong, element == own_rank() * 40 + i);
      count_wrong(wrong, arrays[i].destroy(heap));
    }
  }
};

TYPED_TEST(LaneArray, IsNullWhenMemoryIsExhaustedAndLeaksNothing) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 256_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> refused(lane_count), wrong(1);
    backend.run(small_grid, fill_until_refused{heap.ref(), 2000, refused.data(), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_GE(std::count(refused.begin(), refused.end(), 1u), 1);
    EXPECT_GE(heap.fault_count(fault_kind::out_of_memory), 1u);
    expect_sound(heap);
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

TYPED_TEST(LaneArray, IsNullIfItsSizeExceedsAnyMemory) {
  for (std::uint64_t const size :
       {std::uint64_t{1} << 31, std::uint64_t{0xFFFF'FFFF}, std::uint64_t{1} << 32,
        std::uint64_t{1} << 59, ~std::uint64_t{0}}) {
    TypeParam const backend;
    auto const heap = backend.make_heap({.bytes = 256_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> refused(lane_count), wrong(1);
    backend.run(small_grid, fill_until_refused{heap.ref(), size, refused.data(), wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(std::count(refused.begin(), refused.end(), 1u), std::ptrdiff_t{lane_count});
    EXPECT_GE(heap.fault_count(fault_kind::out_of_memory), 1u);
    expect_sound(heap);
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

/// Each lane destroys its array, then the same object, which is null now, and then `copies` copies
/// of the destroyed array.
struct destroy_twice {
  heap_ref heap;
  std::uint32_t copies;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto array = numbers::make(heap, 4);
    auto copy = array;
    count_wrong(wrong, array.destroy(heap));
    count_wrong(wrong, array.destroy(heap));
    for (std::uint32_t i = 0; i < copies; ++i) {
      auto another = copy;
      count_wrong(wrong, !another.destroy(heap) && !another);
    }
  }
};

TYPED_TEST(LaneArray, ReportsTheDestructionOfACopyOfADestroyedArrayAndChangesNothing) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> wrong(1);
    backend.run({1, 1}, destroy_twice{heap.ref(), 3, wrong.data()});
    EXPECT_EQ(wrong[0], 0u);
    // In the hardened mode the header of a freed superblock is overwritten, like all freed memory.
    EXPECT_EQ(
        heap.fault_count(fault_kind::double_free) + heap.fault_count(fault_kind::foreign_pointer),
        3u);
    expect_sound(heap);
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

/// Overwrites the byte before element 0, which belongs to the header.
struct overwrite_header {
  heap_ref heap;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto array = numbers::make(heap, 4);
    auto copy = array;
    char& last = *(reinterpret_cast<char*>(array.data()) - 1);
    char const saved = last;
    last = static_cast<char>(saved + 1);
    count_wrong(wrong, !array.destroy(heap) && !array);
    last = saved;
    count_wrong(wrong, copy.destroy(heap));
  }
};

TYPED_TEST(LaneArray, RefusesASuperblockWhoseHeaderWasOverwritten) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 256_KiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<std::uint32_t> wrong(1);
  backend.run({1, 1}, overwrite_header{heap.ref(), wrong.data()});
  EXPECT_EQ(wrong[0], 0u);
  EXPECT_EQ(heap.fault_count(fault_kind::foreign_pointer), 1u);
  expect_sound(heap);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TEST(LaneArrayOfAWholeWarp, HasRowsOfOneLineFromOneAllocation) {
  for (std::uint32_t shift = 0; shift < 128; shift += 16) {
    counting_upstream::counters counts{.remaining = 1};
    counting_upstream const upstream{&counts, shift};
    std::vector<lane_array<float>> arrays(32);
    warp_of_threads::run(
        32, [&] { arrays[own_rank()] = lane_array<float>::make(upstream, 25 - own_rank() % 3); });
    EXPECT_EQ(counts.allocated, 1u);
    for (std::uint32_t rank = 0; rank < 32; ++rank) {
      EXPECT_EQ(arrays[rank].stride(), 32u);
      EXPECT_EQ(arrays[rank].size(), 25 - rank % 3);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrays[rank].data()) % 128, rank * sizeof(float));
      EXPECT_EQ(&arrays[rank][1] - &arrays[rank][0], 32);
    }
    EXPECT_GE(reinterpret_cast<std::uintptr_t>(arrays[0].data()),
              counts.begin + sizeof(detail::superblock));
    EXPECT_LE(reinterpret_cast<std::uintptr_t>(&arrays[30][24] + 2), counts.end);
    warp_of_threads::run(32, [&] { EXPECT_TRUE(arrays[own_rank()].destroy(upstream)); });
    EXPECT_EQ(counts.allocated, 0u);
  }
}

TEST(LaneArrayOfAWholeWarp, OutlivesCopiesThatAreDestroyedAtOnceOrTwice) {
  counting_upstream::counters counts{.remaining = 1};
  counting_upstream const upstream{&counts};
  std::vector<numbers> arrays(32);
  warp_of_threads::run(32, [&] { arrays[own_rank()] = numbers::make(upstream, 1); });
  // Lanes 6 and 7 have copies of lane 5's array.
  std::array<bool, 32> destroyed{};
  auto const second = arrays[6], third = arrays[7];
  arrays[6] = arrays[7] = arrays[5];
  warp_of_threads::run(32, [&] { destroyed[own_rank()] = arrays[own_rank()].destroy(upstream); });
  EXPECT_EQ(destroyed[5] + destroyed[6] + destroyed[7], 1);
  EXPECT_EQ(std::count(destroyed.begin(), destroyed.end(), true), 30);
  auto original = second, duplicate = second, last = third;
  EXPECT_TRUE(original.destroy(upstream));
  EXPECT_FALSE(duplicate.destroy(upstream));
  EXPECT_EQ(counts.allocated, 1u);
  EXPECT_TRUE(last.destroy(upstream));
  EXPECT_EQ(counts.allocated, 0u);
}

TEST(LaneArrayOfAWholeWarp, IsMadeForAllLanesOrForNoLane) {
  counting_upstream::counters counts;
  counting_upstream const upstream{&counts};
  std::array<numbers, 32> arrays;
  warp_of_threads::run(32, [&] { arrays[own_rank()] = numbers::make(upstream, 1); });
  EXPECT_TRUE(std::none_of(arrays.begin(), arrays.end(),
                           [](auto const& array) { return static_cast<bool>(array); }));
  counts.remaining = 1;
  warp_of_threads::run(32, [&] {
    arrays[own_rank()] = numbers::make(upstream, own_rank() == 31 ? std::uint64_t{1} << 32 : 1);
  });
  EXPECT_TRUE(std::none_of(arrays.begin(), arrays.end(),
                           [](auto const& array) { return static_cast<bool>(array); }));
  EXPECT_EQ(counts.remaining, 1u);
  EXPECT_EQ(counts.allocated, 0u);
}

/// The superblock is freed, and goes to its next owner, after every lane's last access: (Z). The
/// last lane to destroy its array allocates the memory again and overwrites it.
TEST(LaneArrayOnThreads, IsFreedAfterTheLastAccessOfEachLane) {
  for (int round = 0; round < 50; ++round) {
    heap const heap{{.bytes = 256_KiB, .segment_bytes = 64_KiB, .backend_kind = backend::cpu}};
    warp_of_threads::run(4, [ref = heap.ref()] {
      auto array = numbers::make(ref, 50);
      EXPECT_EQ(array.stride(), 4u);
      for (std::uint32_t i = 0; i < 50; ++i) array[i] = i;
      EXPECT_EQ(std::accumulate(array.begin(), array.end(), 0u), 1225u);
      EXPECT_TRUE(array.destroy(ref));
      for (int i = 0; i < 20; ++i) {
        auto own = numbers::make(ref, 4 * 50);
        own.fill(7);
        EXPECT_TRUE(own.destroy(ref));
      }
    });
    expect_sound_and_empty(heap);
  }
}

}  // namespace lane_array_test
}  // namespace quarry
