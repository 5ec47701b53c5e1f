// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/other_classes.hpp"

#include "support/fibers_allowed.hpp"
#include "support/fill.hpp"
#include "support/state_of.hpp"

#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace quarry {

using namespace detail;
using test::fill;
using test::net;
namespace other_classes_test {

constexpr char const* no_joins = "with poison, no slices are joined";

void expect_sound(heap const& owner) {
  for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
}

std::uint64_t offset_in(void const* memory, std::uint64_t unit) {
  return reinterpret_cast<std::uint64_t>(memory) % unit;
}

/// A heap whose slices of `size` bytes are all allocated.
struct full_heap {
  explicit full_heap(std::uint32_t size, std::uint32_t segments = 1)
      : owner{test::small_heap(segments)}, all{fill(owner, size)} {
    std::sort(all.begin(), all.end());
  }
  ~full_heap() { expect_sound(owner); }
  full_heap(full_heap const&) = delete;
  full_heap& operator=(full_heap const&) = delete;

  /// Frees `count` slices from the one with number `first` on.
  void free(std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) free_now(all[i]);
  }
  void free_now(void* memory) { heap_internals::free_now(owner.ref(), memory); }
  void* malloc(std::uint32_t size) { return owner.ref().malloc(net(size)); }

  heap owner;
  std::vector<void*> all;
};

TEST(OtherClasses, AdjacentSmallerSlicesServeAnAllocation) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(100, 5);
  void* const memory = a.malloc(256);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(offset_in(memory, 64), joined_slices::offset);
  EXPECT_GE(memory, a.all[100]);
  EXPECT_EQ(a.owner.ref().usable_size(memory), net(5 * 64 - joined_slices::offset));
  std::memset(memory, 1, net(5 * 64 - joined_slices::offset));
  EXPECT_EQ(a.malloc(64), nullptr) << "all five slices are in use";
  a.free_now(memory);
  for (int i = 0; i < 5; ++i) EXPECT_NE(a.malloc(64), nullptr);
  EXPECT_EQ(a.malloc(64), nullptr);
}

TEST(OtherClasses, AnAllocationTakesAsManySlicesAsItsSizeNeeds) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(100, 4);
  a.owner.clear_faults();
  EXPECT_EQ(a.malloc(241), nullptr) << "of the same class, but for 241 + 16 bytes five are needed";
  EXPECT_EQ(a.owner.first_fault()->size, 241u);
  void* const memory = a.malloc(240);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(a.owner.ref().usable_size(memory), net(240));
  a.free_now(memory);
}

TEST(OtherClasses, LanesOfOneClassGetSlicesForTheLargestOfTheirSizes) {
  QUARRY_TEST_USES_FIBERS();
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(64, 64);
  constexpr std::uint32_t sizes[] = {230, 256, 240, 225};
  void* memory[4] = {};
  simt::launch_fibers({1, 4}, {.seed = 1}, [&, ref = a.owner.ref()] {
    std::uint32_t const lane = simt::this_place().thread;
    memory[lane] = ref.malloc(net(sizes[lane]));
  });
  for (int i = 0; i < 4; ++i) {
    ASSERT_NE(memory[i], nullptr) << i;
    EXPECT_EQ(a.owner.ref().usable_size(memory[i]), net(5 * 64 - joined_slices::offset)) << i;
  }
}

TEST(OtherClasses, LanesOfTwoHeapsSearchApart) {
  QUARRY_TEST_USES_FIBERS();
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    full_heap a{64}, b{48};
    a.free(64, 64);
    b.free(64, 64);
    void* memory[16] = {};
    simt::launch_fibers(
        {1, 16}, {.seed = seed}, [&, refs = std::array{a.owner.ref(), b.owner.ref()}] {
          std::uint32_t const lane = simt::this_place().thread;
          memory[lane] = refs[lane % 2].malloc(net(lane % 2 == 0 ? 240 - lane : 256 - lane));
        });
    for (std::uint32_t lane = 0; lane < 16; ++lane) {
      heap_ref const own = (lane % 2 == 0 ? a : b).owner.ref();
      ASSERT_NE(memory[lane], nullptr) << "seed " << seed << ", lane " << lane;
      EXPECT_EQ(own.usable_size(memory[lane]), net(lane % 2 == 0 ? 240 : 6 * 48 - 16))
          << "seed " << seed << ", lane " << lane;
      heap_internals::free_now(own, memory[lane]);
    }
  }
}

