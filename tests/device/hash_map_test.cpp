// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/hash_map.hpp"

#include "support/backends.hpp"

#include <map>
#include <set>

namespace quarry {
namespace hash_map_test {

using namespace test;

using map_ref = hash_map_ref<std::uint64_t, std::uint32_t>;

struct map_operation {
  bool is_insert;
  std::uint64_t key;
};

/// Lane i performs operation i. It inserts the value i + 1000 * `step`.
struct change_map {
  map_ref map;
  map_operation const* operations;
  std::uint32_t count;
  std::uint32_t step;
  change_result* results;
  std::uint32_t* values;  // inserted or erased

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    for (std::uint64_t i = place.rank(); i < count; i += place.count()) {
      auto const [is_insert, key] = operations[i];
      values[i] = static_cast<std::uint32_t>(i) + 1000 * step;
      results[i] = is_insert ? map.insert(key, values[i]) : map.erase(key, values[i]);
    }
  }
};

/// Each value encodes its key. A lane finds only values of its key while other lanes insert and
/// erase.
struct find_while_changing {
  map_ref map;
  std::uint32_t* wrong_values;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    for (std::uint32_t i = 0; i < 20; ++i) {
      std::uint64_t const key = (rank + i) % 4;
      std::uint32_t value = 0;
      if (rank % 4 == 0) {
        if (map.find(key, value) && value % 4 != key)
          simt::atomic_ref<std::uint32_t>{*wrong_values}.fetch_add(1, simt::relaxed);
      } else if (rank % 4 == 1) {
        if (map.erase(key, value) == change_result::done && value % 4 != key) {
          simt::atomic_ref<std::uint32_t>{*wrong_values}.fetch_add(1, simt::relaxed);
        }
      } else {
        (void)map.insert(key, static_cast<std::uint32_t>(key) + 4 * (100 * rank + i));
      }
    }
  }
};

/// All lanes race to insert the same keys. The lane that inserts a key has written `letters[key]`
/// before, and any lane that finds the key reads this letter.
struct send_letters {
  map_ref map;
  std::uint32_t keys;
  std::uint32_t* letters;  // `keys` for each lane
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    for (std::uint32_t key = 0; key < keys; ++key) {
      letters[rank * keys + key] = 7 * key + rank;
      if (map.insert(key, rank) == change_result::done) continue;
      std::uint32_t sender = 0;
      if (map.find(key, sender) && letters[sender * keys + key] == 7 * key + sender) continue;
      simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
    }
  }
};

struct list_map {
  map_ref map;
  std::uint64_t* keys;
  std::uint32_t* values;
  std::uint32_t* count;

  QUARRY_HD void operator()() const {
    map.for_each(0, 1, [this](std::uint64_t key, std::uint32_t value) {
      keys[*count] = key;
      values[*count] = value;
      ++*count;
    });
  }
};

struct make_map {
  heap_ref heap;
  std::uint32_t capacity;
  map_ref* result;
  QUARRY_HD void operator()() const { *result = map_ref::make(heap, capacity); }
};
struct destroy_map {
  heap_ref heap;
  map_ref* map;
  QUARRY_HD void operator()() const { map->destroy(heap); }
};

template <class Backend>
class tested_map {
 public:
  tested_map(Backend const& backend, std::uint32_t capacity)
      : backend_{backend},
        heap_{backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB})},
        map_(1) {
    backend_.run({}, make_map{heap_.ref(), capacity, map_.data()});
  }
  ~tested_map() {
    backend_.run({}, destroy_map{heap_.ref(), map_.data()});
    expect_sound_and_empty(heap_);
  }

  /// The result of each operation, and the value that it inserted or erased.
  std::vector<std::pair<change_result, std::uint32_t>> change(
      std::vector<map_operation> const& wanted, std::uint32_t step = 0) {
    typename Backend::template array<map_operation> operations(wanted.size());
    std::copy(wanted.begin(), wanted.end(), operations.begin());
    typename Backend::template array<change_result> results(wanted.size());
    typename Backend::template array<std::uint32_t> values(wanted.size());
    auto const count = static_cast<std::uint32_t>(wanted.size());
    backend_.run(small_grid, change_map{map_[0], operations.data(), count, step, results.data(),
                                        values.data()});
    std::vector<std::pair<change_result, std::uint32_t>> outcomes;
    for (std::size_t i = 0; i < wanted.size(); ++i) outcomes.push_back({results[i], values[i]});
    return outcomes;
  }

  std::map<std::uint64_t, std::uint32_t> content() {
    typename Backend::template array<std::uint64_t> keys(map_[0].capacity());
    typename Backend::template array<std::uint32_t> values(map_[0].capacity());
    typename Backend::template array<std::uint32_t> count(1);
    backend_.run({}, list_map{map_[0], keys.data(), values.data(), count.data()});
    std::map<std::uint64_t, std::uint32_t> result;
    for (std::uint32_t i = 0; i < count[0]; ++i)
      EXPECT_TRUE(result.insert({keys[i], values[i]}).second) << "a key is listed twice";
    return result;
  }

  map_ref ref() { return map_[0]; }
  [[nodiscard]] heap const& memory() const { return heap_; }

 private:
  Backend backend_;
  heap heap_;
  typename Backend::template array<map_ref> map_;
};

