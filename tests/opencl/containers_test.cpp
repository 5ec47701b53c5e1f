// SPDX-License-Identifier: Apache-2.0
// The containers for OpenCL kernels as C++, compared with std's. Fibers explore interleavings, and
// threads run under ThreadSanitizer. kernels_test.cpp runs them on devices.
#include "opencl/container_fixture.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace quarry::test {
namespace opencl_containers_test {

using namespace opencl_fixture;

/// Runs `body(item)` in 64 work-items, for each seed in fibers from a new fixture, then checks.
template <class Container, class Body, class Check>
void explore(Body const& body, Check const& check) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fixture<Container> f;
    simt::launch_fibers({2, 32}, {.seed = seed},
                        [&] { body(f, static_cast<uint>(simt::this_place().rank())); });
    check(f);
    if (testing::Test::HasFatalFailure()) return;
  }
}
template <class Container, class Body, class Check>
void run_on_threads(Body const& body, Check const& check) {
  for (int round = 0; round < 20; ++round) {
    fixture<Container> f;
    simt::launch_threads({4, 1}, 4, [&] { body(f, static_cast<uint>(simt::this_place().rank())); });
    check(f);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// --- allocations of a group

TEST(OpenclGroup, EachWorkItemGetsAnAllocationOfItsOwn) {
  struct nothing {
    uint unused;
  };
  for (std::uint64_t const seed : fiber_seeds()) {
    fixture<nothing> f;
    std::vector<quarry_ref> got(items);
    auto const size_of = [](uint item) -> ulong {
      if (item % 7 == 3) return QUARRY_NOTHING;
      return item == 40 ? 20'000 : item % 3 == 0 ? 8 : 100;
    };
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      auto const item = static_cast<uint>(simt::this_place().rank());
      got[item] = quarry_malloc_group(f.heap, size_of(item), f.local());
    });
    std::multiset<quarry_ref> live{f.at};
    for (uint item = 0; item < items; ++item) {
      ASSERT_EQ(got[item] == 0, size_of(item) == QUARRY_NOTHING) << item;
      if (got[item] == 0) continue;
      live.insert(got[item]);
      EXPECT_GE(quarry_usable_size(f.heap, got[item]), size_of(item));
    }
    ASSERT_EQ(f.on_host.audit(live), "") << "seed " << seed;
    for (auto const one : got) EXPECT_TRUE(quarry_free(f.heap, one));
    ASSERT_EQ(f.audit(), "");
  }
}

TEST(OpenclGroup, WithoutMemoryEachWorkItemGetsNullAndAFault) {
  fixture<quarry_queue> f{64_KiB};
  while (quarry_malloc(f.heap, 64) != 0) {
  }
  auto const faults = f.on_host.faults(QUARRY_FAULT_OUT_OF_MEMORY);
  std::vector<quarry_ref> got(32, 1);
  simt::launch_fibers({1, 32}, {.seed = 1}, [&] {
    got[simt::this_place().thread] = quarry_malloc_group(f.heap, 64, f.local());
  });
  EXPECT_EQ(got, std::vector<quarry_ref>(32, 0));
  EXPECT_EQ(f.on_host.faults(QUARRY_FAULT_OUT_OF_MEMORY), faults + 32);
}

// --- vector

void expect_each_once(fixture<quarry_vector>& f, std::size_t count) {
  ASSERT_EQ(f.container->size, count);
  ASSERT_EQ(f.container->lost, 0u);
  std::vector<uint> values;
  for (uint i = 0; i < count; ++i) {
    auto const* const element = static_cast<uint const*>(quarry_vector_at(f.heap, f.container, i));
    ASSERT_NE(element, nullptr) << i;
    values.push_back(*element);
  }
  EXPECT_EQ(quarry_vector_at(f.heap, f.container, f.container->size), nullptr);
  std::sort(values.begin(), values.end());
  for (uint i = 0; i < count; ++i) ASSERT_EQ(values[i], i);
  quarry_vector_clear(f.heap, f.container);
  EXPECT_EQ(f.audit(), "");
}
void push(fixture<quarry_vector>& f, uint value) {
  uint const index = quarry_vector_push(f.heap, f.container, 1);
  ASSERT_NE(index, QUARRY_NONE);
  *static_cast<uint*>(quarry_vector_at(f.heap, f.container, index)) = value;
}

