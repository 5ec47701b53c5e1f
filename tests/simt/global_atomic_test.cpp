// SPDX-License-Identifier: Apache-2.0
// Tests each operation at each width and order on each back end: on the GPU each combination is its
// own instruction. The tests use atomic_ref, as device code does.
#include "quarry/simt/global_atomic.hpp"

#include "quarry/simt/atomic.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace quarry::test {
namespace global_atomic_test {

/// The result of one operation, and the value that it stored.
template <class Bits>
struct effect {
  Bits result;
  Bits stored;
};

constexpr std::uint32_t operations = 11;
constexpr std::uint32_t orders = 4;

/// A value that is also nonzero in the upper half of a 64-bit word.
template <class Bits>
QUARRY_HD constexpr Bits wide(std::uint32_t low) {
  return static_cast<Bits>(std::uint64_t{low} << 32 | low);
}

/// One lane performs each operation once, on separate words.
template <class Bits>
struct each_operation {
  effect<Bits>* effects;
  simt::memory_order order;

  QUARRY_HD void operator()() const {
    Bits const start = wide<Bits>(0xf00f0012);
    for (std::uint32_t i = 0; i < operations; ++i) effects[i].stored = start;
    auto const word_at = [this](std::uint32_t i) {
      return simt::atomic_ref<Bits>{effects[i].stored};
    };
    effects[0].result = word_at(0).fetch_add(wide<Bits>(0xf0000001), order);
    effects[1].result = word_at(1).fetch_sub(1, order);
    effects[2].result = word_at(2).fetch_max(wide<Bits>(0xf00f0013), order);
    effects[3].result = word_at(3).fetch_max(wide<Bits>(0x7fffffff), order);
    effects[4].result = word_at(4).fetch_or(wide<Bits>(0x00f00001), order);
    effects[5].result = word_at(5).fetch_and(wide<Bits>(0xff000010), order);
    effects[6].result = word_at(6).exchange(wide<Bits>(77), order);
    Bits expected = start;
    effects[7].result = word_at(7).compare_exchange(expected, wide<Bits>(78), order) ? expected : 0;
    expected = start + 1;
    effects[8].result = word_at(8).compare_exchange(expected, wide<Bits>(79), order) ? 0 : expected;
    bool const acquires = order == simt::acquire || order == simt::acq_rel;
    bool const releases = order == simt::release || order == simt::acq_rel;
    effects[9].result = word_at(9).load(acquires ? simt::acquire : simt::relaxed);
    effects[10].result = start;
    word_at(10).store(wide<Bits>(80), releases ? simt::release : simt::relaxed);
  }
};

/// The value that each operation must store.
template <class Bits>
Bits expected_after(std::uint32_t operation) {
  Bits const start = wide<Bits>(0xf00f0012);
  switch (operation) {
    case 0:
      return static_cast<Bits>(start + wide<Bits>(0xf0000001));
    case 1:
      return start - 1;
    case 2:
      return wide<Bits>(0xf00f0013);
    case 4:
      return start | wide<Bits>(0x00f00001);
    case 5:
      return start & wide<Bits>(0xff000010);
    case 6:
      return wide<Bits>(77);
    case 7:
      return wide<Bits>(78);
    case 10:
      return wide<Bits>(80);
    default:
      return start;  // a smaller maximum, a comparison that fails, a load
  }
}

template <class Backend, class Bits>
void expect_each_operation() {
  Backend const backend{1};
  constexpr simt::memory_order all[orders] = {simt::relaxed, simt::acquire, simt::release,
                                              simt::acq_rel};
  for (std::uint32_t order = 0; order < orders; ++order) {
    typename Backend::template array<effect<Bits>> effects(operations);
    backend.run({1, 1}, each_operation<Bits>{effects.data(), all[order]});
    for (std::uint32_t i = 0; i < operations; ++i) {
      SCOPED_TRACE("operation " + std::to_string(i) + " order " + std::to_string(order));
      EXPECT_EQ(effects[i].result, wide<Bits>(0xf00f0012));
      EXPECT_EQ(effects[i].stored, expected_after<Bits>(i));
    }
  }
}

/// Lanes change the same few words, so that a lost update is visible.
template <class Bits>
struct contend {
  Bits* sum;
  Bits* largest;
  Bits* ones;
  Bits* zeros;
  Bits* swaps;

