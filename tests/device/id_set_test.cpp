// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/id_set.hpp"

#include "quarry/core/bytes.hpp"
#include "support/backends.hpp"

#include <map>
#include <set>
#include <string_view>

namespace quarry {
namespace id_set_test {

using namespace test;

struct set_operation {
  bool is_insert;
  std::uint32_t id;
};

/// Lane i performs operation i.
struct change_set {
  heap_ref heap;
  id_set* set;
  set_operation const* operations;
  std::uint64_t count;
  change_result* results;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    for (std::uint64_t i = place.rank(); i < count; i += place.count()) {
      auto const [is_insert, id] = operations[i];
      results[i] = is_insert ? set->insert(heap, id) : set->erase(heap, id);
    }
  }
};

/// One lane looks up ids, then checks the set.
struct look_up {
  id_set* set;
  std::uint32_t const* ids;
  std::uint64_t count;
  std::uint8_t* found;
  std::uint32_t* size;
  std::uint8_t* sound;

  QUARRY_HD void operator()() const {
    for (std::uint64_t i = 0; i < count; ++i) found[i] = set->contains(ids[i]) ? 1 : 0;
    *size = set->size();
    *sound = set->audit() ? 1 : 0;
  }
};

struct clear_set {
  heap_ref heap;
  id_set* set;
  QUARRY_HD void operator()() const { set->clear(heap); }
};

/// A set on one back end, with the operations that tests call.
template <class Backend>
class tested_set {
 public:
  tested_set(Backend const& backend, heap_options options)
      : backend_{backend}, heap_{backend.make_heap(options)}, set_(1) {}
  ~tested_set() {
    backend_.run({}, clear_set{heap_.ref(), set_.data()});
    EXPECT_TRUE(heap_.live_allocations().empty());
  }

  std::vector<change_result> change(std::vector<set_operation> const& wanted) {
    typename Backend::template array<set_operation> operations(wanted.size());
    std::copy(wanted.begin(), wanted.end(), operations.begin());
    typename Backend::template array<change_result> results(wanted.size());
    backend_.run(small_grid, change_set{heap_.ref(), set_.data(), operations.data(), wanted.size(),
                                        results.data()});
    return {results.begin(), results.end()};
  }

  /// The members among `ids`. Fails the test if the set breaks an invariant or has other members.
  std::set<std::uint32_t> members_among(std::vector<std::uint32_t> const& ids) {
    typename Backend::template array<std::uint32_t> queried(ids.size());
    std::copy(ids.begin(), ids.end(), queried.begin());
    typename Backend::template array<std::uint8_t> found(ids.size());
    typename Backend::template array<std::uint32_t> size(1);
    typename Backend::template array<std::uint8_t> sound(1);
    backend_.run({}, look_up{set_.data(), queried.data(), ids.size(), found.data(), size.data(),
                             sound.data()});
    EXPECT_TRUE(sound[0]);
    std::set<std::uint32_t> members;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (found[i] != 0) members.insert(ids[i]);
    }
    EXPECT_EQ(size[0], members.size());
    return members;
  }

  [[nodiscard]] heap const& memory() const { return heap_; }

 private:
  Backend backend_;
  heap heap_;
  typename Backend::template array<id_set> set_;
};

constexpr heap_options small_heap{.bytes = 1_MiB, .segment_bytes = 64_KiB};

template <class Backend>
struct IdSet : testing::Test {};
TYPED_TEST_SUITE(IdSet, backends, backend_names);

TYPED_TEST(IdSet, InsertsAnIdOnceIfManyLanesInsertIt) {
  for (auto const seed : TypeParam::seeds()) {
    tested_set set{TypeParam{seed}, small_heap};
    std::vector<set_operation> duplicates(128, {true, 7});
    auto const results = set.change(duplicates);
    EXPECT_EQ(std::count(results.begin(), results.end(), change_result::done), 1);
    EXPECT_EQ(std::count(results.begin(), results.end(), change_result::duplicate), 127);
    EXPECT_EQ(set.members_among({6, 7, 8}), (std::set<std::uint32_t>{7}));
    expect_sound(set.memory());
  }
}

