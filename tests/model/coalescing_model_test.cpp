// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of lanes that free segments of one dynamic superblock, and of lanes that
// reserve, take, skip and cancel parts in one ring.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/coalescing/dynamic_coalescing.hpp"
#include "quarry/device/coalescing/reserved_coalescing.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace coalescing_model_test {

/// A superblock of `count` segments with headers of `width` bytes, and a record of its frees.
struct watched_segments {
  watched_segments(std::uint32_t count, std::uint32_t width) : is_freed(count) {
    if (width == 8) segment_header::mark_base(memory.data());
    for (std::uint32_t i = 0; i < count; ++i) {
      payloads.push_back(memory.data() + i * 32 + width);
      segment_header{payloads[i]}.write((i == 0 ? segment_header::is_superblock : 0) |
                                            (i + 1 == count ? segment_header::is_last : 0),
                                        i == 0 ? 0 : 32, 12);
    }
  }
  struct upstream {
    watched_segments* owner;
    void free(void* base) const {
      if (base != owner->memory.data())
        owner->problem = "a wrong address was freed as the superblock";
      for (auto* const payload : owner->payloads) {
        if ((segment_header{payload}.load() & segment_header::is_free) == 0)
          owner->problem = "the superblock was freed while a segment was in use";
      }
      ++owner->frees;
    }
  };
  void free(std::uint32_t index) {
    if (dynamic_coalescing::free(upstream{this}, payloads[index])) {
      if (is_freed[index]) problem = "two frees of one segment succeeded";
      is_freed[index] = true;
    } else {
      ++refused;
    }
  }
  alignas(16) std::array<char, 160> memory{};
  std::vector<char*> payloads;
  std::vector<bool> is_freed;
  std::uint32_t frees = 0;
  std::uint32_t refused = 0;
  std::string problem;
};

using free_lists =
    std::vector<std::vector<std::uint32_t>>;  // the segments that each lane frees, in order

void expect_freed_once(free_lists const& lanes, std::uint32_t segments, std::uint32_t refused,
                       std::uint32_t preemptions) {
  for (std::uint32_t const width : {8u, 4u, 2u}) {
    expect_all_schedules_hold(
        [&] {
          auto const observed = std::make_shared<watched_segments>(segments, width);
          scenario run;
          for (auto const& frees : lanes) {
            run.lanes.emplace_back([observed, &frees] {
              for (std::uint32_t const index : frees) observed->free(index);
            });
          }
          run.check = [observed, refused]() -> std::string {
            if (!observed->problem.empty()) return observed->problem;
            if (observed->frees != 1)
              return "the superblock was freed " + std::to_string(observed->frees) + " times";
            return observed->refused == refused
                       ? ""
                       : std::to_string(observed->refused) + " frees were refused";
          };
          return run;
        },
        {.preemptions = preemptions});
  }
}

TEST(DynamicCoalescingModel, TheSuperblockIsFreedOnceAfterAllItsSegments) {
  QUARRY_TEST_USES_FIBERS();
  expect_freed_once({{0}, {1}}, 2, 0, 100);
  expect_freed_once({{0}, {1}, {2}}, 3, 0, 100);
  expect_freed_once({{1}, {0, 2}}, 3, 0, 100);
  expect_freed_once({{0, 3}, {2, 1}}, 4, 0, 100);
  expect_freed_once({{3}, {2}, {1}, {0}}, 4, 0, 4);
}

/// A double free while the superblock is allocated: the lane that frees twice keeps another segment
/// until its second free is refused.
TEST(DynamicCoalescingModel, ADoubleFreeIsRefusedWhicheverSegmentIsLast) {
  QUARRY_TEST_USES_FIBERS();
  expect_freed_once({{1, 1, 0}, {2}}, 3, 1, 100);
  expect_freed_once({{2, 2, 0}, {1}}, 3, 1, 100);
  expect_freed_once({{2, 2, 1}, {0}}, 3, 1, 100);
}

/// An upstream heap for a ring. A superblock may be freed only after all its parts.
class watched_ring {
 public:
  struct upstream {
    watched_ring* owner;
    void* malloc(bytes size) const { return owner->allocate(size); }
    void free(void* pointer) const { owner->deallocate(pointer); }
  };

  std::uint32_t maximum = 100;  // mallocs that succeed

  /// Makes one call of this lane and records the part that it gets.
  void call(std::uint32_t lane, bytes size) {
    auto const result = reserved_coalescing::malloc(upstream{this}, ring_, size);
    if (result.status != reserved_coalescing::outcome::done) return;
    auto* const part = static_cast<char*>(result.pointer);
    for (auto const& other : held_) {
      if (other.part == part) problem_ = "a part has two owners";
    }
    held_.push_back({part, lane});
    for (bytes i = 0; i < size; ++i) part[i] = static_cast<char>(lane);
    ++done_;
  }
  /// Frees all parts of this lane.
  void free(std::uint32_t lane) {
    for (bool has_part = true; has_part;) {
      has_part = false;
      for (std::size_t i = 0; i < held_.size(); ++i) {
        if (held_[i].lane != lane) continue;
        char* const part = held_[i].part;
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
        if (*part != static_cast<char>(lane)) problem_ = "a part was overwritten";
        static_coalescing::free(
            upstream{this}, superblock::named_by(reinterpret_cast<std::uint64_t*>(part)[-1], part));
        has_part = true;
        break;
      }
    }
  }
  void leave() { reserved_coalescing::leave(upstream{this}, ring_); }

  [[nodiscard]] std::string check(std::uint32_t min_done) const {
    if (!problem_.empty()) return problem_;
    if (live_ != 0) return std::to_string(live_) + " superblocks were not returned";
    return done_ >= min_done ? "" : "only " + std::to_string(done_) + " calls got a part";
  }

