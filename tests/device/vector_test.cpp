// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/vector.hpp"

#include "support/backends.hpp"

namespace quarry {
namespace vector_test {

using namespace test;

/// Each lane changes a vector of vectors as its own random numbers decide. It makes the same
/// changes to plain arrays and compares them.
struct compare_with_array {
  heap_ref heap;
  std::uint32_t seed;
  std::uint32_t* differences;

  QUARRY_HD void operator()() const {
    std::uint32_t random = mix(seed * 1000 + static_cast<std::uint32_t>(simt::this_place().rank()));
    vector<vector<std::uint32_t>> rows{heap};
    std::uint32_t expected[8][40];
    std::uint32_t sizes[8] = {};
    std::uint32_t count = 0;
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < 150; ++i) {
      random = mix(random + i);
      std::uint32_t const row = count == 0 ? 0 : random / 16 % count;
      std::uint32_t const action = random % 16;
      if (action < 2 && count < 8) {
        sizes[count++] = 0;
        wrong += rows.emplace_back(heap) ? 0 : 1;
      } else if (action < 3 && count > 0) {
        --count;
        rows.pop_back();
      } else if (action < 13 && count > 0 && sizes[row] < 40) {
        expected[row][sizes[row]++] = random;
        wrong += rows[row].push_back(random) ? 0 : 1;
      } else if (count > 0 && sizes[row] > 0) {
        --sizes[row];
        rows[row].pop_back();
      }
    }
    wrong += rows.size() == count ? 0 : 1;
    for (std::uint32_t row = 0; row < count; ++row) {
      wrong += rows[row].size() == sizes[row] ? 0 : 1;
      for (std::uint32_t i = 0; i < sizes[row]; ++i)
        wrong += rows[row][i] == expected[row][i] ? 0 : 1;
    }
    if (wrong != 0) simt::atomic_ref<std::uint32_t>{*differences}.fetch_add(wrong, simt::relaxed);
  }
};

/// Appends until an append fails, and records the elements that the vector has then.
struct fill_until_refused {
  heap_ref heap;
  std::uint32_t* size;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    vector<std::uint32_t> numbers{heap};
    while (numbers.push_back(numbers.size())) {
    }
    *size = numbers.size();
    for (std::uint32_t i = 0; i < numbers.size(); ++i) *wrong += numbers[i] == i ? 0 : 1;
    vector<std::uint32_t> taken{std::move(numbers)};
    *wrong += numbers.empty() && taken.size() == *size ? 0 : 1;
    numbers = std::move(taken);
    *wrong += numbers.size() == *size ? 0 : 1;
  }
};

/// Appends an element of the vector to the vector while it grows.
struct append_own_element {
  heap_ref heap;
  std::uint32_t* last;

  QUARRY_HD void operator()() const {
    vector<std::uint32_t> numbers{heap};
    for (std::uint32_t i = 0; i < 40; ++i) (void)numbers.push_back(i == 0 ? 7 : numbers[0]);
    *last = numbers[39];
  }
};

struct push_shared {
  heap_ref heap;
  shared_vector<std::uint32_t>* numbers;
  std::uint32_t pushes_per_lane;
  std::uint32_t* pushed;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    for (std::uint32_t i = 0; i < pushes_per_lane; ++i) {
      if (numbers->push_back(heap, rank * pushes_per_lane + i))
        pushed[rank * pushes_per_lane + i] = 1;
    }
  }
};

/// 64 rows, the first part, are a segment of 64 KiB.
struct row {
  std::uint32_t numbers[256];
};
struct push_rows {
  heap_ref heap;
  shared_vector<row>* rows;
  std::uint32_t pushes_per_lane;
  std::uint32_t* pushed;

  QUARRY_HD void operator()() const {
    row const empty{};
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < pushes_per_lane; ++i)
      count += rows->push_back(heap, empty) ? 1 : 0;
    simt::atomic_ref<std::uint32_t>{*pushed}.fetch_add(count, simt::relaxed);
  }
};
struct clear_rows {
  heap_ref heap;
  shared_vector<row>* rows;
  QUARRY_HD void operator()() const { rows->clear(heap); }
};

/// As push_shared, but every fourth lane allocates, writes and frees memory instead. So parts are
/// allocated from memory of lanes that do not push, without other synchronisation.
struct push_beside_users {
  push_shared push;
  std::uint32_t rounds;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    if (rank % 4 != 0) return push();
    for (std::uint32_t i = 0; i < rounds; ++i) {
      std::uint32_t const count = shared_vector<std::uint32_t>::first_part << i % 5;
      auto* const memory =
          static_cast<std::uint32_t*>(push.heap.malloc(count * sizeof(std::uint32_t)));
      if (memory == nullptr) continue;
      for (std::uint32_t k = 0; k < count; ++k) memory[k] = k;
      push.heap.free(memory);
    }
  }
};

/// One lane subtracts each element from `pushed`, so that all entries are zero if the vector is
/// correct. Then it clears the vector.
struct take_shared {
  heap_ref heap;
  shared_vector<std::uint32_t>* numbers;
  std::uint32_t* pushed;
  std::uint32_t* size;

  QUARRY_HD void operator()() const {
    *size = numbers->size();
    for (std::uint32_t i = 0; i < *size; ++i) --pushed[(*numbers)[i]];
    numbers->clear(heap);
  }
};

constexpr heap_options tiny_heap{.bytes = 256_KiB, .segment_bytes = 64_KiB};