TEST(OpenclVector, EachPushGetsAnElementOfItsOwn) {
  explore<quarry_vector>(
      [](auto& f, uint item) {
        for (uint i = 0; i < 3; ++i) push(f, item * 3 + i);
      },
      [](auto& f) { expect_each_once(f, items * 3); });
}
TEST(OpenclVectorOnThreads, EachPushGetsAnElementOfItsOwn) {
  run_on_threads<quarry_vector>(
      [](auto& f, uint item) {
        for (uint i = 0; i < 200; ++i) push(f, item * 200 + i);
      },
      [](auto& f) { expect_each_once(f, 800); });
}
TEST(OpenclVector, AGroupPushesAtOnce) {
  explore<quarry_vector>(
      [](auto& f, uint item) {
        uint const count = item % 3;
        uint const first = quarry_vector_push_group(f.heap, f.container, count, f.local());
        ASSERT_EQ(first == QUARRY_NONE, count == 0);
        uint const value = item / 3 * 3 + (count == 2 ? 1 : 0);  // 1 or 2 consecutive numbers
        for (uint i = 0; i < count; ++i)
          *static_cast<uint*>(quarry_vector_at(f.heap, f.container, first + i)) = value + i;
      },
      [](auto& f) { expect_each_once(f, 63); });
}
// --- array list

TEST(OpenclArrayList, AGroupGrowsByOneAllocationAndEachWorkItemGetsItsPart) {
  explore<quarry_array_list>(
      [](auto& f, uint item) {
        uint index = QUARRY_NONE;
        auto* const part = static_cast<unsigned char*>(
            quarry_array_list_grow_local(f.heap, f.container, item % 4, &index, f.local()));
        ASSERT_EQ(part == nullptr, item % 4 == 0);
        for (uint i = 0; i < item % 4; ++i) *reinterpret_cast<uint*>(part + i * 4) = index + i;
      },
      [](auto& f) {
        ASSERT_EQ(f.container->size, 96u);
        EXPECT_EQ(f.on_host.audit({f.at}), "3 allocations, not 1");  // one for each group
        for (uint i = 0; i < 96; ++i)
          ASSERT_EQ(*static_cast<uint*>(quarry_array_list_get(f.heap, f.container, i)), i);
        EXPECT_EQ(quarry_array_list_get(f.heap, f.container, 96), nullptr);
        quarry_array_list_clear(f.heap, f.container);
        EXPECT_EQ(f.audit(), "");
      });
}
TEST(OpenclArrayList, WithoutMemoryNothingChanges) {
  fixture<quarry_array_list> f{64_KiB};
  quarry_array_list_init(f.container, 4);
  uint index = 7;
  EXPECT_EQ(quarry_array_list_grow(f.heap, f.container, 1u << 20, &index), nullptr);
  EXPECT_EQ(quarry_array_list_grow(f.heap, f.container, 0, &index), nullptr);
  EXPECT_EQ(index, 7u);
  EXPECT_EQ(f.container->size, 0u);
  EXPECT_EQ(f.audit(), "");
}

// --- queue

/// Each work-item pushes `count` values and pops until it has as many. No value is lost or popped
/// twice, and the values of one work-item are popped in order.
template <class F>
void push_and_pop(F& f, uint item, uint count, std::vector<std::vector<uint>>& popped) {
  for (uint i = 0; i < count; ++i) {
    ASSERT_TRUE(quarry_queue_push(f.heap, f.container, item * count + i));
    uint value = 0;
    if (i % 2 == 1 && quarry_queue_pop(f.heap, f.container, &value)) popped[item].push_back(value);
  }
}
void expect_all(fixture<quarry_queue>& f, uint producers, uint count,
                std::vector<std::vector<uint>>& popped) {
  std::vector<std::vector<uint>> in_order = popped;
  uint value = 0;
  in_order.emplace_back();
  while (quarry_queue_pop(f.heap, f.container, &value)) in_order.back().push_back(value);
  std::vector<uint> all;
  for (auto const& one : in_order) {
    std::map<uint, uint> last;
    for (uint const v : one) {
      auto const [place, is_first] = last.try_emplace(v / count, v);
      ASSERT_TRUE(is_first || place->second < v) << "a work-item's values are out of order";
      place->second = v;
      all.push_back(v);
    }
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), producers * count);
  for (uint i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
  quarry_queue_trim(f.heap, f.container);
  EXPECT_TRUE(quarry_queue_push(f.heap, f.container, 5));
  EXPECT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
  EXPECT_EQ(value, 5u);
  quarry_queue_clear(f.heap, f.container);
  EXPECT_EQ(f.audit(), "");
}