  QUARRY_HD void operator()() const {
    auto const lane = static_cast<std::uint32_t>(simt::this_place().rank());
    simt::atomic_ref<Bits>{*sum}.fetch_add(lane, simt::relaxed);
    simt::atomic_ref<Bits>{*largest}.fetch_max(lane, simt::acq_rel);
    Bits const bit = Bits{1} << lane % 32;
    simt::atomic_ref<Bits>{*ones}.fetch_or(bit, simt::release);
    simt::atomic_ref<Bits>{*zeros}.fetch_and(static_cast<Bits>(~bit), simt::acquire);
    simt::atomic_ref<Bits> const counter{*swaps};
    for (Bits seen = counter.load(simt::relaxed);
         !counter.compare_exchange(seen, seen + 1, simt::acq_rel);) {
    }
  }
};

template <class Backend, class Bits>
void expect_no_lost_update() {
  for (auto const seed : seeds_up_to(3)) {
    Backend const backend{seed};
    typename Backend::template array<Bits> words(5);
    words[3] = static_cast<Bits>(~Bits{0});
    backend.run(small_grid, contend<Bits>{&words[0], &words[1], &words[2], &words[3], &words[4]});
    constexpr Bits lanes = 2 * 64;
    EXPECT_EQ(words[0], lanes * (lanes - 1) / 2);
    EXPECT_EQ(words[1], lanes - 1);
    EXPECT_EQ(words[2], Bits{0xffffffffu});
    EXPECT_EQ(words[3], static_cast<Bits>(~Bits{0xffffffffu}));
    EXPECT_EQ(words[4], lanes);
  }
}

/// One lane of each block passes a plain write to the lane of the next block.
struct hand_over {
  std::uint32_t* payload;
  std::uint32_t* turn;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint32_t const block = simt::this_place().block;
    simt::atomic_ref<std::uint32_t> const next_block{*turn};
    while (next_block.load(simt::acquire) != block) simt::pause();
    if (*payload != block) ++*wrong;
    *payload = block + 1;
    next_block.store(block + 1, simt::release);
  }
};

template <class Backend>
struct GlobalAtomic : testing::Test {};
TYPED_TEST_SUITE(GlobalAtomic, backends, backend_names);

TYPED_TEST(GlobalAtomic, PerformsEachOperationAtEachWidthAndOrder) {
  expect_each_operation<TypeParam, std::uint32_t>();
  expect_each_operation<TypeParam, std::uint64_t>();
}

TYPED_TEST(GlobalAtomic, LosesNoUpdateOfManyLanes) {
  expect_no_lost_update<TypeParam, std::uint32_t>();
  expect_no_lost_update<TypeParam, std::uint64_t>();
}

TYPED_TEST(GlobalAtomic, ReleasesPlainWritesToAnAcquiringLane) {
  for (auto const seed : seeds_up_to(4)) {
    TypeParam const backend{seed};
    typename TypeParam::template array<std::uint32_t> words(3);
    backend.run({8, 1}, hand_over{&words[0], &words[1], &words[2]});
    EXPECT_EQ(words[0], 8u);
    EXPECT_EQ(words[2], 0u);
  }
}

struct read_pair {
  std::uint64_t* words;
  std::uint64_t* seen;
  QUARRY_HD void operator()() const {
    auto const pair = simt::cached_load(words[0]);
    seen[0] = pair.first;
    seen[1] = pair.second;
  }
};

TYPED_TEST(GlobalAtomic, ReadsTwoNeighbouringWordsAtOnce) {
  typename TypeParam::template array<std::uint64_t> words(2);
  typename TypeParam::template array<std::uint64_t> seen(2);
  words[0] = 7;
  words[1] = 9;
  TypeParam{1}.run({1, 1}, read_pair{words.data(), seen.data()});
  EXPECT_EQ(seen[0], 7u);
  EXPECT_EQ(seen[1], 9u);
}

}  // namespace global_atomic_test
}  // namespace quarry::test
