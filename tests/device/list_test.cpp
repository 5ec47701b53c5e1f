// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/list.hpp"

#include "support/backends.hpp"

namespace quarry {
namespace list_test {

using namespace test;

/// Each lane pushes its numbers. Every eighth lane also pops all elements now and then. Each
/// successful push adds to the balance of its number, and each pop subtracts from it.
struct push_and_pop {
  heap_ref heap;
  list<std::uint32_t>* numbers;
  std::uint32_t pushes_per_lane;
  bool pops;
  std::int32_t* balance;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    for (std::uint32_t i = 0; i < pushes_per_lane; ++i) {
      std::uint32_t const number = rank * pushes_per_lane + i;
      if (numbers->push_front(heap, number))
        simt::atomic_ref<std::int32_t>{balance[number]}.fetch_add(1, simt::relaxed);
      if (pops && rank % 8 == 0) take();
    }
  }

  QUARRY_HD void take() const {
    for (auto taken = numbers->pop_all(heap); !taken.empty(); taken.drop_front()) {
      simt::atomic_ref<std::int32_t>{balance[taken.front()]}.fetch_sub(1, simt::relaxed);
    }
  }
};

struct take_rest {
  push_and_pop popper;
  QUARRY_HD void operator()() const { popper.take(); }
};

/// Runs on one lane. Records whether pop_all returns the newest element first. Drops the rest of
/// the chain, which must free its elements.
struct push_three {
  heap_ref heap;
  list<std::uint32_t>* numbers;
  std::uint32_t* order;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 1; i <= 3; ++i) (void)numbers->push_front(heap, i);
    auto taken = numbers->pop_all(heap);
    order[0] = taken.front();
    taken.drop_front();
    order[1] = taken.front();
    order[2] = numbers->pop_all(heap).empty() ? 1 : 0;
  }
};

template <class Backend>
struct List : testing::Test {};
TYPED_TEST_SUITE(List, backends, backend_names);

TYPED_TEST(List, ReturnsTheNewestFirstAndFreesDroppedElements) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<list<std::uint32_t>> numbers(1);
  typename TypeParam::template array<std::uint32_t> order(3);
  backend.run({}, push_three{heap.ref(), numbers.data(), order.data()});
  EXPECT_EQ(order[0], 3u);
  EXPECT_EQ(order[1], 2u);
  EXPECT_EQ(order[2], 1u) << "the list was empty after pop_all";
  expect_sound_and_empty(heap);
}

TYPED_TEST(List, RefusesElementsWithoutMemoryAndKeepsTheOthers) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<list<std::uint32_t>> numbers(1);
  typename TypeParam::template array<std::int32_t> balance(128 * 50);
  push_and_pop const kernel{heap.ref(), numbers.data(), 50, false, balance.data()};
  backend.run(small_grid, kernel);
  auto const pushed = std::count(balance.begin(), balance.end(), 1);
  EXPECT_GT(pushed, 0);
  EXPECT_LT(pushed, 128 * 50) << "a segment has room for fewer elements";
  EXPECT_EQ(heap.stats().allocations_in_use, static_cast<std::uint64_t>(pushed));
  backend.run({}, take_rest{kernel});
  EXPECT_EQ(std::count(balance.begin(), balance.end(), 0), 128 * 50);
  expect_sound(heap);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(List, ReturnsEachElementToOneLane) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<list<std::uint32_t>> numbers(1);
    typename TypeParam::template array<std::int32_t> balance(128 * 12);
    push_and_pop const kernel{heap.ref(), numbers.data(), 12, true, balance.data()};
    for (int step = 0; step < 3; ++step) {
      backend.run(small_grid, kernel);
      expect_sound(heap);
    }
    backend.run({}, take_rest{kernel});
    EXPECT_EQ(std::count(balance.begin(), balance.end(), 0), 128 * 12);
    expect_sound_and_empty(heap);
  }
}

}  // namespace list_test
}  // namespace quarry
