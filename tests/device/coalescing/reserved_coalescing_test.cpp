// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/reserved_coalescing.hpp"

#include "support/coalescing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace quarry::test {
namespace reserved_coalescing_test {

using outcome = reserved_coalescing::outcome;

constexpr std::uint32_t max_lanes = simt::warp_size;
constexpr std::uint32_t max_calls = 24;

/// The first lane that reserves stays in the upstream heap until all other lanes are done.
struct stalling {
  arena source;
  std::uint32_t* stalled;  // 1 after a lane has entered
  std::uint32_t* done;     // lanes that are done
  bool stalls;

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (stalls && simt::atomic_ref<std::uint32_t>{*stalled}.exchange(1, simt::relaxed) == 0) {
      while (simt::atomic_ref<std::uint32_t>{*done}.load(simt::relaxed) + 1 <
             simt::this_place().threads)
        simt::pause();
    }
    return source.malloc(size);
  }
  QUARRY_HD void free(void* pointer) const { source.free(pointer); }
};

/// The calls of each lane.
struct plan {
  // the position at which a lane makes all its calls; `at_once`: no order
  std::uint32_t turn[max_lanes];
  std::uint32_t calls[max_lanes];
  bytes sizes[max_lanes];
  bool leaves;
  static constexpr std::uint32_t at_once = ~0u;
};

struct run_plan {
  stalling upstream;
  reserved_coalescing::ring* ring;
  plan const* calls_plan;
  std::uint32_t* turn;
  char** parts;  // the result of each call; null if it was not served
  std::uint32_t* outcomes;

  QUARRY_HD void operator()() const {
    std::uint32_t const lane = simt::this_place().thread;
    // Lanes that arrive together are served together. So the lane that will stall arrives alone.
    while (upstream.stalls && lane != 0 &&
           simt::atomic_ref<std::uint32_t>{*upstream.stalled}.load(simt::relaxed) == 0)
      simt::pause();
    if (calls_plan->turn[lane] != plan::at_once) {
      while (simt::atomic_ref<std::uint32_t>{*turn}.load(simt::acquire) != calls_plan->turn[lane])
        simt::pause();
    }
    for (std::uint32_t call = 0; call < calls_plan->calls[lane]; ++call) {
      auto const result = reserved_coalescing::malloc(upstream, *ring, calls_plan->sizes[lane]);
      parts[lane * max_calls + call] = static_cast<char*>(result.pointer);
      outcomes[lane * max_calls + call] = static_cast<std::uint32_t>(result.status);
      for (bytes i = 0; result.pointer != nullptr && i < calls_plan->sizes[lane]; ++i)
        static_cast<char*>(result.pointer)[i] = static_cast<char>(lane * 24 + call);
    }
    if (calls_plan->leaves) reserved_coalescing::leave(upstream, *ring);
    simt::atomic_ref<std::uint32_t>{*upstream.done}.fetch_add(1, simt::relaxed);
    if (calls_plan->turn[lane] != plan::at_once)
      simt::atomic_ref<std::uint32_t>{*turn}.fetch_add(1, simt::acq_rel);
  }
};

/// Each lane frees the parts of another lane.
struct free_parts {
  stalling upstream;
  plan const* calls_plan;
  char** parts;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint32_t const lane = (simt::this_place().thread + 3) % simt::this_place().threads;
    for (std::uint32_t call = 0; call < calls_plan->calls[lane]; ++call) {
      char* const part = parts[lane * max_calls + call];
      if (part == nullptr) continue;
      std::uint32_t bad = 0;
      for (bytes i = 0; i < calls_plan->sizes[lane]; ++i)
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
  /// A whole warp, but at most the number of threads that run at once.
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
      plan_[0].turn[lane] = plan::at_once;
      plan_[0].calls[lane] = 1;
      plan_[0].sizes[lane] = 20;
    }
    plan_[0].leaves = true;
  }
  [[nodiscard]] plan& calls_plan() { return plan_[0]; }
  [[nodiscard]] arena_owner<Backend>& upstream() { return upstream_; }
  void stall() { stalls_ = true; }

  void run(Backend const& fixture) {
    std::fill(parts_.begin(), parts_.end(), nullptr);
    fixture.run({1, lanes}, run_plan{ref(), ring_.data(), plan_.data(), turn_.data(), parts_.data(),
                                     outcomes_.data()});
  }
  void free_all(Backend const& fixture) {
    fixture.run({1, lanes}, free_parts{ref(), plan_.data(), parts_.data(), wrong_.data()});
    EXPECT_EQ(wrong_[0], 0u) << "a part was overwritten";
    EXPECT_EQ(upstream_.counts[0].invalid_frees, 0u);
  }
  [[nodiscard]] char* part(std::uint32_t lane, std::uint32_t call) {
    return parts_[lane * max_calls + call];
  }
  [[nodiscard]] outcome outcome_of(std::uint32_t lane, std::uint32_t call) {
    return static_cast<outcome>(outcomes_[lane * max_calls + call]);
  }
  [[nodiscard]] std::uint32_t count(outcome wanted) {
    std::uint32_t result = 0;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      for (std::uint32_t call = 0; call < plan_[0].calls[lane]; ++call)
        result += outcome_of(lane, call) == wanted ? 1 : 0;
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

TYPED_TEST(ReservedCoalescing, LanesThatArriveOneByOneInAnyOrderGetAdjacentParts) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    dice random{seed};
    bench<TypeParam> fixture;
    std::vector<std::uint32_t> order(lanes);
    std::iota(order.begin(), order.end(), 0u);
    for (std::uint32_t i = lanes - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fixture.calls_plan().turn[lane] = order[lane];
      // a lane makes all its calls before the next lane makes any
      fixture.calls_plan().calls[lane] = reserved_coalescing::ring_entries;
    }
    fixture.run(backend);
    EXPECT_EQ(fixture.upstream().live(), reserved_coalescing::ring_entries);
    for (std::uint32_t call = 0; call < reserved_coalescing::ring_entries; ++call) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        EXPECT_EQ(fixture.outcome_of(lane, call), outcome::done);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fixture.part(lane, call)) % 16, 0u);
        EXPECT_EQ(fixture.part(lane, call) - fixture.part(0, call), lane * 48)
            << "a header of 16 bytes, and 20 bytes rounded up to 32";
      }
    }
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, ALaneThatIsTooFarAheadFallsBackAndReservesAtMostTheRing) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  TypeParam const backend{1};
  bench<TypeParam> fixture;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.calls_plan().turn[lane] = lane;
  fixture.calls_plan().calls[0] = 20;
  fixture.calls_plan().leaves = false;
  fixture.run(backend);
  for (std::uint32_t call = 0; call < 20; ++call)
    EXPECT_EQ(fixture.outcome_of(0, call),
              call < reserved_coalescing::ring_entries ? outcome::done : outcome::unavailable)
        << call;
  EXPECT_EQ(fixture.upstream().live(), reserved_coalescing::ring_entries);
  for (std::uint32_t lane = 1; lane < lanes; ++lane)
    EXPECT_EQ(fixture.outcome_of(lane, 0), outcome::done);
}