TYPED_TEST(IdSet, SupportsEveryIdExceptTheReservedId) {
  tested_set set{TypeParam{}, small_heap};
  std::vector<std::uint32_t> const unusual_ids{0, 0x8000'0000u, 0xFFFF'FFFDu, 0xFFFF'FFFEu};
  for (auto const id : unusual_ids)
    EXPECT_EQ(set.change({{true, id}}).front(), change_result::done) << id;
  for (auto const id : unusual_ids)
    EXPECT_EQ(set.change({{true, id}}).front(), change_result::duplicate) << id;
  EXPECT_EQ(set.members_among(unusual_ids).size(), unusual_ids.size());
  for (auto const id : unusual_ids)
    EXPECT_EQ(set.change({{false, id}}).front(), change_result::done) << id;
  for (auto const id : unusual_ids)
    EXPECT_EQ(set.change({{false, id}}).front(), change_result::absent) << id;
  EXPECT_TRUE(set.members_among(unusual_ids).empty());
  EXPECT_TRUE(set.memory().live_allocations().empty()) << "an empty set has no array";
}

/// Each lane inserts and erases three ids at random, and counts the changes that were done.
struct churn_ids {
  heap_ref heap;
  id_set* set;
  std::uint32_t const* ids;
  std::int32_t* balance;  // insertions minus erasures that were done, for each id
  std::uint32_t seed;

  QUARRY_HD void operator()() const {
    std::uint32_t random = mix(seed * 1000 + static_cast<std::uint32_t>(simt::this_place().rank()));
    for (std::uint32_t turn = 0; turn < 40; ++turn) {
      random = mix(random + turn);
      std::uint32_t const chosen = random % 3;
      bool const is_insertion = (random >> 8 & 1) != 0;
      change_result const result =
          is_insertion ? set->insert(heap, ids[chosen]) : set->erase(heap, ids[chosen]);
      if (result != change_result::done) continue;
      simt::atomic_ref<std::uint32_t> sum{reinterpret_cast<std::uint32_t&>(balance[chosen])};
      sum.fetch_add(is_insertion ? 1u : ~0u, simt::relaxed);
    }
  }
};

TYPED_TEST(IdSet, KeepsTheLargestIdApartFromConcurrentChangesOfOtherIds) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto const memory = backend.make_heap(small_heap);
    typename TypeParam::template array<id_set> set(1);
    typename TypeParam::template array<std::uint32_t> ids(3);
    typename TypeParam::template array<std::int32_t> balance(3);
    ids[0] = 1, ids[1] = 2, ids[2] = 0xFFFF'FFFEu;
    backend.run({1, 24}, churn_ids{memory.ref(), set.data(), ids.data(), balance.data(),
                                   static_cast<std::uint32_t>(seed)});
    typename TypeParam::template array<std::uint8_t> found(3);
    typename TypeParam::template array<std::uint32_t> size(1);
    typename TypeParam::template array<std::uint8_t> sound(1);
    backend.run({}, look_up{set.data(), ids.data(), 3, found.data(), size.data(), sound.data()});
    for (std::size_t i = 0; i < 3; ++i)
      ASSERT_EQ(balance[i], found[i]) << ids[i] << " seed " << seed;
    ASSERT_TRUE(sound[0]) << "seed " << seed;
    ASSERT_EQ(size[0], found[0] + found[1] + found[2]) << "seed " << seed;
    backend.run({}, clear_set{memory.ref(), set.data()});
  }
}

/// Each lane inserts ids of its own until an insertion fails, then one more.
struct insert_until_full {
  heap_ref heap;
  id_set* set;
  std::uint32_t* inserted;  // by each lane
  std::uint32_t turns;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    auto const rank = static_cast<std::uint32_t>(place.rank());
    std::uint32_t& own = inserted[rank];
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
      change_result const result =
          set->insert(heap, rank + own * static_cast<std::uint32_t>(place.count()));
      if (result == change_result::done) ++own;
    }
  }
};

