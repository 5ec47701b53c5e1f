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
  // How long a request lasts (simt::patience) before it:
  static constexpr std::uint32_t microseconds_to_lateness = 2000;  // fails if no segment is free
  // claims freed slices even if there are free segments
  static constexpr std::uint32_t microseconds_to_impatience = 3000;
  // fails if at most a sixteenth of the segments is free
  static constexpr std::uint32_t microseconds_if_nearly_full = 10'000;
  static constexpr std::uint32_t max_microseconds = 200'000;  // fails

  enum class source : std::uint8_t { none, tickets, bits };
  // The stages of a search: the own class, while it needs no long search; other classes; the own
  // class again, with all effort.
  enum class stage : std::uint8_t { own_class, other_classes, last };

  heap_state* state;
  size_class id;                 // of the slices to claim, and of the slices that were claimed
  std::uint32_t count;           // requested slices
  simt::patience patience{};     // for the whole group
  std::uint32_t random = 0;      // selects where the search begins
  std::uint32_t segment = 0;     // bits
  std::uint32_t generation = 0;  // the segment's generation that this lane knows
  std::uint32_t index = 0;       // bits: the index of the word in its segment
  std::uint32_t returns = 0;     // how often segments had become free when the search began
  std::uint32_t seen_since = 0;  // patience::spent when `seen_run` was first seen
  word value = 0;  // tickets: the counter's previous word; bits: the claimed slices of the word
  source origin = source::none;
  std::uint8_t counter = 0;  // tickets: the index of the ticket counter
  bool was_full = false;     // bits: the word was full before the claim
  std::uint8_t joined = 1;   // how many adjacent slices each allocation takes
  stage now = stage::own_class;
  bool is_stuck = false;  // the class's run has not changed for long
  // the class that the lanes requested; `id` is another class if this one has no memory
  std::uint8_t own_id = static_cast<std::uint8_t>(id);
  static_assert(max_size_classes <= 256);
  std::uint8_t seen_run = 0;  // a hash of the words for whose change the request waits

  /// Begins a new search.
  QUARRY_HD void restart() {
    patience.begin();
    now = stage::own_class;
    id = own_id;
    joined = 1;
    is_stuck = false;
    seen_run = 0;
    seen_since = 0;
  }
  /// Begins the next stage after the present stage found nothing. Returns false after the last one.
  QUARRY_HD bool begin_next_stage() {
    stage const ended = now;
    if (ended == stage::last) return false;
    restart();
    now = ended == stage::own_class ? stage::other_classes : stage::last;
    return true;
  }
  [[nodiscard]] QUARRY_HD bool is_impatient() const {
    return is_stuck || patience.has_lasted(microseconds_to_impatience);
  }
  [[nodiscard]] QUARRY_HD bool is_late() const {
    return patience.has_lasted(microseconds_to_lateness);
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
