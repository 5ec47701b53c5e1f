// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_state.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The request of a lane on behalf of its group, and the result of the request.
///
/// The request is in the lane's local memory. The functions of the slow path get a reference to it
/// and so need few registers. This matters because the function with the most registers limits how
/// many warps of an allocating kernel run at once.
struct slice_request {
  // How long a request, or its last stage, lasts (simt::patience) before it:
  static constexpr std::uint32_t microseconds_to_lateness = 2000;  // fails if no segment is free
  // claims freed slices even if there are free segments
  static constexpr std::uint32_t microseconds_to_impatience = 3000;
  // fails if at most a sixteenth of the segments is free
  static constexpr std::uint32_t microseconds_if_nearly_full = 10'000;
  static constexpr std::uint32_t max_microseconds = 200'000;  // fails

  enum class source : std::uint8_t { none, tickets, bits };
  // The stages of a search, one after the other, or `own_class_only`
  enum class stage : std::uint8_t {
    own_class,       // ends early if there is no memory to reclaim
    other_classes,   //
    last,            // the own class again, with all effort, if the request has a class
    broad_classes,   // those other classes that seem to have the most freed slices
    what_was_freed,  // other classes again: that effort may have freed some of their memory
    own_class_only   // for slices that must have the alignment of their class
  };

  heap_state* state;
  size_class id;                 // of the slices to claim, and of the slices that were claimed
  std::uint32_t count;           // requested slices
  simt::patience patience{};     // for the whole group
  std::uint32_t random = 0;      // selects where the search begins
  std::uint32_t segment = 0;     // bits
  std::uint32_t generation = 0;  // the segment's generation that this lane knows
  std::uint32_t index = 0;       // bits: the index of the word in its segment
  std::uint32_t returns = 0;     // how often segments had become free when the search began
  // patience::spent when `seen_run` was first seen, or when the last stage began
  std::uint32_t since = 0;
  std::uint32_t size = size_of_class(id);  // the most bytes that a lane requests
  word value = 0;  // tickets: the counter's previous word; bits: the claimed slices of the word
  source origin = source::none;
  std::uint8_t counter = 0;      // tickets: the index of the ticket counter
  bool was_full = false;         // bits: the word was full before the claim
  std::uint8_t joined = 1;       // how many adjacent slices each allocation takes
  stage now = stage::own_class;  // how far the search is
  bool is_stuck = false;         // the class's run has not changed for long
  // the class that the lanes requested, or would request if there were larger slices; `id` is
  // another class if this one has no memory
  std::uint8_t own_id = static_cast<std::uint8_t>(id);
  static_assert(max_size_classes <= 256);
  std::uint8_t seen_run = 0;  // a hash of the words for whose change the request waits

  /// Begins a new search.
  QUARRY_HD void restart(stage first) {
    patience.begin();
    is_stuck = false;
    seen_run = 0;
    since = 0;
    begin(first);
  }
  /// Begins the next stage after the present stage found nothing. Returns false after the last one.
  /// The time that a search may last holds for all stages together, but the last stage has its own.
  QUARRY_HD bool begin_next_stage() {
    if (now >= stage::what_was_freed) return false;
    auto next = static_cast<stage>(static_cast<std::uint8_t>(now) + 1);
    if (next == stage::last && exceeds_slices()) next = stage::broad_classes;
    begin(next);
    return true;
  }
  /// Whether the request exceeds the largest slice: no class has its `own_id`.
  [[nodiscard]] QUARRY_HD bool exceeds_slices() const { return own_id >= state->classes; }
  [[nodiscard]] QUARRY_HD bool asks_other_classes() const {
    return now == stage::other_classes || now == stage::broad_classes ||
           now == stage::what_was_freed;
  }
  /// Whether the search examines all freed slices of other classes, because the request fails next.
  [[nodiscard]] QUARRY_HD bool examines_all() const {
    return now == stage::what_was_freed &&
           patience.spent() - since <= 1000 * microseconds_if_nearly_full;
  }
  [[nodiscard]] QUARRY_HD bool is_impatient() const {
    return is_stuck || patience.has_lasted(microseconds_to_impatience);
  }
  [[nodiscard]] QUARRY_HD bool is_late() const {
    return patience.has_lasted(microseconds_to_lateness);
  }

 private:
  QUARRY_HD void begin(stage next) {
    now = next;
    if (now == stage::what_was_freed) since = patience.spent();
    id = own_id;
    joined = 1;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