TYPED_TEST(IdSet, ManyLanesThatTheHeapRefusesLoseNoMember) {
  constexpr bool is_gpu = std::string_view{TypeParam::name} == "cuda";
  constexpr simt::grid lanes = is_gpu ? simt::grid{132, 256} : simt::grid{2, 32};
  constexpr std::size_t count = std::size_t{lanes.blocks} * lanes.threads;
  auto seeds = TypeParam::seeds();
  seeds.resize(std::min<std::size_t>(seeds.size(), 40));
  for (auto const seed : seeds) {
    TypeParam const backend{seed};
    auto const memory = backend.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB});
    typename TypeParam::template array<id_set> set(1);
    typename TypeParam::template array<std::uint32_t> inserted(count);
    backend.run(lanes, insert_until_full{memory.ref(), set.data(), inserted.data(), 4});
    std::vector<std::uint32_t> all;
    for (std::size_t rank = 0; rank < count; ++rank) {
      for (std::uint32_t i = 0; i < inserted[rank]; ++i)
        all.push_back(static_cast<std::uint32_t>(rank + i * count));
    }
    ASSERT_FALSE(all.empty());
    ASSERT_LT(all.size(), 4 * count) << "the heap was full";
    typename TypeParam::template array<std::uint32_t> ids(all.size());
    std::copy(all.begin(), all.end(), ids.begin());
    typename TypeParam::template array<std::uint8_t> found(all.size());
    typename TypeParam::template array<std::uint32_t> size(1);
    typename TypeParam::template array<std::uint8_t> sound(1);
    backend.run(
        {}, look_up{set.data(), ids.data(), all.size(), found.data(), size.data(), sound.data()});
    ASSERT_EQ(std::count(found.begin(), found.end(), 1), static_cast<std::ptrdiff_t>(all.size()));
    ASSERT_EQ(size[0], all.size());
    ASSERT_TRUE(sound[0]);
    backend.run({}, clear_set{memory.ref(), set.data()});
    expect_sound(memory);
  }
}

/// One lane fills the set until the heap is full, erases ids, and inserts as many others. Writes
/// how many insertions were refused.
struct replace_members {
  heap_ref heap;
  id_set* set;
  std::uint32_t kept;  // members of each 16 that are not erased
  std::uint32_t* refused;
  std::uint8_t* sound;

  QUARRY_HD void operator()() const {
    std::uint32_t members = 0;
    while (set->insert(heap, members) == change_result::done) ++members;
    std::uint32_t erased = 0;
    for (std::uint32_t id = 0; id < members; ++id) {
      if (id % 16 >= kept && set->erase(heap, id) == change_result::done) ++erased;
    }
    for (std::uint32_t id = 0; id < erased; ++id) {
      if (set->insert(heap, 1'000'000 + id) != change_result::done) ++*refused;
    }
    for (std::uint32_t id = 0; id < members; ++id) {
      if (set->contains(id) != (id % 16 < kept)) *sound = 0;
    }
    if (!set->audit()) *sound = 0;
  }
};

TYPED_TEST(IdSet, ReusesThePlacesOfErasedMembersInAFullHeap) {
  for (std::uint32_t const kept : {4u, 8u, 14u}) {
    TypeParam const backend{1};
    auto const memory = backend.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB});
    // the only segment serves arrays of 1,024 cells, so the set cannot grow further
    typename TypeParam::template array<std::uint64_t> block(1);
    typename TypeParam::template array<id_set> set(1);
    typename TypeParam::template array<std::uint32_t> refused(1);
    typename TypeParam::template array<std::uint8_t> sound(1);
    sound[0] = 1;
    backend.run({}, replace_members{memory.ref(), set.data(), kept, refused.data(), sound.data()});
    EXPECT_TRUE(sound[0]) << kept;
    EXPECT_LE(refused[0], 1u) << kept << ": only the last cells may stay unused";
    backend.run({}, clear_set{memory.ref(), set.data()});
    expect_sound(memory);
  }
}