TEST(OpenclQueue, NoValueIsLostOrPoppedTwice) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fixture<quarry_queue> f;
    std::vector<std::vector<uint>> popped(items);
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      push_and_pop(f, static_cast<uint>(simt::this_place().rank()), 4, popped);
    });
    expect_all(f, items, 4, popped);
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclQueueOnThreads, NoValueIsLostOrPoppedTwice) {
  for (int round = 0; round < 20; ++round) {
    fixture<quarry_queue> f;
    std::vector<std::vector<uint>> popped(4);
    simt::launch_threads({4, 1}, 4, [&] {
      push_and_pop(f, static_cast<uint>(simt::this_place().rank()), 300, popped);
    });
    expect_all(f, 4, 300, popped);
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclQueue, WithoutMemoryAPushChangesNothing) {
  fixture<quarry_queue> f{64_KiB};
  uint pushed = 0, value = 0;
  while (quarry_queue_push(f.heap, f.container, pushed)) ++pushed;
  for (uint i = 0; i < pushed; ++i) {
    ASSERT_TRUE(quarry_queue_pop(f.heap, f.container, &value));
    ASSERT_EQ(value, i);
  }
  EXPECT_FALSE(quarry_queue_pop(f.heap, f.container, &value));
}

// --- maps

void expect_empty_after_clear(fixture<quarry_map>& f) {
  uint const size = f.container->size;
  EXPECT_EQ(quarry_map_clear(f.heap, f.container, 0, 1), size);
  EXPECT_EQ(f.container->size, 0u);
  (void)quarry_map_free_erased(f.heap, f.container);
  EXPECT_TRUE(quarry_free(f.heap, f.container->table));
  EXPECT_EQ(f.audit(), "");
}

TEST(OpenclMap, WorkItemsThatAddOneKeyAgreeOnOneEntry) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fixture<quarry_map> f;
    make_table(f, 64);
    std::vector<std::vector<quarry_ref>> entries(items);
    uint added = 0;
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      auto const item = static_cast<uint>(simt::this_place().rank());
      for (uint key = 0; key < 8; ++key) {
        bool is_new = false;
        entries[item].push_back(quarry_map_ensure(f.heap, f.container, key * 64, item, &is_new));
        if (is_new) simt::atomic_ref<uint>{added}.fetch_add(1, simt::relaxed);
      }
    });
    EXPECT_EQ(added, 8u);
    EXPECT_EQ(f.container->size, 8u);
    for (auto const& one : entries) ASSERT_EQ(one, entries[0]);
    for (uint key = 0; key < 8; ++key)
      EXPECT_EQ(quarry_map_find(f.heap, f.container, key * 64), entries[0][key]);
    EXPECT_EQ(quarry_map_find(f.heap, f.container, 3), 0u);
    expect_empty_after_clear(f);
    if (HasFatalFailure()) return;
  }
}