TEST(OtherClasses, AClassThatServedASmallSizeMayHaveTooSmallSlicesForALargerOne) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{32};
  a.free(0, 1024);                      // a whole block
  void* const served = a.malloc(1800);  // by 57 of at most 64 slices
  ASSERT_NE(served, nullptr);
  a.free_now(served);
  EXPECT_EQ(a.malloc(2048), nullptr) << "of the same class, but it needs 65 slices";
  EXPECT_NE(a.malloc(1800), nullptr);
}

TEST(OtherClasses, TooFewAdjacentSlicesServeNothing) {
  full_heap a{64};
  a.free(100, 4);
  a.free(105, 4);
  a.free(126, 4);  // in two words
  EXPECT_EQ(a.malloc(256), nullptr);
  EXPECT_EQ(a.owner.fault_count(fault_kind::out_of_memory), 2u);
}

TEST(OtherClasses, TheOnlyAdjacentSlicesOfManySegmentsServeAnAllocation) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  constexpr std::size_t slices = 32 * 1024;
  full_heap a{64, 32};
  ASSERT_EQ(a.all.size(), slices);
  for (std::size_t i = 0; i < slices; i += 2) a.free(i, 1);
  for (std::size_t const first : {std::size_t{65}, slices / 2 + 513, slices - 63}) {
    a.free(first, 1);
    a.free(first + 2, 1);  // the slices next to both are free
    void* const memory = a.malloc(256);
    ASSERT_NE(memory, nullptr) << first;
    EXPECT_GE(memory, a.all[first - 1]);
    EXPECT_LE(memory, a.all[first + 3]);
    EXPECT_EQ(a.malloc(256), nullptr) << first;
  }
}

TEST(OtherClasses, SmallerClassesComeBeforeLargerOnesButTheNext) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  auto const owner = test::small_heap(16);
  auto const allocate = [&](std::uint32_t size) {
    std::vector<void*> all;
    for (std::uint32_t i = 0; i < 64 * 1024 / size; ++i)
      all.push_back(owner.ref().malloc(net(size)));
    return all;
  };
  auto const third = allocate(160), second = allocate(128), next = allocate(112);
  (void)fill(owner, 64);  // also with the other slices of those classes
  auto live = owner.live_allocations();
  auto const first = std::find_if(live.begin(), live.end(), [&](auto const& each) {
    return each.bytes == 64 && offset_in(each.address, 64 * 64) == 0;
  });
  ASSERT_NE(first, live.end());
  auto* const adjacent = static_cast<char*>(first->address);
  for (void* const each : {third.front(), second.front(), static_cast<void*>(adjacent),
                           static_cast<void*>(adjacent + 64)})
    heap_internals::free_now(owner.ref(), each);
  void* const joined = owner.ref().malloc(net(96));
  ASSERT_NE(joined, nullptr);
  EXPECT_EQ(owner.ref().usable_size(joined), net(2 * 64 - joined_slices::offset));
  heap_internals::free_now(owner.ref(), next.front());
  EXPECT_EQ(owner.ref().malloc(net(96)), next.front());
  expect_sound(owner);
}

TEST(OtherClasses, TheClassWithTheMostSegmentsComesBeforeTheNextLarger) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  auto const owner = test::small_heap(9);
  std::vector<void*> larger;  // one segment
  for (std::uint32_t i = 0; i < 584; ++i) larger.push_back(owner.ref().malloc(net(112)));
  auto const smaller = fill(owner, 64);
  for (std::size_t i = 0; i < smaller.size(); ++i)
    if (i % 8 < 2) heap_internals::free_now(owner.ref(), smaller[i]);
  heap_internals::free_now(owner.ref(), larger.front());
  void* const memory = owner.ref().malloc(net(96));
  ASSERT_NE(memory, nullptr);
  EXPECT_NE(memory, larger.front());
  expect_sound(owner);
}

/// A request for one slice of 256 B that has lasted longer than `microseconds`.
slice_request old_request(heap const& owner, std::uint32_t microseconds) {
  slice_request request{&test::state_of(owner), size_class_of(256), 1};
  while (!request.patience.has_lasted(microseconds)) request.patience.spend();
  return request;
}

