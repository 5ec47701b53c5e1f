// SPDX-License-Identifier: Apache-2.0
// Every interleaving of a late free that lets a claimer into a segment of which nothing was handed
// out, that claimer, and a lane that takes the segment back and uses it for another class: the heap
// itself, and not a copy of its protocol.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"
#include "support/state_of.hpp"

#include "quarry/heap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace late_claim_model_test {

constexpr std::uint32_t segment = 64 * 1024;
constexpr std::uint32_t max_slices = 8;

/// What the segment is used for before, and what then, in bytes of a slice.
struct sizes {
  std::uint32_t first;
  std::uint32_t then;
};

void take_back_all(heap_state& state) {
  (void)slice_supply::take_back_from_others(state, slice_supply::no_class, true, simt::patience{});
}

class reused_segment {
 public:
  explicit reused_segment(sizes const& of)
      : of_{of}, owner_{{.bytes = segment, .segment_bytes = segment, .where = backend::cpu}} {}

  /// The segment's first use ends, and its second one begins: of the same class, with nothing
  /// handed out.
  void begin() {
    owner_.reset();
    problem_.clear();
    held_.fill(nullptr);
    generation_ = state().segments[0].generation();
    std::vector<void*> all;
    for (std::uint32_t i = 0; i < segment / of_.first; ++i)
      all.push_back(owner_.ref().malloc(of_.first));
    for (void* const one : all) heap_internals::free_now(owner_.ref(), one);
    ASSERT_TRUE(state().run(id()).lock(state().run(id()).peek()));
    ASSERT_TRUE(slice_supply::open_run(state(), id()));
    state().run(id()).unlock();
  }

  /// By a lane that knows the segment by its first use.
  void free_late() {
    (void)slice_return::release(state(), id(), generation_, state().block_at(id(), 0, 0), 0, 0, 1);
  }

  /// For a group of `count`, by a lane that knows it by its second one.
  void claim(std::uint32_t count) {
    slice_request request{&state(), id(), count};
    request.generation = block_state::next_generation(generation_);
    word const taken = slice_claim::claim_from_used(request, 0, 0);
    if (taken != 0 && !state().segments[0].load().is_slices_of(id()))
      problem_ = "a claimer got a slice of another class";
  }

  /// Uses the segment for the other size, and frees those of the slices that `freed` has bits of.
  void use_again(word freed) {
    take_back_all(state());
    for (std::uint32_t i = 0; i < segment / of_.then; ++i) held_[i] = owner_.ref().malloc(of_.then);
    for (; freed != 0; freed &= freed - 1)
      owner_.ref().free(std::exchange(held_[lowest_one(freed)], nullptr));
  }

  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (auto const wrong = owner_.audit(); !wrong.empty()) return wrong.front();
    for (void*& one : held_) owner_.ref().free(std::exchange(one, nullptr));
    while (slice_supply::any_has_run(state())) take_back_all(state());
    if (auto const wrong = owner_.audit(); !wrong.empty()) return "at the end: " + wrong.front();
    if (state().segment_tree().count() != 1) return "the segment was lost";
    return owner_.fault_count(fault_kind::double_free) == 0 ? "" : "a free was refused";
  }

 private:
  [[nodiscard]] heap_state& state() { return state_of(owner_); }
  [[nodiscard]] size_class id() const { return size_class_of(of_.first); }

  sizes of_;
  heap owner_;
  std::uint32_t generation_ = 0;
  std::array<void*, max_slices> held_{};
  std::string problem_;
};

TEST(LateClaimModel, AClaimerThatALateFreeLetInLeavesTheNextUseAsItIs) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "what is beneath the mitigations";
  for (sizes const& of : {sizes{32768, 16384}, sizes{16384, 32768}, sizes{32768, 32768}}) {
    reused_segment what{of};
    for (word const freed : {word{1}, low_bits(segment / of.then)}) {
      for (std::uint32_t const group : {1u, 2u}) {
        auto const result = explore(
            [&] {
              what.begin();
              scenario run;
              run.lanes = {[&] { what.free_late(); }, [&] { what.claim(group); },
                           [&] { what.use_again(freed); }};
              run.check = [&] { return what.check(); };
              return run;
            },
            {.preemptions = 2});
        EXPECT_EQ(result.failure, "") << of.first << " then " << of.then << ", group of " << group;
        EXPECT_TRUE(result.complete);
        std::cout << "  " << result.schedules << " schedules with at most 2 preemptions\n";
      }
    }
  }
}

/// A run of 128 slices is taken back when two of one word were not handed out. The others, which
/// are freed meanwhile, complete the segment; then it is used for 256 slices, of which 128 are
/// freed that fill as many words as the first use had. Whoever returned the two must not take this
/// for its own work.
class taken_back_segment {
 public:
  taken_back_segment()
      : owner_{{.bytes = segment, .segment_bytes = segment, .where = backend::cpu}} {}

  void begin() {
    owner_.reset();
    first_.clear();
    then_.clear();
    for (std::uint32_t i = 0; i < segment / 512 - 2; ++i)
      first_.push_back(owner_.ref().malloc(512));
  }
  void take_back() { (void)slice_supply::take_back(state_of(owner_), size_class_of(512)); }
  /// In one step: the other lane goes on when all is done.
  void use_again() {
    auto* const lane = std::exchange(simt::current_lane, nullptr);
    use_for_the_other_size();
    simt::current_lane = lane;
  }
  void use_for_the_other_size() {
    for (void* const one : first_) owner_.ref().free(one);
    for (std::uint32_t i = 0; i < segment / 256; ++i) {
      void* const one = owner_.ref().malloc(256);
      if (one == nullptr) return;  // the run is not taken back yet
      then_.push_back(one);
    }
    auto const is_high = [&](void* one) {
      return (reinterpret_cast<std::uintptr_t>(one) & (segment - 1)) >= segment / 2;
    };
    for (void*& one : then_) {
      if (!is_high(one)) owner_.ref().free(std::exchange(one, nullptr));
    }
  }
  [[nodiscard]] std::string check() {
    if (auto const wrong = owner_.audit(); !wrong.empty()) return wrong.front();
    std::set<void*> in_use;
    for (void* const one : then_) {
      if (one != nullptr) in_use.insert(one);
    }
    for (std::uint32_t i = 0; i < segment / 256; ++i) {
      void* const one = owner_.ref().malloc(256);
      if (one != nullptr && !in_use.insert(one).second) return "a slice in use was handed out";
    }
    return "";
  }

 private:
  heap owner_;
  std::vector<void*> first_, then_;
};

TEST(LateClaimModel, WhoReturnedTheRestOfABlockLeavesTheNextUseAsItIs) {
  QUARRY_TEST_USES_FIBERS();
  if (is_on(mitigation::canary)) GTEST_SKIP() << "what is beneath the mitigations";
  taken_back_segment what;
  auto const result = explore(
      [&] {
        what.begin();
        scenario run;
        run.lanes = {[&] { what.take_back(); }, [&] { what.use_again(); }};
        run.check = [&] { return what.check(); };
        return run;
      },
      {.preemptions = 1});
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.complete);
  std::cout << "  " << result.schedules << " schedules with at most 1 preemption\n";
}

}  // namespace late_claim_model_test
}  // namespace quarry::test
