// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of a few mallocs and frees on a heap of one or two segments. Blocks
// become free and are revived; segments change their class or become part of a large allocation.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace heap_model_test {

constexpr bytes quarter = 16_KiB;
constexpr bytes half = 32_KiB;
constexpr bytes whole_segment = 64_KiB;

/// A heap and the allocations of its lanes.
class watched_heap {
 public:
  explicit watched_heap(std::uint32_t segments)
      : owner_{small_heap(segments)}, segments_{segments} {}

  void reset() {
    owner_.reset();
    live_.clear();
    held_.fill(nullptr);
    problem_.clear();
    errors_ = 0;
  }

  /// Records the current use of the segments. Late lanes act on this record.
  void remember() {
    for (std::uint32_t i = 0; i < segments_; ++i) known_[i] = state_of(owner_).segments[i].load();
  }

  /// Allocates `size` bytes as allocation `index`. Does nothing if there is no memory.
  void malloc(std::size_t index, bytes size) {
    auto* const memory = static_cast<char*>(owner_.ref().malloc(size - hardening::padded(0)));
    if (memory != nullptr) hold(index, memory, size);
  }

  /// Acts as a lane that saw slices of `size` bytes in block 0 of `segment` when all lanes began,
  /// or in an earlier use, and continues only now. Takes one slice, as allocation `index`, and
  /// reserves more.
  void claim_late(std::size_t index, bytes size, std::uint32_t segment) {
    heap_state& state = state_of(owner_);
    slice_request request{&state, size_class_of(static_cast<std::uint32_t>(size)), 2};
    request.generation = known_[segment].is_slices_of(request.id) ? known_[segment].generation()
                                                                  : block_state::last_generation;
    word const taken = slice_claim::claim_from_used(request, segment, 0);
    for (word rest = taken; rest != 0; rest &= rest - 1) {
      std::uint32_t const slice = request.index * bits_per_word + lowest_one(rest);
      auto const address = state.base + segment * state.segment_bytes() + slice * size;
      hold(index++, reinterpret_cast<char*>(address), size);
    }
  }

  /// Acts as a lane that returned slices of `size` bytes long ago, before the segment was returned.
  void advertise_late(bytes size, std::uint32_t segment, std::uint32_t block_index) {
    slice_return::advertise(state_of(owner_), size_class_of(static_cast<std::uint32_t>(size)),
                            segment, block_index);
  }

  void reclaim() {
    (void)run_supply::reclaim_from_others(state_of(owner_), run_supply::no_class, true);
  }

  /// Records an allocation of `size` bytes at `memory`.
  void hold(std::size_t index, char* memory, bytes size) {
    held_[index] = memory;
    auto const next = live_.lower_bound(memory);
    bool const is_disjoint =
        (next == live_.end() || memory + size <= next->first) &&
        (next == live_.begin() || std::prev(next)->first + std::prev(next)->second <= memory);
    if (!is_disjoint) problem_ = "memory in use was allocated again";
    live_.emplace(memory, size);
  }

  void free(std::size_t index) {
    char* const memory = std::exchange(held_[index], nullptr);
    if (memory == nullptr) return;
    live_.erase(memory);
    heap_internals::free_now(owner_.ref(), memory);
  }

