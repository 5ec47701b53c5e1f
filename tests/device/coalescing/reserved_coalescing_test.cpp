// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/reserved_coalescing.hpp"

#include "support/coalescing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace quarry::test {
namespace reserved_coalescing_test {

using outcome = reserved_coalescing::outcome;

constexpr std::uint32_t max_lanes = simt::warp_size;
constexpr std::uint32_t max_calls = 24;

/// The first lane to reserve does not come back from the upstream heap before all others are done.
struct stalling {
  arena from;
  std::uint32_t* stalled;  // 1 once a lane is in there
  std::uint32_t* done;     // lanes that are
  bool stalls;

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (stalls && simt::atomic_ref<std::uint32_t>{*stalled}.exchange(1, simt::relaxed) == 0) {
      while (simt::atomic_ref<std::uint32_t>{*done}.load(simt::relaxed) + 1 <
             simt::this_place().threads)
        simt::pause();
    }
    return from.malloc(size);
  }
  QUARRY_HD void free(void* pointer) const { from.free(pointer); }
};

/// What each lane does, and what it got.
struct plan {
  // when it is a lane's turn to make all its calls; `together`: no turns
  std::uint32_t turn[max_lanes];
  std::uint32_t calls[max_lanes];
  bytes sizes[max_lanes];
  bool leaves;
  static constexpr std::uint32_t together = ~0u;
};

struct run_plan {
  stalling upstream;
  reserved_coalescing::ring* ring;
  plan const* what;
  std::uint32_t* turn;
  char** parts;  // of each lane's calls; null if not done
  std::uint32_t* outcomes;

  QUARRY_HD void operator()() const {
    std::uint32_t const lane = simt::this_place().thread;
    // Lanes that come together are served together: the one that is to be stalled comes alone.
    while (upstream.stalls && lane != 0 &&
           simt::atomic_ref<std::uint32_t>{*upstream.stalled}.load(simt::relaxed) == 0)
      simt::pause();
    if (what->turn[lane] != plan::together) {
      while (simt::atomic_ref<std::uint32_t>{*turn}.load(simt::acquire) != what->turn[lane])
        simt::pause();
    }
    for (std::uint32_t call = 0; call < what->calls[lane]; ++call) {
      auto const got = reserved_coalescing::malloc(upstream, *ring, what->sizes[lane]);
      parts[lane * max_calls + call] = static_cast<char*>(got.pointer);
      outcomes[lane * max_calls + call] = static_cast<std::uint32_t>(got.what);
      for (bytes i = 0; got.pointer != nullptr && i < what->sizes[lane]; ++i)
        static_cast<char*>(got.pointer)[i] = static_cast<char>(lane * 24 + call);
    }
    if (what->leaves) reserved_coalescing::leave(upstream, *ring);
    simt::atomic_ref<std::uint32_t>{*upstream.done}.fetch_add(1, simt::relaxed);
    if (what->turn[lane] != plan::together)
      simt::atomic_ref<std::uint32_t>{*turn}.fetch_add(1, simt::acq_rel);
  }
};

/// Lanes free what their neighbours got.
struct free_parts {
  stalling upstream;
  plan const* what;
  char** parts;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint32_t const lane = (simt::this_place().thread + 3) % simt::this_place().threads;
    for (std::uint32_t call = 0; call < what->calls[lane]; ++call) {
      char* const part = parts[lane * max_calls + call];
      if (part == nullptr) continue;
      std::uint32_t bad = 0;
      for (bytes i = 0; i < what->sizes[lane]; ++i)
        bad += part[i] != static_cast<char>(lane * 24 + call) ? 1 : 0;
      if (bad != 0) simt::atomic_ref<std::uint32_t>{*wrong}.fetch_add(1, simt::relaxed);
      static_coalescing::free(
          upstream, detail::superblock::named_by(reinterpret_cast<std::uint64_t*>(part)[-1], part));
    }
  }
};

