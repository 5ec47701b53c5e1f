// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opencl/heap_on_host.hpp"
#include "support/explore.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace quarry::test {

/// An OpenCL heap that the explorer runs again and again from one state. It knows which units each
/// allocation has, from the return of `malloc` to the call of `free`.
class opencl_model_heap {
 public:
  explicit opencl_model_heap(bytes size) : heap_{size, 1} { keep_as_start(); }

  opencl_c::quarry_heap operator()() { return heap_.heap(); }
  void set_claims_unread(bool claims_unread) { heap_.set_claims_unread(claims_unread); }

  /// Every schedule begins with the heap's state and allocations of this moment.
  void keep_as_start() {
    auto const* const words = opencl_c::quarry_words(heap_.heap());
    start_.assign(words, words + heap_.heap()->words);
    live_at_start_ = live_;
  }
  void restart() {
    std::memcpy(heap_.heap(), start_.data(), start_.size() * sizeof start_[0]);
    live_ = live_at_start_;
    problem_.clear();
  }

  opencl_c::quarry_ref malloc(bytes size) {
    auto const ref = opencl_c::quarry_malloc(heap_.heap(), size);
    if (ref != 0) own(ref, opencl_c::quarry_units_of(size));
    return ref;
  }
  void free(opencl_c::quarry_ref ref) {
    disown(ref);
    if (!opencl_c::quarry_free(heap_.heap(), ref)) problem_ = "a free was refused";
  }

  /// Claims slots of a word, and owns them. `used`: what the claimer believes the word to be.
  std::uint32_t claim(std::uint32_t id, std::uint32_t span, std::uint32_t word, std::uint32_t used,
                      std::uint32_t count, std::uint32_t seed = 0) {
    auto const bits = opencl_c::quarry_claim_bits(heap_.heap(), id, span, word, &used, count, seed);
    own_slots(id, {span, word, bits});
    return bits;
  }
  void own_slots(std::uint32_t id, opencl_c::quarry_slots slots) {
    if (slots.bits != 0 && *opencl_c::quarry_span_class(heap_.heap(), slots.span) != id + 1)
      problem_ = "a claimer has a slot of another class";
    for (; slots.bits != 0; slots.bits &= slots.bits - 1)
      own(slot(id, slots.span, slots.word * 32 + opencl_c::quarry_lowest_bit(slots.bits)),
          opencl_c::quarry_units_of_class(id, span_shift()));
  }
  /// Claims the pages of a span and opens it. The caller owns the slots of `taken`.
  bool open(std::uint32_t id, std::uint32_t taken) {
    auto const span = opencl_c::quarry_claim_span(heap_.heap(), 0);
    if (span == QUARRY_NONE) return false;
    opencl_c::quarry_open_span(heap_.heap(), id, span);
    if (taken == 0) opencl_c::quarry_list_empty(heap_.heap(), span);
    return claim(id, span, 0, ~taken, static_cast<std::uint32_t>(std::popcount(taken))) == taken;
  }
  void own(opencl_c::quarry_ref ref, std::uint32_t units) {
    auto const next = live_.lower_bound(ref);
    if ((next != live_.end() && next->first < ref + units) ||
        (next != live_.begin() && std::prev(next)->first + std::prev(next)->second > ref))
      problem_ = "two allocations overlap at " + std::to_string(ref);
    live_[ref] = units;
  }
  void disown(opencl_c::quarry_ref ref) {
    if (live_.erase(ref) == 0) problem_ = "the test frees what it does not own";
  }
  [[nodiscard]] bool owns(opencl_c::quarry_ref ref) const { return live_.contains(ref); }

  [[nodiscard]] opencl_c::quarry_ref slot(std::uint32_t id, std::uint32_t span,
                                          std::uint32_t index) {
    return opencl_c::quarry_base_of_span(heap_.heap(), span) +
           index * opencl_c::quarry_units_of_class(id, span_shift());
  }
  [[nodiscard]] std::uint32_t span_shift() { return opencl_c::quarry_span_shift(heap_.heap()); }
  /// Frees that were refused.
  [[nodiscard]] std::uint32_t faults() {
    std::uint32_t count = 0;
    for (std::uint32_t kind = QUARRY_FAULT_DOUBLE_FREE; kind < QUARRY_FAULT_KINDS; ++kind)
      count += heap_.faults(kind);
    return count;
  }

  /// The first problem of a heap that no lane uses; empty if there is none. Frees everything.
  [[nodiscard]] std::string check() {
    if (!problem_.empty()) return problem_;
    if (auto problem = problem_at_rest(); !problem.empty()) return problem;
    if (auto problem = problem_of_free_slots(); !problem.empty()) return problem;
    while (!live_.empty()) free(live_.begin()->first);
    if (auto problem = problem_at_rest(); !problem.empty()) return "all free: " + problem;
    auto* const state = heap_.heap();
    auto const everything = malloc(bytes{state->usable_pages} << state->page_shift << 4);
    if (everything == 0) return "the free memory is not the whole heap";
    free(everything);
    return problem_.empty() ? problem_at_rest() : problem_;
  }