  /// One of several frees of allocation `index` at the same time. One free must succeed, and each
  /// other free must record a fault. Requires that no lane allocates meanwhile.
  void free_once(std::size_t index) {
    if (held_[index] != nullptr) {
      freed_by_several_ = std::exchange(held_[index], nullptr);
      live_.erase(freed_by_several_);
    } else {
      ++errors_;
    }
    heap_internals::free_now(owner_.ref(), freed_by_several_);
  }

  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (auto const wrong = owner_.audit(); !wrong.empty()) return wrong.front();
    if (owner_.stats().allocations_in_use != live_.size()) return "a slice was lost";
    for (std::size_t i = 0; i < held_.size(); ++i) free(i);
    auto& state = state_of(owner_);
    while (run_supply::any_has_run(state))
      (void)run_supply::reclaim_from_others(state, run_supply::no_class, true);
    if (auto const wrong = owner_.audit(); !wrong.empty())
      return "after all frees: " + wrong.front();
    if (state.segment_tree().count() != segments_) return "a segment was lost";
    // A second free may come after the segment was returned: then its pointer is foreign.
    auto const refused = owner_.fault_count(fault_kind::double_free) +
                         owner_.fault_count(fault_kind::foreign_pointer);
    if (refused != errors_)
      return std::to_string(refused) + " frees were refused, not " + std::to_string(errors_);
    for (auto kind = 2u; kind < static_cast<std::uint32_t>(fault_kind::count_); ++kind) {
      auto const fault = static_cast<fault_kind>(kind);
      bool const is_expected =
          fault == fault_kind::double_free || fault == fault_kind::foreign_pointer;
      if (!is_expected && owner_.fault_count(fault) != 0) return name_of(fault);
    }
    return "";
  }

 private:
  heap owner_;
  std::uint32_t segments_;
  std::map<char*, bytes> live_;
  std::array<char*, 8> held_{};
  std::array<segment_use, 2> known_ = {segment_use{}, segment_use{}};
  char* freed_by_several_ = nullptr;
  std::uint64_t errors_ = 0;
  std::string problem_;
};

using operation = void (*)(watched_heap&);

/// Runs `setup` alone, and then all interleavings of `lanes`.
void expect_all_interleavings_hold(std::uint32_t segments, operation setup,
                                   std::vector<operation> const& lanes, std::uint32_t preemptions) {
  auto const observed = std::make_shared<watched_heap>(segments);
  expect_all_schedules_hold(
      [&] {
        observed->reset();
        setup(*observed);
        observed->remember();
        scenario run;
        for (operation const lane : lanes)
          run.lanes.emplace_back([observed, lane] { lane(*observed); });
        run.check = [observed] { return observed->check(); };
        return run;
      },
      {.preemptions = preemptions});
}

void two_halves(watched_heap& heap) {
  heap.malloc(0, half);
  heap.malloc(1, half);
}

TEST(HeapModel, TheLastFreesOfASegmentDoNotDisturbAMallocOfItsClass) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      1, two_halves,
      {[](watched_heap& heap) { heap.free(0); }, [](watched_heap& heap) { heap.free(1); },
       [](watched_heap& heap) { heap.malloc(2, half); }},
      2);
}

TEST(HeapModel, TheLastFreeOfASegmentDoesNotDisturbAMallocOfAnotherClass) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(1, two_halves,
                                {[](watched_heap& heap) {
                                   heap.free(0);
                                   heap.free(1);
                                 },
                                 [](watched_heap& heap) { heap.malloc(2, quarter); },
                                 [](watched_heap& heap) { heap.malloc(3, half); }},
                                2);
}

TEST(HeapModel, AClaimerLeavesASegmentThatBecomesALargeAllocation) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(1, two_halves,
                                {[](watched_heap& heap) {
                                   heap.free(0);
                                   heap.free(1);
                                   heap.malloc(4, whole_segment);
                                 },
                                 [](watched_heap& heap) { heap.malloc(3, half); }},
                                3);
}

TEST(HeapModel, ASegmentIsReusedForTheSameClass) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(1, two_halves,
                                {[](watched_heap& heap) {
                                   heap.free(0);
                                   heap.malloc(0, half);
                                   heap.free(0);
                                 },
                                 [](watched_heap& heap) {
                                   heap.free(1);
                                   heap.malloc(1, half);
                                 }},
                                3);
}