template <class Backend>
struct Vector : testing::Test {};
TYPED_TEST_SUITE(Vector, backends, backend_names);

TYPED_TEST(Vector, CanAppendItsOwnElement) {
  TypeParam const backend;
  auto const heap = backend.make_heap(tiny_heap);
  typename TypeParam::template array<std::uint32_t> last(1);
  backend.run({}, append_own_element{heap.ref(), last.data()});
  EXPECT_EQ(last[0], 7u);
  expect_sound_and_empty(heap);
}

TYPED_TEST(Vector, KeepsItsElementsWhenItCannotGrow) {
  TypeParam const backend;
  auto const heap = backend.make_heap(tiny_heap);
  typename TypeParam::template array<std::uint32_t> size(1), wrong(1);
  backend.run({}, fill_until_refused{heap.ref(), size.data(), wrong.data()});
  EXPECT_GE(size[0], 1000u);
  EXPECT_EQ(wrong[0], 0u);
  EXPECT_GE(heap.fault_count(fault_kind::out_of_memory), 1u);
  expect_sound(heap);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(Vector, AgreesWithAPlainArray) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 8_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<std::uint32_t> differences(1);
    backend.run(small_grid, compare_with_array{heap.ref(), static_cast<std::uint32_t>(seed),
                                               differences.data()});
    EXPECT_EQ(differences[0], 0u);
    expect_sound_and_empty(heap);
  }
}

template <class Backend>
struct SharedVector : testing::Test {};
TYPED_TEST_SUITE(SharedVector, backends, backend_names);

TYPED_TEST(SharedVector, ContainsEveryAppendedElementOnce) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<shared_vector<std::uint32_t>> numbers(1);
    typename TypeParam::template array<std::uint32_t> pushed(128 * 10), size(1);
    backend.run(small_grid, push_shared{heap.ref(), numbers.data(), 10, pushed.data()});
    expect_sound(heap);
    backend.run({}, take_shared{heap.ref(), numbers.data(), pushed.data(), size.data()});
    EXPECT_EQ(size[0], 1280u);
    EXPECT_EQ(std::count(pushed.begin(), pushed.end(), 0), 1280);
    expect_sound_and_empty(heap);
  }
}

TYPED_TEST(SharedVector, WritesToMemoryThatAnotherLaneFreed) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 512_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<shared_vector<std::uint32_t>> numbers(1);
    typename TypeParam::template array<std::uint32_t> pushed(128 * 10), size(1);
    backend.run(small_grid, push_beside_users{{heap.ref(), numbers.data(), 10, pushed.data()}, 40});
    auto const count = std::count(pushed.begin(), pushed.end(), 1);
    backend.run({}, take_shared{heap.ref(), numbers.data(), pushed.data(), size.data()});
    EXPECT_EQ(size[0], static_cast<std::uint32_t>(count));
    EXPECT_EQ(std::count(pushed.begin(), pushed.end(), 0), 1280);
    expect_sound(heap);
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

/// Each refusal searches the whole heap. So there are only 192 pushes more than the heap has memory
/// for: 64 * 63 elements, or in the hardened mode, which adds bytes to each part, the first part.
TYPED_TEST(SharedVector, RefusesElementsWithoutMemoryAndHasNoGaps) {
  constexpr std::uint32_t pushes_per_lane = is_on(mitigation::canary) ? 2 : 33;
  constexpr std::uint32_t pushes = 128 * pushes_per_lane;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<shared_vector<std::uint32_t>> numbers(1);
    typename TypeParam::template array<std::uint32_t> pushed(pushes), size(1);
    backend.run(small_grid,
                push_shared{heap.ref(), numbers.data(), pushes_per_lane, pushed.data()});
    auto const count = std::count(pushed.begin(), pushed.end(), 1);
    EXPECT_GE(count, 64) << "the first part";
    EXPECT_LE(count, 64 * 63) << "64 slices of the first part's class do not hold the seventh part";
    backend.run({}, take_shared{heap.ref(), numbers.data(), pushed.data(), size.data()});
    EXPECT_EQ(size[0], static_cast<std::uint32_t>(count));
    EXPECT_EQ(std::count(pushed.begin(), pushed.end(), 0), pushes);
    expect_sound(heap);
    EXPECT_TRUE(heap.live_allocations().empty());
  }
}

/// The heap has memory for three parts once, and for no part twice as often as lanes need it.
TYPED_TEST(SharedVector, LanesThatNeedAPartTogetherAreNotRefusedBecauseOthersAllocateItToo) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    // the hardened mode adds bytes to each part
    bytes const size = is_on(mitigation::canary) ? 1_MiB : 512_KiB;
    auto const heap = backend.make_heap({.bytes = size, .segment_bytes = 64_KiB});
    typename TypeParam::template array<shared_vector<row>> rows(1);
    typename TypeParam::template array<std::uint32_t> pushed(1);
    backend.run(small_grid, push_rows{heap.ref(), rows.data(), 3, pushed.data()});
    EXPECT_EQ(pushed[0], 384u) << "of 448 rows of the three parts";
    EXPECT_EQ(rows[0].size(), 384u);
    EXPECT_EQ(heap.fault_count(fault_kind::out_of_memory), 0u);
    expect_sound(heap);
    backend.run({}, clear_rows{heap.ref(), rows.data()});
    expect_sound_and_empty(heap);
  }
}

}  // namespace vector_test
}  // namespace quarry