 private:
  [[nodiscard]] std::string problem_at_rest() {
    auto* const state = heap_.heap();
    std::multiset<opencl_c::quarry_ref> refs;
    for (auto const& [ref, units] : live_) refs.insert(ref);
    if (auto problem = heap_.audit(refs); !problem.empty()) return problem;
    if (opencl::usage_of(heap_.copy()).reserved >> state->page_shift >> 4 != state->used_pages)
      return "used_pages is " + std::to_string(state->used_pages);
    if (state->reclaiming != 0) return "a lane that reclaimed left its mark";
    auto const* const words = opencl_c::quarry_words(state);
    for (std::uint32_t i = state->hints; i < state->tickets; ++i)
      if ((words[i] & QUARRY_MOVING) != 0) return "a hint says that it moves";
    for (std::uint32_t i = state->openers; i < state->page_tree.first[0]; ++i)
      if (words[i] != 0) return "a lane that opened a span left its mark";
    return {};
  }

  /// Allocates every slot of the first open span's class. All of them must be found.
  [[nodiscard]] std::string problem_of_free_slots() {
    auto* const state = heap_.heap();
    std::uint32_t class_and_one = 0;
    for (std::uint32_t span = state->spans; span-- != 0;)
      if (auto const id = *opencl_c::quarry_span_class(state, span); id != 0) class_and_one = id;
    if (class_and_one == 0) return {};
    auto const slots = opencl_c::quarry_slots_of_class(class_and_one - 1, span_shift());
    auto const units = opencl_c::quarry_units_of_class(class_and_one - 1, span_shift());
    std::uint32_t expected = 0;
    for (std::uint32_t span = 0; span < state->spans; ++span)
      if (*opencl_c::quarry_span_class(state, span) == class_and_one || !is_used(span))
        expected += slots;
    while (malloc(bytes{units} * QUARRY_UNIT) != 0) continue;
    std::uint32_t found = 0;
    for (auto const& [ref, size] : live_) found += size == units ? 1 : 0;
    if (found == expected) return problem_at_rest();
    return std::to_string(found) + " of " + std::to_string(expected) + " slots were found";
  }

  [[nodiscard]] bool is_used(std::uint32_t span) {
    auto const first = opencl_c::quarry_base_of_span(heap_.heap(), span);
    auto const next = live_.lower_bound(first + (1u << span_shift()));
    return next != live_.begin() && std::prev(next)->first + std::prev(next)->second > first;
  }

  opencl_c::heap_on_host heap_;
  std::vector<std::uint32_t> start_;
  std::map<opencl_c::quarry_ref, std::uint32_t> live_, live_at_start_;  // units by reference
  std::string problem_;
};

/// Two frees of one reference at once.
class double_free {
 public:
  double_free(opencl_model_heap& heap, opencl_c::quarry_ref ref) : heap_{heap}, ref_{ref} {
    heap.disown(ref);
    heap.keep_as_start();
  }
  void free(std::size_t lane) { succeeds_[lane] = opencl_c::quarry_free(heap_(), ref_); }
  /// A free that was refused is a fault, and the other one succeeded.
  [[nodiscard]] std::string problem(bool both_may_succeed = false) const {
    std::uint32_t const succeeded = (succeeds_[0] ? 1 : 0) + (succeeds_[1] ? 1 : 0);
    if (succeeded == 0) return "no free succeeded";
    if (succeeded == 2 && !both_may_succeed) return "both frees succeeded";
    return heap_.faults() == 2 - succeeded ? "" : "the faults are not the frees that were refused";
  }

 private:
  opencl_model_heap& heap_;
  opencl_c::quarry_ref ref_;
  std::array<bool, 2> succeeds_{};
};

/// Runs each schedule that leaves a lane at most `preemptions` times while the lane could continue.
/// So a bound of 3 excludes errors that need four such switches; 100 excludes no schedule.
///
/// The models also exclude: orders weaker than sequential consistency (scripts/check_mutants.sh has
/// those), lanes that form teams or work-groups, spans whose summary has several words, several
/// places or areas, and heaps that grow. Every lane must end within the explorer's limit of steps
/// in every schedule, so no lane waits for another one.
inline void expect_every_schedule_holds(opencl_model_heap& heap,
                                        std::vector<std::function<void()>> const& lanes,
                                        std::uint32_t preemptions,
                                        std::function<std::string()> const& problem_of_lanes = {}) {
  expect_all_schedules_hold(
      [&] {
        heap.restart();
        return scenario{lanes, [&] {
                          auto const problem = problem_of_lanes ? problem_of_lanes() : "";
                          return problem.empty() ? heap.check() : problem;
                        }};
      },
      {.preemptions = preemptions});
}

}  // namespace quarry::test
