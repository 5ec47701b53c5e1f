// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of three lanes: a late free that admits a claimer to a segment or a block
// without allocations, that claimer, and a lane that takes the segment back and uses it again.
// The model runs the heap itself, and not a copy of its protocol.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"
#include "support/state_of.hpp"

#include "quarry/heap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace late_claim_model_test {

constexpr std::uint32_t segment = 64 * 1024;
constexpr std::uint32_t max_slices = 8;

/// The sizes of the slices of the segment's first and second use, in bytes.
struct sizes {
  std::uint32_t first;
  std::uint32_t second;
};

void reclaim_all(heap_state& state) {
  (void)run_supply::reclaim_from_others(state, run_supply::no_class, true);
}

class reused_segment {
 public:
  explicit reused_segment(sizes const& uses)
      : uses_{uses},
        owner_{{.bytes = segment, .segment_bytes = segment, .backend_kind = backend::cpu}} {}

  /// Ends the segment's first use, and begins its second use: for the same class, without
  /// allocations.
  void begin() {
    owner_.reset();
    problem_.clear();
    held_.fill(nullptr);
    generation_ = state().segments[0].generation();
    std::vector<void*> all;
    for (std::uint32_t i = 0; i < segment / uses_.first; ++i)
      all.push_back(owner_.ref().malloc(uses_.first));
    for (void* const slice : all) heap_internals::free_now(owner_.ref(), slice);
    ASSERT_TRUE(state().run(id()).lock(state().run(id()).peek()));
    ASSERT_TRUE(run_supply::open_run(state(), id()));
    state().run(id()).unlock();
  }

  /// Frees as a lane that knows the segment by its first use.
  void free_late() {
    (void)slice_return::release(state(), id(), generation_, state().block_at(id(), 0, 0), 0, 0, 1);
  }

  /// Claims for a group of `count` lanes, as a lane that knows the segment by its second use.
  void claim(std::uint32_t count) {
    slice_request request{&state(), id(), count};
    request.generation = block_state::next_generation(generation_);
    word const taken = slice_claim::claim_from_used(request, 0, 0);
    check_class_of(taken);
  }

  /// Does the same as a lane that saw freed slices in the first use and chose them then.
  void claim_seen(std::uint32_t count) {
    random_claim::slices_of_word const seen{low_bits(segment / uses_.first), 0, 0,
                                            block_state::next_generation(generation_)};
    check_class_of(random_claim::claim_found(state(), id(), seen, count));
  }

  /// Uses the segment for the other size, and frees the slices whose bits are set in `freed`.
  void use_again(word freed) {
    reclaim_all(state());
    for (std::uint32_t i = 0; i < segment / uses_.second; ++i)
      held_[i] = owner_.ref().malloc(uses_.second);
    for (; freed != 0; freed &= freed - 1)
      owner_.ref().free(std::exchange(held_[lowest_one(freed)], nullptr));
  }

  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (auto const wrong = owner_.audit(); !wrong.empty()) return wrong.front();
    for (void*& slice : held_) owner_.ref().free(std::exchange(slice, nullptr));
    while (run_supply::any_has_run(state())) reclaim_all(state());
    if (auto const wrong = owner_.audit(); !wrong.empty()) return "at the end: " + wrong.front();
    if (state().segment_tree().count() != 1) return "the segment was lost";
    return owner_.fault_count(fault_kind::double_free) == 0 ? "" : "a free was refused";
  }

 private:
  void check_class_of(word taken) {
    if (taken != 0 && !state().segments[0].load().is_slices_of(id()))
      problem_ = "a claimer got a slice of another class";
  }

  [[nodiscard]] heap_state& state() { return state_of(owner_); }
  [[nodiscard]] size_class id() const { return size_class_of(uses_.first); }

  sizes uses_;
  heap owner_;
  std::uint32_t generation_ = 0;
  std::array<void*, max_slices> held_{};
  std::string problem_;
};

TEST(LateClaimModel, AClaimerThatALateFreeAdmitsLeavesTheNextUseIntact) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "tests the heap beneath the mitigations";
  for (sizes const& uses : {sizes{32768, 16384}, sizes{16384, 32768}, sizes{32768, 32768}}) {
    reused_segment observed{uses};
    for (word const freed : {word{1}, low_bits(segment / uses.second)}) {
      for (std::uint32_t const group : {1u, 2u}) {
        for (bool const has_seen_bits : {false, true}) {
          SCOPED_TRACE(testing::Message() << uses.first << " then " << uses.second << ", group of "
                                          << group << ", bits seen early: " << has_seen_bits);
          expect_all_schedules_hold(
              [&] {
                observed.begin();
                scenario run;
                run.lanes = {
                    [&] { observed.free_late(); },
                    [&] { has_seen_bits ? observed.claim_seen(group) : observed.claim(group); },
                    [&] { observed.use_again(freed); }};
                run.check = [&] { return observed.check(); };
                return run;
              },
              {.preemptions = 2});
        }
      }
    }
  }
}

/// A segment of two blocks. One slice of the first block is in use, and no slice of the second
/// block was ever allocated. A lane takes the second block back as free and another lane opens it,
/// while a claimer that a late free admitted is inside.
class opened_block {
 public:
  opened_block()
      : owner_{{.bytes = segment, .segment_bytes = segment, .backend_kind = backend::cpu}} {}