template <class Backend>
class bench {
 public:
  /// A whole warp, but no more than threads that run at once.
  static constexpr std::uint32_t lanes =
      std::string_view{Backend::name} == "threads" ? 8 : max_lanes;

  bench()
      : upstream_{512, 2048},
        ring_(1),
        plan_(1),
        turn_(1),
        stalled_(1),
        done_(1),
        parts_(lanes * max_calls),
        outcomes_(lanes * max_calls),
        wrong_(1) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      plan_[0].turn[lane] = plan::together;
      plan_[0].calls[lane] = 1;
      plan_[0].sizes[lane] = 20;
    }
    plan_[0].leaves = true;
  }
  [[nodiscard]] plan& what() { return plan_[0]; }
  [[nodiscard]] arena_owner<Backend>& upstream() { return upstream_; }
  void stall() { stalls_ = true; }

  void run(Backend const& fixture) {
    std::fill(parts_.begin(), parts_.end(), nullptr);
    fixture.run({1, lanes}, run_plan{ref(), ring_.data(), plan_.data(), turn_.data(), parts_.data(),
                                     outcomes_.data()});
  }
  void free_all(Backend const& fixture) {
    fixture.run({1, lanes}, free_parts{ref(), plan_.data(), parts_.data(), wrong_.data()});
    EXPECT_EQ(wrong_[0], 0u) << "a part was written over";
    EXPECT_EQ(upstream_.now[0].wrong_frees, 0u);
  }
  [[nodiscard]] char* part(std::uint32_t lane, std::uint32_t call) {
    return parts_[lane * max_calls + call];
  }
  [[nodiscard]] outcome got(std::uint32_t lane, std::uint32_t call) {
    return static_cast<outcome>(outcomes_[lane * max_calls + call]);
  }
  [[nodiscard]] std::uint32_t count(outcome wanted) {
    std::uint32_t result = 0;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      for (std::uint32_t call = 0; call < plan_[0].calls[lane]; ++call)
        result += got(lane, call) == wanted ? 1 : 0;
    }
    return result;
  }

 private:
  [[nodiscard]] stalling ref() { return {upstream_.ref(), stalled_.data(), done_.data(), stalls_}; }

  template <class T>
  using array = typename Backend::template array<T>;
  arena_owner<Backend> upstream_;
  array<reserved_coalescing::ring> ring_;
  array<plan> plan_;
  array<std::uint32_t> turn_;
  array<std::uint32_t> stalled_;
  array<std::uint32_t> done_;
  array<char*> parts_;
  array<std::uint32_t> outcomes_;
  array<std::uint32_t> wrong_;
  bool stalls_ = false;
};

template <class Backend>
struct ReservedCoalescing : testing::Test {};
TYPED_TEST_SUITE(ReservedCoalescing, backends, backend_names);

TYPED_TEST(ReservedCoalescing, LanesThatComeOneByOneInAnyOrderGetNeighbouringParts) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    dice random{seed};
    bench<TypeParam> fixture;
    std::vector<std::uint32_t> order(lanes);
    std::iota(order.begin(), order.end(), 0u);
    for (std::uint32_t i = lanes - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fixture.what().turn[lane] = order[lane];
      // all of a lane's before any of the next
      fixture.what().calls[lane] = reserved_coalescing::places;
    }
    fixture.run(backend);
    EXPECT_EQ(fixture.upstream().live(), reserved_coalescing::places);
    for (std::uint32_t call = 0; call < reserved_coalescing::places; ++call) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        EXPECT_EQ(fixture.got(lane, call), outcome::done);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fixture.part(lane, call)) % 16, 0u);
        EXPECT_EQ(fixture.part(lane, call) - fixture.part(0, call), lane * 48)
            << "16 bytes of header and 20, rounded up to 32";
      }
    }
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, WhoIsTooFarAheadIsSentElsewhereAndHoldsNoMoreThanTheRing) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  TypeParam const backend{1};
  bench<TypeParam> fixture;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.what().turn[lane] = lane;
  fixture.what().calls[0] = 20;
  fixture.what().leaves = false;
  fixture.run(backend);
  for (std::uint32_t call = 0; call < 20; ++call)
    EXPECT_EQ(fixture.got(0, call),
              call < reserved_coalescing::places ? outcome::done : outcome::elsewhere)
        << call;
  EXPECT_EQ(fixture.upstream().live(), reserved_coalescing::places);
  for (std::uint32_t lane = 1; lane < lanes; ++lane) EXPECT_EQ(fixture.got(lane, 0), outcome::done);
}