 private:
  struct place {
    alignas(16) std::array<char, 256> memory;
    bool is_taken = false;
  };
  struct holding {
    char* part;
    std::uint32_t lane;
  };

  void* allocate(bytes size) {
    simt::interleave();
    if (size > sizeof(place::memory)) problem_ = "a superblock is too large";
    if (maximum == 0) return nullptr;
    --maximum;
    for (auto& entry : places_) {
      if (entry.is_taken) continue;
      entry.is_taken = true;
      ++live_;
      return entry.memory.data();
    }
    problem_ = "there are more superblocks than places";
    return nullptr;
  }
  void deallocate(void* pointer) {
    for (auto& entry : places_) {
      if (entry.memory.data() != pointer) continue;
      if (!entry.is_taken) problem_ = "a superblock was freed twice";
      for (auto const& other : held_) {
        if (other.part >= entry.memory.data() &&
            other.part < entry.memory.data() + entry.memory.size())
          problem_ = "a superblock was freed while a part was in use";
      }
      entry.memory.fill(static_cast<char>(0xdd));
      entry.is_taken = false;
      --live_;
      return;
    }
    problem_ = "an address was freed that is no superblock";
  }

  reserved_coalescing::ring ring_{};
  std::array<place, 16> places_{};
  std::vector<holding> held_;
  std::uint32_t live_ = 0;
  std::uint32_t done_ = 0;
  std::string problem_;
};

using operation = std::function<void(watched_ring&, std::uint32_t)>;

struct ring_case {
  std::uint32_t preemptions = 3;
  std::uint32_t min_done = 0;
  std::uint32_t maximum = 100;
};

void expect_ring_holds(ring_case const& parameters, std::vector<operation> const& lanes) {
  expect_all_schedules_hold(
      [&] {
        auto const observed = std::make_shared<watched_ring>();
        observed->maximum = parameters.maximum;
        scenario run;
        for (std::uint32_t i = 0; i < lanes.size(); ++i)
          run.lanes.emplace_back([observed, &lanes, i] { lanes[i](*observed, i); });
        run.check = [observed, parameters] { return observed->check(parameters.min_done); };
        return run;
      },
      {.preemptions = parameters.preemptions, .in_one_warp = true});
}

/// Makes `count` calls of one size, then frees its parts, then leaves.
operation calls(std::uint32_t count, bytes size = 8, bool leaves = true) {
  return [=](watched_ring& ring, std::uint32_t lane) {
    for (std::uint32_t i = 0; i < count; ++i) ring.call(lane, size);
    ring.free(lane);
    if (leaves) ring.leave();
  };
}
operation calls_and_frees(std::uint32_t count) {
  return [=](watched_ring& ring, std::uint32_t lane) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ring.call(lane, 8);
      ring.free(lane);
    }
    ring.leave();
  };
}

TEST(ReservedCoalescingModel, AllPartsOfACallAreTakenOrCancelled) {
  QUARRY_TEST_USES_FIBERS();
  expect_ring_holds({.preemptions = 100, .min_done = 1}, {calls(1, 8, false), calls(1, 8, false)});
  expect_ring_holds({.preemptions = 4, .min_done = 2}, {calls(2, 8, false), calls(2, 8, false)});
  expect_ring_holds({.preemptions = 3, .min_done = 1},
                    {calls(1, 8, false), calls(1, 8, false), calls(1, 8, false)});
}

TEST(ReservedCoalescingModel, ALaneThatLeavesCancelsItsPartsOfAllCalls) {
  QUARRY_TEST_USES_FIBERS();
  expect_ring_holds({.preemptions = 5, .min_done = 1}, {calls(1), calls(0)});
  expect_ring_holds({.preemptions = 4, .min_done = 2}, {calls(2), calls(1)});
  expect_ring_holds({.preemptions = 3, .min_done = 1}, {calls(1), calls(0), calls(1)});
}

TEST(ReservedCoalescingModel, ACallWithAnotherSizeCancelsItsPart) {
  QUARRY_TEST_USES_FIBERS();
  expect_ring_holds({.preemptions = 5, .min_done = 1}, {calls(1, 8, false), calls(1, 16, false)});
  expect_ring_holds({.preemptions = 3, .min_done = 1},
                    {calls(1, 8, false), calls(1, 16, false), calls(1, 8, false)});
}

TEST(ReservedCoalescingModel, AnEntryIsReusedOnlyWhenNoLaneNeedsIt) {
  QUARRY_TEST_USES_FIBERS();
  constexpr std::uint32_t calls_per_round = reserved_coalescing::ring_entries + 1;
  expect_ring_holds({.preemptions = 3},
                    {calls_and_frees(calls_per_round), calls_and_frees(calls_per_round)});
  expect_ring_holds({.preemptions = 3}, {calls(1), calls_and_frees(calls_per_round)});
  expect_ring_holds({.preemptions = 2},
                    {calls(1), calls_and_frees(calls_per_round), calls_and_frees(calls_per_round)});
  expect_ring_holds({.preemptions = 2},
                    {calls_and_frees(2 * calls_per_round), calls_and_frees(calls_per_round)});
}

TEST(ReservedCoalescingModel, ExhaustedMemoryLeaksNothing) {
  QUARRY_TEST_USES_FIBERS();
  expect_ring_holds({.preemptions = 4, .maximum = 0}, {calls(2), calls(2)});
  expect_ring_holds({.preemptions = 3, .maximum = 1}, {calls(2), calls(2)});
}

}  // namespace coalescing_model_test
}  // namespace quarry::test