  void begin() {
    owner_.reset();
    problem_.clear();
    held_.clear();
    held_.insert(owner_.ref().malloc(size));
  }
  void free_late() {
    (void)slice_return::release(state(), id, block_state::last_generation, second_block(), 0,
                                words_per_block, 1);
  }
  /// Claims a slice of the second block, and frees it.
  void claim_and_free() {
    slice_request request{&state(), id, 1};
    request.index = words_per_block;
    request.generation = state().segments[0].load().generation();
    if (!second_block().peek().has_slices()) return;
    word const taken = slice_claim::claim_from_used(request, 0, 1);
    for (word rest = taken; rest != 0; rest &= rest - 1) {
      std::uint32_t const slice = request.index * bits_per_word + lowest_one(rest);
      heap_internals::free_now(owner_.ref(), reinterpret_cast<void*>(state().base + slice * size));
    }
    if (owner_.fault_count(fault_kind::double_free) != 0) problem_ = "a free was refused";
  }
  /// Takes the unused slices back in one step, and opens the second block.
  void open_again() {
    auto* const lane = std::exchange(simt::current_lane, nullptr);
    reclaim_all(state());
    simt::current_lane = lane;
    slice_request request{&state(), id, 1};
    if (slice_claim::revive_block(request, 0, 1) != 0)
      held_.insert(reinterpret_cast<void*>(state().base + slices_per_block * size));
  }
  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (auto const wrong = owner_.audit(); !wrong.empty()) return wrong.front();
    return owner_.stats().allocations_in_use == held_.size() ? "" : "a slice was lost";
  }

 private:
  static constexpr std::uint32_t size = 32;
  static constexpr size_class id = size_class_of(size);

  [[nodiscard]] heap_state& state() { return state_of(owner_); }
  [[nodiscard]] block second_block() { return state().block_at(id, 0, 1); }

  heap owner_;
  std::set<void*> held_;
  std::string problem_;
};

TEST(LateClaimModel, AClaimerPassesNoSliceOnBeforeItsBlockIsOpen) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "tests the heap beneath the mitigations";
  opened_block observed;
  expect_all_schedules_hold(
      [&] {
        observed.begin();
        scenario run;
        run.lanes = {[&] { observed.free_late(); }, [&] { observed.claim_and_free(); },
                     [&] { observed.open_again(); }};
        run.check = [&] { return observed.check(); };
        return run;
      },
      {.preemptions = 3});
}

/// A run of 128 slices is taken back when two slices of one word were never allocated. The other
/// slices are freed meanwhile and complete the segment. Then the segment is used for 256 slices.
/// 128 of these are freed and fill as many words as the first use had. The lane that returned the
/// two slices must not take this for its own work.
class reclaimed_segment {
 public:
  reclaimed_segment()
      : owner_{{.bytes = segment, .segment_bytes = segment, .backend_kind = backend::cpu}} {}

  void begin() {
    owner_.reset();
    first_.clear();
    second_.clear();
    for (std::uint32_t i = 0; i < segment / 512 - 2; ++i)
      first_.push_back(owner_.ref().malloc(512));
  }
  void reclaim() { (void)run_supply::reclaim(state_of(owner_), size_class_of(512)); }
  /// Runs in one step: the other lane continues when this call has returned.
  void use_again() {
    auto* const lane = std::exchange(simt::current_lane, nullptr);
    use_for_the_other_size();
    simt::current_lane = lane;
  }
  void use_for_the_other_size() {
    for (void* const slice : first_) owner_.ref().free(slice);
    for (std::uint32_t i = 0; i < segment / 256; ++i) {
      void* const slice = owner_.ref().malloc(256);
      if (slice == nullptr) return;  // the run is not taken back yet
      second_.push_back(slice);
    }
    auto const is_high = [&](void* slice) {
      return (reinterpret_cast<std::uintptr_t>(slice) & (segment - 1)) >= segment / 2;
    };
    for (void*& slice : second_) {
      if (!is_high(slice)) owner_.ref().free(std::exchange(slice, nullptr));
    }
  }
  [[nodiscard]] std::string check() {
    if (auto const wrong = owner_.audit(); !wrong.empty()) return wrong.front();
    std::set<void*> in_use;
    for (void* const slice : second_) {
      if (slice != nullptr) in_use.insert(slice);
    }
    for (std::uint32_t i = 0; i < segment / 256; ++i) {
      void* const slice = owner_.ref().malloc(256);
      if (slice != nullptr && !in_use.insert(slice).second) return "a slice in use was allocated";
    }
    return "";
  }

 private:
  heap owner_;
  std::vector<void*> first_, second_;
};

TEST(LateClaimModel, TheLaneThatReturnsTheRestOfABlockLeavesTheNextUseIntact) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "tests the heap beneath the mitigations";
  reclaimed_segment observed;
  expect_all_schedules_hold(
      [&] {
        observed.begin();
        scenario run;
        run.lanes = {[&] { observed.reclaim(); }, [&] { observed.use_again(); }};
        run.check = [&] { return observed.check(); };
        return run;
      },
      {.preemptions = 1});
}

}  // namespace late_claim_model_test
}  // namespace quarry::test