template <class Backend>
struct HashMap : testing::Test {};
TYPED_TEST_SUITE(HashMap, backends, backend_names);

TYPED_TEST(HashMap, StoresTheValueOfOneLaneIfManyInsertAKey) {
  for (auto const seed : TypeParam::seeds()) {
    tested_map map{TypeParam{seed}, 16};
    std::uint32_t winner = 0;
    int winners = 0;
    for (auto const& [result, value] :
         map.change(std::vector<map_operation>(128, {true, ~std::uint64_t{0}}))) {
      if (result == change_result::done) winner = value, ++winners;
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(map.content(), (std::map<std::uint64_t, std::uint32_t>{{~std::uint64_t{0}, winner}}));
  }
}

TYPED_TEST(HashMap, RefusesMoreKeysThanItHasPlacesAndKeepsTheInsertedKeys) {
  for (auto const seed : TypeParam::seeds()) {
    tested_map map{TypeParam{seed}, 8};
    std::vector<map_operation> wanted;
    for (std::uint64_t key = 0; key < 32; ++key) wanted.push_back({true, key});
    auto const results = map.change(wanted);
    EXPECT_EQ(
        std::count_if(results.begin(), results.end(),
                      [](auto const& outcome) { return outcome.first == change_result::done; }),
        8);
    EXPECT_EQ(std::count_if(
                  results.begin(), results.end(),
                  [](auto const& outcome) { return outcome.first == change_result::table_full; }),
              24);
    auto const kept = map.content();
    ASSERT_EQ(kept.size(), 8u);
    EXPECT_EQ(map.change({{false, 99}}).front().first, change_result::absent);
    // An erased key keeps its cell: the same key can be inserted again, another key cannot.
    std::uint64_t const known = kept.begin()->first;
    EXPECT_EQ(map.change({{false, known}}).front().first, change_result::done);
    EXPECT_EQ(map.change({{true, 99}}).front().first, change_result::table_full);
    EXPECT_EQ(map.change({{true, known}}).front().first, change_result::done);
  }
}

TYPED_TEST(HashMap, HasNoPlacesWithoutMemory) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<map_ref> map(1);
  backend.run({}, make_map{heap.ref(), 1u << 20, map.data()});
  EXPECT_EQ(map[0].capacity(), 0u);
  EXPECT_EQ(heap.fault_count(fault_kind::out_of_memory), 1u);
}

TYPED_TEST(HashMap, HasNoPlacesForMoreThan2To31Keys) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<map_ref> map(1);
  for (std::uint32_t const capacity : {0x8000'0001u, 0xFFFF'FFFFu}) {
    backend.run({}, make_map{heap.ref(), capacity, map.data()});
    EXPECT_EQ(map[0].capacity(), 0u);
    EXPECT_TRUE(heap.live_allocations().empty()) << "a map without cells has memory";
  }
}

TYPED_TEST(HashMap, NeverShowsAValueUnderAnotherKey) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    tested_map map{backend, 8};
    typename TypeParam::template array<std::uint32_t> wrong_values(1);
    backend.run(small_grid, find_while_changing{map.ref(), wrong_values.data()});
    EXPECT_EQ(wrong_values[0], 0u) << "seed " << seed;
  }
}

TYPED_TEST(HashMap, ALaneThatFindsAKeySeesTheEarlierWritesOfItsInserter) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    tested_map map{backend, 256};
    typename TypeParam::template array<std::uint32_t> letters(128 * 150), wrong(1);
    backend.run(small_grid, send_letters{map.ref(), 150, letters.data(), wrong.data()});
    EXPECT_EQ(wrong[0], 0u) << "seed " << seed;
  }
}

TYPED_TEST(HashMap, AgreesWithANaiveMapAndReturnsEachValueToOneErasingLane) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    tested_map map{TypeParam{seed}, 64};
    std::map<std::uint64_t, std::multiset<std::uint32_t>>
        model;  // the values under each key that are not erased
    for (std::uint32_t step = 0; step < 8; ++step) {
      std::vector<map_operation> wanted(200);
      for (auto& operation : wanted)
        operation = {random.below(2) == 0, std::uint64_t{random.below(40)} << 30};
      auto const results = map.change(wanted, step);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        auto const [result, value] = results[i];
        if (wanted[i].is_insert && result == change_result::done)
          model[wanted[i].key].insert(value);
      }
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        auto const [result, value] = results[i];
        if (wanted[i].is_insert || result != change_result::done) continue;
        auto& values = model[wanted[i].key];
        ASSERT_EQ(values.count(value), 1u) << "a value was erased that is absent";
        values.erase(value);
      }
      std::map<std::uint64_t, std::uint32_t> expected;
      for (auto const& [key, values] : model) {
        ASSERT_LE(values.size(), 1u) << "two values under one key";
        if (!values.empty()) expected[key] = *values.begin();
      }
      ASSERT_EQ(map.content(), expected) << "at step " << step;
      expect_sound(map.memory());
    }
  }
}

}  // namespace hash_map_test
}  // namespace quarry
