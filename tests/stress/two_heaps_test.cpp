// SPDX-License-Identifier: Apache-2.0
// Lanes of one warp use containers of two heaps at the same time.
#include "quarry/device/hash_map.hpp"
#include "quarry/device/id_set.hpp"
#include "quarry/device/list.hpp"
#include "quarry/device/string.hpp"
#include "quarry/device/vector.hpp"
#include "support/backends.hpp"

namespace quarry {
namespace two_heaps_test {

using namespace test;

constexpr std::uint32_t values_per_lane = 12;  // in each container

/// The containers of one heap that lanes share.
struct containers {
  heap_ref heap;
  shared_vector<std::uint32_t> numbers;
  list<std::uint32_t> pushed;
  id_set ids;
  hash_map_ref<std::uint32_t, std::uint32_t*> blocks;
};

/// Even lanes use the first containers, odd lanes the second. Each lane inserts, erases and frees
/// its own values. Its allocations must lie in the heap of its containers.
struct use_one_of_two {
  containers* heap_containers;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    containers& own = heap_containers[rank % 2];
    vector<std::uint32_t> plain{own.heap};
    string<> text{own.heap};
    for (std::uint32_t i = 0; i < values_per_lane; ++i) {
      std::uint32_t const value = rank * values_per_lane + i;
      auto* const block = static_cast<std::uint32_t*>(own.heap.malloc(16 + value % 50));
      check(block != nullptr && own.blocks.insert(value, block) == change_result::done);
      check(plain.push_back(value) && own.heap.owns(plain.data()));
      check(text.append_number(value) && own.heap.owns(text.data()));
      check(own.numbers.push_back(own.heap, value));
      check(own.pushed.push_front(own.heap, value));
      check(own.ids.insert(own.heap, value) == change_result::done);
    }
    for (std::uint32_t i = 0; i < values_per_lane; ++i) {
      std::uint32_t const value = rank * values_per_lane + i;
      std::uint32_t* block = nullptr;
      check(own.blocks.find(value, block) && own.heap.owns(block));
      own.heap.free(block);
      check(plain[i] == value);
      check(own.ids.contains(value));
      if (i % 2 == 0) check(own.ids.erase(own.heap, value) == change_result::done);
    }
  }

  QUARRY_HD void check(bool is_right) const {
    if (!is_right) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
  }
};

/// One lane makes the containers.
struct make_containers {
  containers* heap_containers;
  heap_ref heaps[2];
  std::uint32_t capacity;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 0; i < 2; ++i) {
      heap_containers[i].heap = heaps[i];
      heap_containers[i].blocks =
          hash_map_ref<std::uint32_t, std::uint32_t*>::make(heaps[i], capacity);
    }
  }
};
/// One lane counts the values of the containers and empties them.
struct count_and_clear {
  containers* heap_containers;
  std::uint32_t* counts;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 0; i < 2; ++i) {
      counts[0] += heap_containers[i].numbers.size();
      counts[1] += heap_containers[i].ids.audit() ? heap_containers[i].ids.size() : 0;
      for (auto taken = heap_containers[i].pushed.pop_all(heap_containers[i].heap); !taken.empty();
           taken.drop_front())
        ++counts[2];
      heap_containers[i].numbers.clear(heap_containers[i].heap);
      heap_containers[i].ids.clear(heap_containers[i].heap);
      heap_containers[i].blocks.destroy(heap_containers[i].heap);
    }
  }
};

template <class Backend>
struct TwoHeaps : testing::Test {};
TYPED_TEST_SUITE(TwoHeaps, backends, backend_names);

TYPED_TEST(TwoHeaps, ServeTheContainersOfLanesOfOneWarp) {
  constexpr std::uint32_t lanes = 80;
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const even = backend.make_heap({.bytes = 4_MiB, .segment_bytes = 64_KiB});
    auto const odd = backend.make_heap({.bytes = 4_MiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<containers> heap_containers(2);
    typename TypeParam::template array<std::uint32_t> wrong(1), counts(3);
    backend.run(
        {1, 1},
        make_containers{heap_containers.data(), {even.ref(), odd.ref()}, lanes * values_per_lane});
    backend.run({2, lanes / 2}, use_one_of_two{heap_containers.data(), wrong.data()});
    backend.run({1, 1}, count_and_clear{heap_containers.data(), counts.data()});
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(counts[0], lanes * values_per_lane);
    EXPECT_EQ(counts[1], lanes * values_per_lane / 2);
    EXPECT_EQ(counts[2], lanes * values_per_lane);
    expect_sound_and_empty(even);
    expect_sound_and_empty(odd);
    if (this->HasFailure()) return;
  }
}

}  // namespace two_heaps_test
}  // namespace quarry
