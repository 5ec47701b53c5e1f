// SPDX-License-Identifier: Apache-2.0
// Containers of two heaps, used by lanes of one warp at the same time.
#include "quarry/device/hash_map.hpp"
#include "quarry/device/id_set.hpp"
#include "quarry/device/list.hpp"
#include "quarry/device/string.hpp"
#include "quarry/device/vector.hpp"
#include "support/backends.hpp"

namespace quarry {
namespace two_heaps_test {

using namespace test;

constexpr std::uint32_t each = 12;  // values of a lane in each container

/// The containers of one heap that lanes share.
struct containers {
  heap_ref heap;
  shared_vector<std::uint32_t> numbers;
  list<std::uint32_t> pushed;
  id_set ids;
  hash_map_ref<std::uint32_t, std::uint32_t*> blocks;
};

/// Even lanes use the first containers, odd lanes the second. What a lane inserts, erases and frees
/// is its own; what it allocates must lie in the heap of its containers.
struct use_one_of_two {
  containers* both;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    containers& own = both[rank % 2];
    vector<std::uint32_t> plain{own.heap};
    string<> text{own.heap};
    for (std::uint32_t i = 0; i < each; ++i) {
      std::uint32_t const value = rank * each + i;
      auto* const block = static_cast<std::uint32_t*>(own.heap.malloc(16 + value % 50));
      check(block != nullptr && own.blocks.insert(value, block) == change_result::done);
      check(plain.push_back(value) && own.heap.owns(plain.data()));
      check(text.append_number(value) && own.heap.owns(text.data()));
      check(own.numbers.push_back(own.heap, value));
      check(own.pushed.push_front(own.heap, value));
      check(own.ids.insert(own.heap, value) == change_result::done);
    }
    for (std::uint32_t i = 0; i < each; ++i) {
      std::uint32_t const value = rank * each + i;
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

/// One lane makes the containers, or counts what they hold and empties them.
struct make_both {
  containers* both;
  heap_ref heaps[2];
  std::uint32_t capacity;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 0; i < 2; ++i) {
      both[i].heap = heaps[i];
      both[i].blocks = hash_map_ref<std::uint32_t, std::uint32_t*>::make(heaps[i], capacity);
    }
  }
};
struct count_and_clear {
  containers* both;
  std::uint32_t* counts;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 0; i < 2; ++i) {
      counts[0] += both[i].numbers.size();
      counts[1] += both[i].ids.audit() ? both[i].ids.size() : 0;
      for (auto taken = both[i].pushed.pop_all(both[i].heap); !taken.empty(); taken.drop_front())
        ++counts[2];
      both[i].numbers.clear(both[i].heap);
      both[i].ids.clear(both[i].heap);
      both[i].blocks.destroy(both[i].heap);
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
    typename TypeParam::template array<containers> both(2);
    typename TypeParam::template array<std::uint32_t> wrong(1), counts(3);
    backend.run({1, 1}, make_both{both.data(), {even.ref(), odd.ref()}, lanes * each});
    backend.run({2, lanes / 2}, use_one_of_two{both.data(), wrong.data()});
    backend.run({1, 1}, count_and_clear{both.data(), counts.data()});
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(counts[0], lanes * each);
    EXPECT_EQ(counts[1], lanes * each / 2);
    EXPECT_EQ(counts[2], lanes * each);
    expect_sound_and_empty(even);
    expect_sound_and_empty(odd);
    if (this->HasFailure()) return;
  }
}

}  // namespace two_heaps_test
}  // namespace quarry