/// Work-items add, find and erase their own keys among the keys of others. `model` is std's map.
template <class F>
void use_own_keys(F& f, uint item, uint stride, uint steps) {
  std::map<uint, uint> model;
  uint random = item * 7919 + 1;
  for (uint step = 0; step < steps; ++step) {
    random = random * 1664525u + 1013904223u;
    uint const key = (random >> 8) % 6 * stride + item;
    quarry_ref const found = quarry_map_find(f.heap, f.container, key);
    ASSERT_EQ(found != 0, model.contains(key));
    if (found != 0) {
      ASSERT_EQ(*quarry_map_value(f.heap, found), model.at(key));
      ASSERT_TRUE(quarry_map_erase(f.heap, f.container, key));
      ASSERT_FALSE(quarry_map_erase(f.heap, f.container, key));
      model.erase(key);
    } else {
      bool is_new = false;
      ASSERT_NE(quarry_map_ensure(f.heap, f.container, key, step, &is_new), 0u);
      ASSERT_TRUE(is_new);
      model[key] = step;
    }
  }
}
TEST(OpenclMap, WorkItemsSeeTheirOwnChangesOnly) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fixture<quarry_map> f;
    make_table(f, seed % 2 == 0 ? 2 : 64);  // long chains, and short ones
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      use_own_keys(f, static_cast<uint>(simt::this_place().rank()), items, 12);
    });
    expect_empty_after_clear(f);
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclMapOnThreads, WorkItemsSeeTheirOwnChangesOnly) {
  for (int round = 0; round < 10; ++round) {
    fixture<quarry_map> f;
    make_table(f, round % 2 == 0 ? 1 : 16);
    simt::launch_threads(
        {4, 1}, 4, [&] { use_own_keys(f, static_cast<uint>(simt::this_place().rank()), 4, 200); });
    expect_empty_after_clear(f);
    if (HasFatalFailure()) return;
  }
}
/// Work-items add and erase the same few keys. `balance` counts the additions of each key less its
/// removals.
template <class F>
void use_shared_keys(F& f, uint item, uint steps, std::vector<uint>& balance) {
  uint random = item * 7919 + 1;
  for (uint step = 0; step < steps; ++step) {
    random = random * 1664525u + 1013904223u;
    uint const key = (random >> 8) % static_cast<uint>(balance.size());
    simt::atomic_ref<uint> const count{balance[key]};
    bool is_new = false;
    if ((random >> 20) % 2 == 0) {
      quarry_ref const entry = quarry_map_ensure(f.heap, f.container, key, key + 7, &is_new);
      ASSERT_NE(entry, 0u);
      ASSERT_EQ(quarry_map_entry_at(f.heap, entry)->key, key);
      ASSERT_EQ(*quarry_map_value(f.heap, entry), key + 7);
      if (is_new) count.fetch_add(1, simt::relaxed);
    } else if (quarry_map_erase(f.heap, f.container, key)) {
      count.fetch_sub(1, simt::relaxed);
    }
  }
}
void expect_balanced(fixture<quarry_map>& f, std::vector<uint> const& balance) {
  uint size = 0;
  for (uint key = 0; key < balance.size(); ++key) {
    bool const is_there = quarry_map_find(f.heap, f.container, key) != 0;
    ASSERT_EQ(balance[key], is_there ? 1u : 0u) << "key " << key;
    size += is_there ? 1 : 0;
  }
  ASSERT_EQ(f.container->size, size);
  uint in_chains = 0;
  for (uint bucket = 0; bucket < quarry_map_buckets(f.container); ++bucket)
    for (auto entry = *quarry_map_bucket(f.heap, f.container, bucket); entry != 0;
         entry = quarry_map_entry_at(f.heap, entry)->chain)
      ++in_chains;
  ASSERT_EQ(in_chains, size) << "an erased entry is still in its chain";
  expect_empty_after_clear(f);
}
TEST(OpenclMap, OfAKeyThatManyAddAndEraseThereIsOneEntryAtMost) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fixture<quarry_map> f;
    make_table(f, 1 + static_cast<uint>(seed % 2));
    std::vector<uint> balance(1 + seed % 5);
    simt::launch_fibers({2, 32}, {.seed = seed}, [&] {
      use_shared_keys(f, static_cast<uint>(simt::this_place().rank()), 20, balance);
    });
    expect_balanced(f, balance);
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclMapOnThreads, OfAKeyThatManyAddAndEraseThereIsOneEntryAtMost) {
  for (uint round = 0; round < 20; ++round) {
    fixture<quarry_map> f;
    make_table(f, 1);
    std::vector<uint> balance(1 + round % 5);
    simt::launch_threads({4, 1}, 4, [&] {
      use_shared_keys(f, static_cast<uint>(simt::this_place().rank()), 1000, balance);
    });
    expect_balanced(f, balance);
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclMap, AnotherTableAcceptsAllEntries) {
  for (uint const buckets : {64u, 8u, 1u}) {
    fixture<quarry_map> f;
    make_table(f, 8);
    bool is_new = false;
    for (uint key = 0; key < 20; ++key)
      ASSERT_NE(quarry_map_ensure(f.heap, f.container, key, key + 1, &is_new), 0u);
    ASSERT_TRUE(quarry_map_erase(f.heap, f.container, 5));
    EXPECT_EQ(quarry_map_free_erased(f.heap, f.container), 1u);

    quarry_map other = {};
    ASSERT_TRUE(quarry_map_init(f.heap, &other, buckets));
    ASSERT_TRUE(quarry_map_empty(f.heap, &other, 0, 1));
    for (uint item = 0; item < 3; ++item)
      EXPECT_TRUE(quarry_map_move(f.heap, f.container, &other, item, 3));
    EXPECT_EQ(f.container->size, 0u);
    EXPECT_TRUE(quarry_free(f.heap, f.container->table));
    *f.container = other;
    EXPECT_EQ(other.size, 19u);
    for (uint key = 0; key < 21; ++key) {
      auto const found = quarry_map_find(f.heap, f.container, key);
      ASSERT_EQ(found != 0, key < 20 && key != 5) << key;
      if (found == 0) continue;
      EXPECT_EQ(*quarry_map_value(f.heap, found), key + 1);
    }
    expect_empty_after_clear(f);
  }
}

void expect_sorted(fixture<quarry_ordered_map>& f, std::set<uint> const& keys) {
  std::vector<uint> walked;
  for (auto entry = f.container->first[0]; entry != 0;
       entry = quarry_ordered_map_next(f.heap, entry))
    walked.push_back(quarry_skip_entry_at(f.heap, entry)->key);
  ASSERT_EQ(walked, std::vector<uint>(keys.begin(), keys.end()));
  ASSERT_EQ(f.container->size, keys.size());
  for (uint const key : keys) {
    ASSERT_NE(quarry_ordered_map_find(f.heap, f.container, key), 0u);
    auto const above = quarry_ordered_map_lower_bound(f.heap, f.container, key + 1);
    auto const wanted = keys.upper_bound(key);
    ASSERT_EQ(above != 0, wanted != keys.end());
    if (above == 0) continue;
    ASSERT_EQ(quarry_skip_entry_at(f.heap, above)->key, *wanted);
  }
  quarry_ordered_map_clear(f.heap, f.container);
  ASSERT_EQ(f.audit(), "");
}
TEST(OpenclOrderedMap, EachKeyIsVisitedOnceAndInOrder) {
  explore<quarry_ordered_map>(
      [](auto& f, uint item) {
        for (uint i = 0; i < 4; ++i) {
          bool is_new = false;
          uint const key = (item * 29 + i * 17) % 100;
          auto const entry = quarry_ordered_map_ensure(f.heap, f.container, key, item, &is_new);
          ASSERT_NE(entry, 0u);
          ASSERT_EQ(quarry_skip_entry_at(f.heap, entry)->key, key);
        }
      },
      [](auto& f) {
        std::set<uint> keys;
        for (uint item = 0; item < items; ++item)
          for (uint i = 0; i < 4; ++i) keys.insert((item * 29 + i * 17) % 100);
        expect_sorted(f, keys);
      });
}
TEST(OpenclOrderedMapOnThreads, EachKeyIsVisitedOnceAndInOrder) {
  run_on_threads<quarry_ordered_map>(
      [](auto& f, uint item) {
        bool is_new = false;
        for (uint i = 0; i < 500; ++i)
          ASSERT_NE(
              quarry_ordered_map_ensure(f.heap, f.container, (i * 2 + item) % 1000, i, &is_new),
              0u);
      },
      [](auto& f) {
        std::set<uint> keys;
        for (uint key = 0; key < 1000; ++key) keys.insert(key);
        expect_sorted(f, keys);
      });
}
TEST(OpenclOrderedMap, ASearchTakesFewStepsEvenIfKeysAreAddedInOrder) {
  fixture<quarry_ordered_map> f{16_MiB};
  bool is_new = false;
  for (uint key = 0; key < 100'000; ++key)
    ASSERT_NE(quarry_ordered_map_ensure(f.heap, f.container, key, key, &is_new), 0u);
  std::array<uint, QUARRY_SKIP_LEVELS> heights{};
  for (uint key = 0; key < 100'000; ++key) ++heights[quarry_skip_height(key) - 1];
  for (uint level = 0; level < 6; ++level)  // a quarter of a level's keys reaches the next level
    EXPECT_NEAR(heights[level], 75'000 >> (2 * level), 2000 >> level) << level;
}

}  // namespace opencl_containers_test
}  // namespace quarry::test