TYPED_TEST(IdSet, RefusesTheReservedId) {
  tested_set set{TypeParam{}, small_heap};
  EXPECT_EQ(set.change({{true, id_set::none}}).front(), change_result::reserved_id);
  EXPECT_EQ(set.change({{false, id_set::none}}).front(), change_result::reserved_id);
  EXPECT_TRUE(set.members_among({id_set::none}).empty());
}

TYPED_TEST(IdSet, KeepsItsMembersWhenThereIsNoMemoryToGrow) {
  for (auto const seed : TypeParam::seeds()) {
    // One segment serves one size class, so the second array cannot be allocated while the first
    // array is in use, unless it gets other slices than those of its class.
    tested_set set{TypeParam{seed}, {.bytes = 64_KiB, .segment_bytes = 64_KiB}};
    std::vector<set_operation> wanted;
    std::vector<std::uint32_t> ids;
    for (std::uint32_t id = 0; id < 40; ++id) {
      wanted.push_back({true, id});
      ids.push_back(id);
    }
    auto const results = set.change(wanted);
    std::set<std::uint32_t> expected;
    for (std::uint32_t id = 0; id < 40; ++id) {
      EXPECT_TRUE(results[id] == change_result::done ||
                  results[id] == change_result::out_of_memory);
      if (results[id] == change_result::done) expected.insert(id);
    }
    EXPECT_GE(expected.size(), 4u);
    if (expected.size() == 40) continue;
    EXPECT_EQ(set.members_among(ids), expected);
    // The cell of an erased member serves another id although the set cannot grow.
    EXPECT_EQ(set.change({{false, *expected.begin()}}).front(), change_result::done);
    EXPECT_EQ(set.change({{true, 100}}).front(), change_result::done);
    expected.erase(expected.begin());
    expected.insert(100);
    ids.push_back(100);
    EXPECT_EQ(set.members_among(ids), expected);
    expect_sound(set.memory());
  }
}

TYPED_TEST(IdSet, AgreesWithANaiveSetUnderMixedChanges) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    tested_set set{TypeParam{seed}, small_heap};
    std::vector<std::uint32_t> ids(100);
    for (auto& id : ids) id = random.below(8) == 0 ? 0xFFFF'FFFEu : random();
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::set<std::uint32_t> model;
    for (int step = 0; step < 12; ++step) {
      // Steps alternate: growing, mixed, and shrinking.
      unsigned const inserts = step % 3 == 0 ? 100 : step % 3 == 1 ? 50 : 0;
      std::vector<set_operation> wanted(256);
      for (auto& operation : wanted)
        operation = {random.below(100) < inserts,
                     ids[random.below(static_cast<std::uint32_t>(ids.size()))]};
      auto const results = set.change(wanted);
      std::map<std::uint32_t, int> balance;
      for (auto const id : model) balance[id] = 1;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        auto const refused = wanted[i].is_insert ? change_result::duplicate : change_result::absent;
        ASSERT_TRUE(results[i] == change_result::done || results[i] == refused);
        if (results[i] == change_result::done)
          balance[wanted[i].id] += wanted[i].is_insert ? 1 : -1;
        if (inserts == 100) model.insert(wanted[i].id);
        if (inserts == 0) model.erase(wanted[i].id);
      }
      auto const members = set.members_among(ids);
      for (auto const& [id, count] : balance) {
        ASSERT_EQ(count, static_cast<int>(members.count(id))) << "id " << id << " at step " << step;
      }
      if (inserts != 50) {
        ASSERT_EQ(members, model) << "at step " << step;
      }
      model = members;
      expect_sound(set.memory());
    }
    EXPECT_FALSE(set.memory().first_fault().has_value());
  }
}

}  // namespace id_set_test
}  // namespace quarry