TEST(OtherClasses, ALateRequestTriesManyPlacesOfBroadClasses) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64, 32};
  for (std::size_t i = 0; i < a.all.size(); i += 2) a.free(i, 1);
  // in every second segment all slices but the second of eight: five adjacent ones serve a request
  for (std::size_t i = 0; i < a.all.size(); ++i)
    if (i / 1024 % 2 == 0 && i % 2 != 0 && i % 8 != 1) a.free(i, 1);
  auto request = old_request(a.owner, slice_request::microseconds_to_lateness);
  request.now = slice_request::stage::broad_classes;
  for (int i = 0; i < 100; ++i) {
    request.id = request.own_id;
    request.count = 1;
    ASSERT_EQ(other_classes::acquire(request), slice_supply::supply::found) << i;
    joined_slices::separate(*request.state, request.segment,
                            request.index * bits_per_word + lowest_one(request.value));
    slice_return::return_claimed(*request.state, request.segment, request.index, request.value);
  }
}

TEST(OtherClasses, TheLastStageHasItsOwnTime) {
  auto const owner = test::small_heap(1);
  auto request = old_request(owner, slice_request::microseconds_if_nearly_full);
  while (request.now != slice_request::stage::what_was_freed) {
    EXPECT_FALSE(request.examines_all());
    ASSERT_TRUE(request.begin_next_stage());
  }
  EXPECT_TRUE(request.examines_all());
  auto const begin = request.patience.spent();
  while (request.examines_all()) request.patience.spend();
  EXPECT_EQ(request.patience.spent() - begin,
            1000 * slice_request::microseconds_if_nearly_full + 50);
}

TEST(OtherClasses, AFreeBlockServesAnAllocation) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{32, 2};
  a.free(1024, 1024);
  for (int i = 0; i < 16; ++i) EXPECT_NE(a.malloc(1024), nullptr) << i;
}

TEST(OtherClasses, ALargerSliceServesAnAllocation) {
  full_heap a{4096};
  a.free(3, 1);
  void* const memory = a.malloc(64);
  EXPECT_EQ(memory, a.all[3]);
  EXPECT_EQ(a.owner.ref().usable_size(memory), net(4096));
  a.free_now(memory);
  EXPECT_EQ(a.malloc(4096), a.all[3]);
}

TEST(OtherClasses, AdjacentSlicesServeMoreThanTheLargestSlice) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{1024, 3};
  a.free(70, 40);
  EXPECT_EQ(a.malloc(40 * 1024), nullptr) << "with the offset, 41 slices are needed";
  a.free(110, 1);
  auto* const memory = static_cast<char*>(a.malloc(40 * 1024));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory, static_cast<char*>(a.all[70]) + joined_slices::offset);
  EXPECT_EQ(a.owner.ref().usable_size(memory), net(41 * 1024 - joined_slices::offset));
  std::memset(memory, 1, net(40 * 1024));
  EXPECT_EQ(a.owner.ref().realloc(memory, net(36 * 1024)), memory);
  EXPECT_EQ(a.malloc(1024), nullptr) << "all slices are in use";
  EXPECT_EQ(a.owner.ref().allocation_of(memory + 39'000), memory);
  std::size_t listed = 0;
  for (auto const& each : a.owner.live_allocations()) listed += each.address == memory ? 1 : 0;
  EXPECT_EQ(listed, 1u);
  EXPECT_EQ(a.owner.ref().realloc(memory, net(50 * 1024)), nullptr) << "it stays as it is";
  a.free_now(memory + 1024);
  EXPECT_EQ(a.owner.fault_count(fault_kind::interior_pointer), 1u);
  a.free_now(memory);
  a.free_now(memory);
  EXPECT_EQ(a.owner.fault_count(fault_kind::double_free), 1u);
  for (int i = 0; i < 41; ++i) EXPECT_NE(a.malloc(1024), nullptr);
}

TEST(OtherClasses, SlicesServeUpToSixtyThreeSixtyFourthsOfASegment) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{1024, 2};
  a.free(0, 63);
  EXPECT_NE(a.malloc(63 * 1024 - 16), nullptr);
  EXPECT_TRUE(other_classes::may_serve(test::state_of(a.owner), 63 * 1024 - 16));
  EXPECT_FALSE(other_classes::may_serve(test::state_of(a.owner), 63 * 1024 - 15));
  EXPECT_FALSE(other_classes::may_serve(test::state_of(a.owner), bytes{1} << 32));
}