TYPED_TEST(ReservedCoalescing, AnotherSizeIsSentElsewhereAndGivesItsPartUp) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.what().turn[lane] = lane;
    fixture.what().sizes[3] = 21;
    fixture.what().leaves = false;
    fixture.run(backend);
    EXPECT_EQ(fixture.count(outcome::done), lanes - 1);
    EXPECT_EQ(fixture.got(3, 0), outcome::elsewhere);
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u) << "without a leave";
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, LanesThatNeverComeLeakNothingOnceTheyLeave) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    dice random{seed};
    bench<TypeParam> fixture;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fixture.what().calls[lane] = random.below(3) == 0 ? 0 : random.below(12);
      fixture.what().sizes[lane] = random.below(8) == 0 ? 24 : 20;
    }
    fixture.run(backend);
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, NoLaneWaitsForOneThatIsStillReserving) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    fixture.stall();
    for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.what().calls[lane] = 12;
    fixture.run(backend);  // ends: the stalled lane goes on only when all others are done
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    EXPECT_GE(fixture.count(outcome::done), 12u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, NoMemoryIsTheSameForAllLanesOfACall) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    fixture.upstream().now[0].maximum = 2;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fixture.what().turn[lane] = (lane + static_cast<std::uint32_t>(seed)) % lanes;
      fixture.what().calls[lane] = 4;
    }
    fixture.run(backend);
    for (std::uint32_t call = 0; call < 4; ++call) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        EXPECT_EQ(fixture.got(lane, call), call < 2 ? outcome::done : outcome::exhausted);
        EXPECT_EQ(fixture.part(lane, call) != nullptr, call < 2);
      }
    }
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

/// Lane 0 comes first, and wants what nothing has; that is no reason to refuse the others.
TYPED_TEST(ReservedCoalescing, OneLanesImpossibleSizeIsNotTheOthersEnd) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  TypeParam const backend{1};
  bench<TypeParam> fixture;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.what().turn[lane] = lane;
  fixture.what().sizes[0] = 1 << 20;  // more than a place of the arena
  fixture.what().leaves = false;
  fixture.run(backend);
  EXPECT_EQ(fixture.got(0, 0), outcome::exhausted);
  for (std::uint32_t lane = 1; lane < lanes; ++lane)
    EXPECT_EQ(fixture.got(lane, 0), outcome::elsewhere) << lane;
  EXPECT_EQ(fixture.upstream().live(), 0u);
}

TYPED_TEST(ReservedCoalescing, GoesOnInLaterKernelsWhereItWas) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    fixture.what().leaves = false;
    std::uint32_t done = 0;
    for (std::uint32_t kernel = 0; kernel < 6; ++kernel) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.what().calls[lane] = 2;
      fixture.run(backend);
      done += fixture.count(outcome::done);
      fixture.free_all(backend);
      EXPECT_EQ(fixture.upstream().live(), 0u);
    }
    EXPECT_GE(done, 12u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

/// A lane that has left makes no more reservations, in any later kernel; the others go on.
TYPED_TEST(ReservedCoalescing, WhoHasLeftIsSentElsewhereFromThenOn) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  TypeParam const backend{1};
  bench<TypeParam> fixture;
  fixture.run(backend);
  fixture.free_all(backend);
  fixture.run(backend);
  EXPECT_EQ(fixture.count(outcome::elsewhere), lanes);
  EXPECT_EQ(fixture.upstream().live(), 0u);
}

}  // namespace reserved_coalescing_test
}  // namespace quarry::test