TYPED_TEST(ReservedCoalescing, ACallWithAnotherSizeFallsBackAndCancelsItsPart) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.calls_plan().turn[lane] = lane;
    fixture.calls_plan().sizes[3] = 21;
    fixture.calls_plan().leaves = false;
    fixture.run(backend);
    EXPECT_EQ(fixture.count(outcome::done), lanes - 1);
    EXPECT_EQ(fixture.outcome_of(3, 0), outcome::unavailable);
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u) << "no lane has left";
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, LanesThatNeverCallLeakNothingAfterTheyLeave) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    dice random{seed};
    bench<TypeParam> fixture;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fixture.calls_plan().calls[lane] = random.below(3) == 0 ? 0 : random.below(12);
      fixture.calls_plan().sizes[lane] = random.below(8) == 0 ? 24 : 20;
    }
    fixture.run(backend);
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, NoLaneWaitsForALaneThatIsStillReserving) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    fixture.stall();
    for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.calls_plan().calls[lane] = 12;
    fixture.run(backend);  // returns: the stalled lane continues only when all other lanes are done
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    EXPECT_GE(fixture.count(outcome::done), 12u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(ReservedCoalescing, AllLanesOfACallSeeExhaustedMemory) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    fixture.upstream().counts[0].max_requests = 2;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fixture.calls_plan().turn[lane] = (lane + static_cast<std::uint32_t>(seed)) % lanes;
      fixture.calls_plan().calls[lane] = 4;
    }
    fixture.run(backend);
    for (std::uint32_t call = 0; call < 4; ++call) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        EXPECT_EQ(fixture.outcome_of(lane, call), call < 2 ? outcome::done : outcome::exhausted);
        EXPECT_EQ(fixture.part(lane, call) != nullptr, call < 2);
      }
    }
    fixture.free_all(backend);
    EXPECT_EQ(fixture.upstream().live(), 0u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

/// Lane 0 arrives first, and requests more than the upstream heap can allocate. The other lanes
/// must not fail because of this.
TYPED_TEST(ReservedCoalescing, OneLanesImpossibleSizeDoesNotFailTheOtherLanes) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  TypeParam const backend{1};
  bench<TypeParam> fixture;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.calls_plan().turn[lane] = lane;
  fixture.calls_plan().sizes[0] = 1 << 20;  // more than a place of the arena
  fixture.calls_plan().leaves = false;
  fixture.run(backend);
  EXPECT_EQ(fixture.outcome_of(0, 0), outcome::exhausted);
  for (std::uint32_t lane = 1; lane < lanes; ++lane)
    EXPECT_EQ(fixture.outcome_of(lane, 0), outcome::unavailable) << lane;
  EXPECT_EQ(fixture.upstream().live(), 0u);
}

TYPED_TEST(ReservedCoalescing, ContinuesInLaterKernels) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    bench<TypeParam> fixture;
    fixture.calls_plan().leaves = false;
    std::uint32_t done = 0;
    for (std::uint32_t kernel = 0; kernel < 6; ++kernel) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) fixture.calls_plan().calls[lane] = 2;
      fixture.run(backend);
      done += fixture.count(outcome::done);
      fixture.free_all(backend);
      EXPECT_EQ(fixture.upstream().live(), 0u);
    }
    EXPECT_GE(done, 12u);
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

/// A lane that has left makes no more reservations in any later kernel. Here all lanes have left.
TYPED_TEST(ReservedCoalescing, ALaneThatHasLeftFallsBackInLaterKernels) {
  constexpr std::uint32_t lanes = bench<TypeParam>::lanes;
  TypeParam const backend{1};
  bench<TypeParam> fixture;
  fixture.run(backend);
  fixture.free_all(backend);
  fixture.run(backend);
  EXPECT_EQ(fixture.count(outcome::unavailable), lanes);
  EXPECT_EQ(fixture.upstream().live(), 0u);
}

}  // namespace reserved_coalescing_test
}  // namespace quarry::test