TEST(OtherClasses, AFailedLargeRequestIsOneFault) {
  full_heap a{1024, 2};
  EXPECT_EQ(a.malloc(40 * 1024), nullptr);
  EXPECT_EQ(a.owner.fault_count(fault_kind::out_of_memory), 2u) << "the first is that of `fill`";
  EXPECT_EQ(a.malloc(60 * 1024), nullptr);
  EXPECT_EQ(a.owner.fault_count(fault_kind::out_of_memory), 3u);
}

TEST(OtherClasses, LanesThatCallTogetherShareALargeClaim) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  QUARRY_TEST_USES_FIBERS();
  full_heap a{1024, 32};
  for (std::size_t i = 0; i < 32; ++i) a.free(i * 64, 50);
  std::vector<void*> got(32);
  simt::launch_fibers({1, 32}, {.seed = 1}, [&, ref = a.owner.ref()] {
    got[simt::this_place().thread] = ref.malloc(net(48 * 1024));
  });
  std::sort(got.begin(), got.end());
  EXPECT_EQ(std::unique(got.begin(), got.end()), got.end());
  for (void* const each : got) {
    ASSERT_NE(each, nullptr);
    a.free_now(each);
  }
}

TEST(OtherClasses, AFreeSegmentServesALargeRequestFirst) {
  full_heap a{1024, 2};
  a.free(0, 50);
  a.free(64, 64);
  EXPECT_EQ(a.malloc(40 * 1024), a.all[64]);
}

TEST(OtherClasses, ALargeAlignedRequestGetsNoSlices) {
  full_heap a{1024, 2};
  a.free(0, 63);
  EXPECT_EQ(a.owner.ref().aligned_malloc(32, net(40 * 1024)), nullptr);
  EXPECT_EQ(a.owner.fault_count(fault_kind::out_of_memory), 2u) << "the first is that of `fill`";
}

TEST(OtherClasses, NoSliceServesMoreThanASegment) {
  full_heap a{1024, 2};
  a.free(0, 63);
  a.free(64, 63);
  for (std::uint32_t const size : {63u * 1024 - 15, 64u * 1024, 64u * 1024 + 1, 120u * 1024})
    EXPECT_EQ(a.malloc(size), nullptr) << size;
}

TEST(OtherClasses, TheClassItselfComesFirst) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64, 2};
  a.free(0, 1024);  // one of the segments
  void* const own = a.malloc(256);
  EXPECT_EQ(offset_in(own, 256), 0u);
  EXPECT_EQ(fill(a.owner, 256).size(), 255u);
  a.free(1024, 64);
  a.free_now(own);
  EXPECT_EQ(a.malloc(256), own);
  EXPECT_EQ(offset_in(a.malloc(256), 64), joined_slices::offset);
}

/// A heap of one segment, of whose class all allocations were freed: only the class's run has
/// the segment.
heap heap_with_an_unused_run() {
  auto owner = test::small_heap(1);
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(owner.ref().malloc(net(64)));
  for (void* const each : all) heap_internals::free_now(owner.ref(), each);
  return owner;
}

TEST(OtherClasses, AnUnusedRunIsReclaimedFirst) {
  auto const owner = heap_with_an_unused_run();
  EXPECT_EQ(fill(owner, 256).size(), 256u) << "the whole segment";
  expect_sound(owner);
}

TEST(OtherClasses, AnAlignedAllocationReclaimsAnUnusedRun) {
  auto const owner = heap_with_an_unused_run();
  void* const memory = owner.ref().aligned_malloc(256, net(256));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(offset_in(memory, 256), 0u);
  EXPECT_EQ(owner.fault_count(fault_kind::out_of_memory), 0u);
  expect_sound(owner);
}

TEST(OtherClasses, WhatTheLastStageReclaimsServesAnAllocation) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  auto const owner = test::small_heap(1);
  void* const kept = owner.ref().malloc(net(64));  // keeps the segment for its class
  ASSERT_NE(kept, nullptr);
  void* const memory = owner.ref().malloc(net(256));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(offset_in(memory, 64), joined_slices::offset);
  expect_sound(owner);
}