TEST(HeapModel, LateClaimersLeaveAReusedSegmentIntact) {
  QUARRY_TEST_USES_FIBERS();
  operation const late_claim = [](watched_heap& heap) { heap.claim_late(4, half, 0); };
  operation const second_late_claim = [](watched_heap& heap) { heap.claim_late(6, half, 0); };
  operation const uses[] = {[](watched_heap& heap) {
                              heap.free(0);
                              heap.free(1);
                              heap.malloc(2, quarter);
                            },
                            [](watched_heap& heap) {
                              heap.free(0);
                              heap.free(1);
                              heap.malloc(2, half);
                              heap.free(2);
                            },
                            [](watched_heap& heap) {
                              heap.free(0);
                              heap.free(1);
                              heap.malloc(2, whole_segment);
                            }};
  for (operation const use_again : uses) {
    expect_all_interleavings_hold(1, two_halves, {use_again, late_claim}, 3);
    expect_all_interleavings_hold(1, two_halves, {use_again, late_claim, second_late_claim}, 2);
  }
}

/// A segment without allocations is returned without a check for lanes that reserve in it.
TEST(HeapModel, LateClaimersLeaveAnUnusedReturnedSegmentIntact) {
  QUARRY_TEST_USES_FIBERS();
  for (bool const first : {true, false}) {
    operation const late_claim = first ? [](watched_heap& heap) { heap.claim_late(4, half, 0); }
                                       : [](watched_heap& heap) { heap.claim_late(4, half, 1); };
    operation const second_late_claim =
        first ? [](watched_heap& heap) { heap.claim_late(6, half, 0); }
              : [](watched_heap& heap) { heap.claim_late(6, half, 1); };
    expect_all_interleavings_hold(
        2, [](watched_heap& heap) { heap.malloc(0, half); },
        {[](watched_heap& heap) { heap.reclaim(); }, late_claim}, 4);
    expect_all_interleavings_hold(
        2, [](watched_heap& heap) { heap.malloc(0, quarter); },
        {[](watched_heap& heap) {
           heap.reclaim();
           heap.malloc(1, half);
         },
         late_claim, second_late_claim},
        2);
  }
}

/// All other slices of the segment are freed earlier, at the same time, or not at all.
TEST(HeapModel, OneOfSeveralFreesOfAPointerSucceeds) {
  QUARRY_TEST_USES_FIBERS();
  operation const free_once = [](watched_heap& heap) { heap.free_once(0); };
  operation const free_other = [](watched_heap& heap) { heap.free(1); };
  expect_all_interleavings_hold(1, two_halves, {free_once, free_once}, 4);
  expect_all_interleavings_hold(
      1, [](watched_heap& heap) { heap.malloc(0, half); }, {free_once, free_once}, 4);
  expect_all_interleavings_hold(
      1,
      [](watched_heap& heap) {
        two_halves(heap);
        heap.free(1);
      },
      {free_once, free_once}, 4);
  expect_all_interleavings_hold(1, two_halves, {free_once, free_once, free_other}, 3);
  expect_all_interleavings_hold(1, two_halves, {free_once, free_once, free_once, free_other}, 2);
}

TEST(HeapModel, LateAdvertisementsAreWithdrawn) {
  QUARRY_TEST_USES_FIBERS();
  operation const late_claim = [](watched_heap& heap) { heap.advertise_late(half, 0, 0); };
  operation const advertise_another_block = [](watched_heap& heap) {
    heap.advertise_late(16, 0, 3);
  };
  operation const use_again = [](watched_heap& heap) {
    heap.free(0);
    heap.free(1);
    heap.malloc(2, quarter);
    heap.malloc(3, quarter);
    heap.free(2);
  };
  expect_all_interleavings_hold(1, two_halves, {use_again, late_claim}, 3);
  expect_all_interleavings_hold(1, two_halves, {use_again, late_claim, advertise_another_block}, 2);
  expect_all_interleavings_hold(1, two_halves,
                                {use_again, advertise_another_block,
                                 [](watched_heap& heap) { heap.advertise_late(16, 0, 2); }},
                                2);
}

TEST(HeapModel, TwoClassesTakeASegmentFromEachOther) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      2, [](watched_heap& heap) { heap.malloc(0, quarter); },
      {[](watched_heap& heap) {
         heap.free(0);
         heap.malloc(1, half);
       },
       [](watched_heap& heap) {
         heap.malloc(2, whole_segment);
         heap.free(2);
       }},
      2);
}

}  // namespace heap_model_test
}  // namespace quarry::test
