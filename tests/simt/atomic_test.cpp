// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/atomic.hpp"

#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace quarry::simt {
namespace atomic_test {

template <class T>
class AtomicRef : public ::testing::Test {};
using integers = ::testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(AtomicRef, integers);

TYPED_TEST(AtomicRef, ReturnsTheOldValueOfEachChange) {
  TypeParam value = 12;
  atomic_ref<TypeParam> const ref{value};
  EXPECT_EQ(ref.load(acquire), 12u);
  EXPECT_EQ(ref.fetch_add(3, relaxed), 12u);
  EXPECT_EQ(ref.fetch_sub(1, release), 15u);
  EXPECT_EQ(ref.fetch_or(1, acq_rel), 14u);
  EXPECT_EQ(ref.fetch_and(0b0111, acq_rel), 15u);
  EXPECT_EQ(ref.exchange(40, acq_rel), 7u);
  EXPECT_EQ(ref.fetch_max(30, relaxed), 40u);
  EXPECT_EQ(ref.fetch_max(50, relaxed), 40u);
  EXPECT_EQ(value, 50u);
  ref.store(41, release);
  EXPECT_EQ(value, 41u);
}

TYPED_TEST(AtomicRef, ComparesAndExchanges) {
  TypeParam value = 5;
  atomic_ref<TypeParam> const ref{value};
  TypeParam expected = 5;
  EXPECT_TRUE(ref.compare_exchange(expected, 6, acq_rel));
  EXPECT_EQ(value, 6u);
}

TYPED_TEST(AtomicRef, AFailedExchangeChangesNothingAndReturnsTheValue) {
  TypeParam value = 5;
  TypeParam expected = 4;
  EXPECT_FALSE(atomic_ref<TypeParam>{value}.compare_exchange(expected, 6, acq_rel));
  EXPECT_EQ(expected, 5u);
  EXPECT_EQ(value, 5u);
}

TYPED_TEST(AtomicRef, WrapsAround) {
  TypeParam value = 0;
  EXPECT_EQ(atomic_ref<TypeParam>{value}.fetch_sub(1, relaxed), 0u);
  EXPECT_EQ(value, static_cast<TypeParam>(-1));
}

TYPED_TEST(AtomicRef, LosesNoUpdateOfManyThreads) {
  TypeParam value = 0;
  launch_threads({4, 1}, 4, [&] {
    for (int i = 0; i < 10000; ++i) atomic_ref<TypeParam>{value}.fetch_add(1, relaxed);
  });
  EXPECT_EQ(value, 40000u);
}

TEST(Atomic, LetsFibersLoseAnUpdateThatIsNotAtomic) {
  QUARRY_TEST_USES_FIBERS();
  std::uint32_t minimum = 64;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint32_t value = 0;
    launch_fibers({1, 64}, {.seed = seed}, [&] {
      atomic_ref<std::uint32_t> const ref{value};
      ref.store(ref.load(relaxed) + 1, relaxed);
    });
    minimum = std::min(minimum, value);
  }
  EXPECT_LT(minimum, 64u) << "no lane ran between the load and the store of another lane";
}

TEST(Atomic, ReleasesPlainWritesToAnAcquiringThread) {
  for (int round = 0; round < 100; ++round) {
    std::uint32_t ready = 0;
    int payload = 0;
    launch_threads({2, 1}, 2, [&] {
      atomic_ref<std::uint32_t> const flag{ready};
      if (current_lane->own_place().block == 0) {
        payload = 7;
        fence_before_stores();
        flag.store(1, fenced_release);
      } else if (flag.load(acquire) == 1) {
        EXPECT_EQ(payload, 7);
      }
    });
  }
}

TEST(ShortRef, ComparesAndExchangesOnlyItsTwoBytes) {
  std::uint16_t values[4] = {1, 2, 3, 4};
  for (std::uint16_t i = 1; i < 3; ++i) {
    short_ref const ref{values[i]};
    EXPECT_EQ(ref.load(), i + 1);
    std::uint16_t expected = 0xffff;
    EXPECT_FALSE(ref.compare_exchange(expected, 9));
    EXPECT_EQ(expected, i + 1) << "returns the value that it found";
    EXPECT_TRUE(ref.compare_exchange(expected, 0xabcd));
    EXPECT_EQ(ref.load(), 0xabcd);
  }
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[3], 4);
}

TEST(ShortRef, LosesNoUpdateOfNeighboursOrOfThreads) {
  std::uint16_t values[2] = {0, 0};
  launch_threads({4, 1}, 4, [&] {
    short_ref const ref{values[current_lane->own_place().block % 2]};
    for (int i = 0; i < 5000; ++i) {
      std::uint16_t seen = ref.load();
      while (!ref.compare_exchange(seen, static_cast<std::uint16_t>(seen + 1))) {
      }
    }
  });
  EXPECT_EQ(values[0], 10000);
  EXPECT_EQ(values[1], 10000);
}

TEST(ShortRef, ReleasesPlainWritesToAnAcquiringThread) {
  for (int round = 0; round < 100; ++round) {
    std::uint16_t ready = 0;
    int payload = 0;
    launch_threads({2, 1}, 2, [&] {
      short_ref const flag{ready};
      std::uint16_t unset = 0;
      if (current_lane->own_place().block == 0) {
        payload = 7;
        EXPECT_TRUE(flag.compare_exchange(unset, 1));
      } else if (flag.load() == 1) {
        EXPECT_EQ(payload, 7);
      }
    });
  }
}

}  // namespace atomic_test
}  // namespace quarry::simt