TEST(OtherClasses, TheHeapListsJoinedSlicesAsOneAllocation) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(64, 64);
  auto const before = a.owner.stats();
  void* const memory = a.malloc(1024);
  ASSERT_NE(memory, nullptr);
  auto const after = a.owner.stats();
  EXPECT_EQ(after.allocations_in_use, before.allocations_in_use + 1);
  EXPECT_EQ(after.allocated, before.allocated + 17 * 64 - joined_slices::offset);
  EXPECT_EQ(after.free_slices, before.free_slices - 17 * 64) << "the offset is not free";
  std::size_t found = 0;
  for (auto const& each : a.owner.live_allocations()) found += each.address == memory ? 1 : 0;
  EXPECT_EQ(found, 1u);
  auto* const bytes_of = static_cast<char*>(memory);
  EXPECT_EQ(a.owner.ref().allocation_of(bytes_of + 700), memory);
  EXPECT_EQ(a.owner.ref().allocation_of(bytes_of - 1), nullptr) << "before the allocation";
  a.free_now(memory);
  EXPECT_EQ(a.owner.ref().allocation_of(bytes_of + 700), nullptr);
}

TEST(OtherClasses, AFullHeapHasNoFreeSlicesAndServesNoSize) {
  full_heap a{64};
  a.free(3, 1);
  EXPECT_EQ(a.owner.stats().largest_free, 64u);
  EXPECT_EQ(a.malloc(64), a.all[3]);
  EXPECT_EQ(a.owner.stats().free_slices, 0u);
  EXPECT_EQ(a.owner.stats().largest_free, 0u) << "hints may say that the class has a slice";
}

TEST(OtherClasses, WrongFreesChangeNothing) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(0, 64);
  auto* const memory = static_cast<char*>(a.malloc(1024));
  ASSERT_NE(memory, nullptr);
  auto const ref = a.owner.ref();
  heap_internals::free_now(ref, memory + 64);
  heap_internals::free_now(ref, memory + 8);
  EXPECT_EQ(a.owner.fault_count(fault_kind::interior_pointer), 2u);
  EXPECT_EQ(ref.allocation_of(memory + 1000), memory);
  heap_internals::free_now(ref, memory);
  heap_internals::free_now(ref, memory);
  EXPECT_EQ(a.owner.fault_count(fault_kind::double_free), 1u);
  EXPECT_EQ(a.owner.fault_count(fault_kind::interior_pointer), 2u);
}

TEST(OtherClasses, ReallocMovesJoinedSlices) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64, 2};
  a.free(0, 64);
  auto* const memory = static_cast<char*>(a.malloc(256));
  ASSERT_NE(memory, nullptr);
  std::strcpy(memory, "kept");
  auto* const grown = static_cast<char*>(a.owner.ref().realloc(memory, 1024));
  ASSERT_NE(grown, nullptr);
  EXPECT_STREQ(grown, "kept");
}

TEST(OtherClasses, ReallocWithinAClassMovesJoinedSlicesThatAreTooFew) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(0, 4);
  void* const memory = a.malloc(225);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(a.owner.ref().realloc(memory, net(240)), memory);
  EXPECT_EQ(a.owner.ref().realloc(memory, net(250)), nullptr) << "of the same class";
  a.free(64, 5);
  void* const moved = a.owner.ref().realloc(memory, net(250));
  ASSERT_NE(moved, nullptr);
  EXPECT_GE(moved, a.all[64]);
}

TEST(OtherClasses, AnAlignedAllocationGetsNoOtherAlignment) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  full_heap a{64};
  a.free(0, 640);
  EXPECT_EQ(a.owner.ref().aligned_malloc(256, 200), nullptr);
  EXPECT_EQ(a.owner.fault_count(fault_kind::out_of_memory), 2u) << "the first is that of `fill`";
  EXPECT_NE(a.malloc(200), nullptr) << "the slices are free again";
}

TEST(OtherClasses, LanesThatCallTogetherShareAClaim) {
  if (!other_classes::joins_slices) GTEST_SKIP() << no_joins;
  QUARRY_TEST_USES_FIBERS();
  full_heap a{64};
  a.free(0, 1024 - 64);
  std::vector<void*> got(32);
  simt::launch_fibers({1, 32}, {.seed = 1}, [&, ref = a.owner.ref()] {
    got[simt::this_place().thread] = ref.malloc(net(256));
  });
  std::sort(got.begin(), got.end());
  EXPECT_EQ(std::unique(got.begin(), got.end()), got.end());
  for (void* const each : got) {
    ASSERT_NE(each, nullptr);
    EXPECT_EQ(a.owner.ref().usable_size(each), net(5 * 64 - joined_slices::offset));
    a.free_now(each);
  }
}

}  // namespace other_classes_test
}  // namespace quarry
