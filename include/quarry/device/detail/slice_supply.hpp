// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/run_supply.hpp"
#include "quarry/device/detail/slice_claim.hpp"
#include "quarry/device/detail/ticket_wait.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Finds slices for one lane on behalf of its group when its ticket counter is used up.
///
/// It searches in this order:
///   1. tickets of the class's other counters;
///   2. freed slices, with little effort, unless more than a sixteenth of the segments is free;
///   3. free segments;
///   4. unused tickets of other classes' runs;
///   5. freed slices, with full effort.
/// Fresh slices are much cheaper than freed slices, and a slice block that no lane claims from
/// becomes free as a whole.
///
/// One lane replaces a class's run, and other lanes wait for it (ticket_wait). That lane may stand
/// still for seconds: a GPU may let other lanes of its warp run instead, for as long as they
/// compute. So if the class's run does not change for `microseconds_to_own_segment`, a lane that
/// waits takes a segment. It keeps the slices that it needs, and frees the others for the other
/// lanes that wait.
///
/// A lane that takes a counter's last ticket records that at once. On CUDA, lanes of a warp that
/// call a function together wait for each other where they leave it. So no lane may postpone work
/// that another warp waits for until after a return. Otherwise two warps might wait for each other:
/// each has a counter to record and a lane that waits for the other warp.
class slice_supply {
 public:
  enum class supply : std::uint32_t {
    found,      // some or all of the requested slices, from one counter or one word
    exhausted,  // there are no slices
    stalled     // other lanes took all slices and all segments, all the time
  };

  QUARRY_SLOW static supply acquire(slice_request& request) {
    request.state->ticket_counter_at(request.id, simt::warp_hint() % counters_per_class).rewind();
    request.origin = slice_request::source::none;
    request.patience.spend();  // starts the clock
    request.returns = request.state->free_segments.returns();
    std::uint32_t uncounted = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t empty_looks = 0; empty_looks < looks_before_refusal;) {
      word const previous = request.state->begin_search();
      word run = 0;
      bool const with_all_effort = empty_looks != 0 || request.is_impatient();
      outcome const result = simt::indirect_call(&acquire_once, request, with_all_effort, run);
      if (result == outcome::found) return supply::found;
      if (request.patience.has_lasted(slice_request::max_microseconds)) return supply::stalled;
      if (request.patience.has_lasted(slice_request::microseconds_if_nearly_full) &&
          !run_supply::is_roomy(*request.state))
        return supply::exhausted;
      request.patience.spend();
      if (result == outcome::wait) {
        if (simt::indirect_call(&take_segment, request, run)) return supply::found;
        continue;
      }
      if (empty_looks == 0 && simt::indirect_call(&stays_full, *request.state, request.id)) break;
      if (simt::indirect_call(&replace_run, request, run, empty_looks == full_look)) {
        if (request.origin != slice_request::source::none) return supply::found;
        continue;
      }
      // Look again, because slices that another lane frees, reserves or returns at this moment are
      // in no tree. The first `max_uncounted` looks that may have missed segments in transit do not
      // count.
      bool const saw_all = request.state->search_saw_all(previous);
      bool const is_counted = uncounted == max_uncounted || saw_all;
      uncounted += is_counted ? 0 : 1;
      if (is_counted || empty_looks == full_look) ++empty_looks;
      if (request.now == slice_request::stage::own_class &&
          empty_looks == looks_before_other_classes && request.state->segment_tree().empty() &&
          !run_supply::other_classes_have_run(*request.state, request.id))
        break;
      if (saw_all && simt::indirect_call(&is_hopeless, request, empty_looks)) break;
      simt::pause();
    }
    return supply::exhausted;
  }

  /// Opening a run takes about 30 us; on a busy GPU, more.
  static constexpr std::uint32_t microseconds_to_own_segment = 1000;

  /// Takes a segment for this request alone if the request has waited long while the class's word
  /// stayed `run_word`. Its slices are the tickets of a run that no other lane knows. Frees the
  /// slices that the request does not need. Returns false if it took no segment.
  ///
  /// If many lanes wait, one of them takes a segment, and the others get its slices. That lane may
  /// stand still, too: then one of the others replaces it after a longer time. (L) orders nothing:
  /// `takes` only limits how many lanes take a segment.
  QUARRY_SLOW static bool take_segment(slice_request& request, word run_word) {
    heap_state& state = *request.state;
    simt::atomic_ref<std::uint32_t> takes{state.takes[request.id]};
    std::uint32_t number = takes.load(simt::relaxed);  // (L)
    bool const is_taken = number % 2 != 0;
    auto const seen = static_cast<std::uint8_t>(
        mix(static_cast<std::uint32_t>(run_word ^ run_word >> 32) + number));
    if (seen != request.seen_run) {
      request.seen_run = seen;
      request.since = request.patience.spent();
    }
    std::uint32_t const limit =
        is_taken ? microseconds_if_taker_stands_still : microseconds_to_own_segment;
    if (request.patience.spent() - request.since < limit * 1000) return false;
    if (!request.is_stuck) {  // first looks at slices that another lane left
      request.is_stuck = true;
      return false;
    }
    bool const may_succeed =
        !state.segment_tree().empty() || run_supply::other_classes_have_run(state, request.id);
    std::uint32_t const own = number + (is_taken ? 2 : 1);
    if (!may_succeed || !takes.compare_exchange(number, own, simt::relaxed)) return false;  // (L)
    bool const has_taken =
        (!state.segment_tree().empty() ||
         simt::indirect_call(&run_supply::reclaim_from_others, state, request.id, false)) &&
        simt::indirect_call(&take_free_segment, request);
    std::uint32_t expected = own;  // another number if another lane has replaced this one
    (void)takes.compare_exchange(expected, own + 1, simt::relaxed);  // (L)
    return has_taken;
  }

  static constexpr std::uint32_t microseconds_if_taker_stands_still = 3000;

  QUARRY_SLOW static bool take_free_segment(slice_request& request) {
    heap_state& state = *request.state;
    size_class const id = request.id;
    // Before the claim: until its slices are free, the segment is in no tree and in no run.
    state.begin_return();
    bit_tree::range const found = run_supply::claim_segments(state, id, 1);
    if (found.count == 0) {
      state.end_return();
      return false;
    }
    state.segment_counts[id].add(found.count);
    segment_run const run = class_run::run_of(state.run(id).peek()).next(found.first, 1);
    simt::indirect_call(&run_segments::cut_one, state, id, run, 0u);
    simt::fence_before_stores();  // as before the counters of a run are opened
    request.counter = 0;
    request.value = run.encoded() << ticket_counter::ticket_bits;
    request.origin = slice_request::source::tickets;
    class_layout const& layout = state.layouts[id];
    std::uint32_t const tickets = ticket_counter::tickets_of(layout, run, 0);
    run_segments::closed_run closed{&state, id, run, 0, 0, false, {}};
    closed.tickets[0] = request.count < tickets ? request.count : tickets;
    closed.used_units = ((closed.tickets[0] - 1) >> layout.unit_shift) * counters_per_class + 1;
    simt::indirect_call(&run_segments::return_run, closed);
    state.end_return();
    return true;
  }

  /// Whether the request fails after `looks` looks without success, the last of which saw all
  /// memory. It also fails before the last look if it has lasted `microseconds_without_hope`, there
  /// is no free segment, and one of two conditions holds. The request is late; or the class has no
  /// freed slice and the lane has tried to reclaim all unused memory of other classes. If the
  /// request fails after the lane has tried that, the function records that the class is full.
  QUARRY_SLOW static bool is_hopeless(slice_request const& request, std::uint32_t looks) {
    heap_state& state = *request.state;
    bool const has_reclaimed = looks > full_look + 1;
    bool const lasts_too_long =
        request.patience.has_lasted(microseconds_without_hope) && state.segment_tree().empty() &&
        (request.is_late() || (has_reclaimed && state.class_tree(request.id).empty()));
    bool const fails = lasts_too_long || looks == looks_before_refusal;
    if (fails && has_reclaimed) state.set_full(request.id, request.returns);
    return fails;
  }

  /// How long a lane searches when there is neither a free segment nor a freed slice.
  static constexpr std::uint32_t microseconds_without_hope = 500;

  /// Whether an earlier search found that the class is full (heap_state::is_full), and no class has
  /// a run with memory that this class could use. Both conditions must hold during as many looks as
  /// a search makes. These looks only read. So a full heap refuses lanes quickly, and they do not
  /// disturb lanes that free. (Rejected: fewer looks. Lanes that each free and allocate one slice
  /// of a full heap were refused.)
  QUARRY_SLOW static bool stays_full(heap_state& state, size_class id) {
    QUARRY_NO_UNROLL
    for (std::uint32_t looks = 0; looks < looks_before_refusal; ++looks) {
      word const run = state.run(id).peek();
      if (class_run::is_busy(run) || class_run::used_up(run) < counters_per_class ||
          !state.is_full(id) || run_supply::other_classes_have_run(state, id))
        return false;
      simt::pause();
    }
    return true;
  }

  /// The number of unsuccessful looks before the allocation fails. Slices that a free announced are
  /// in no tree until the announcing lane advertises them, which takes about the time of one look.
  static constexpr std::uint32_t looks_before_refusal = 16;

  /// After this number of unsuccessful looks, a lane first tries freed slices of other classes, if
  /// no segment is free and no other class has a run to reclaim. A search of the own class with
  /// full effort takes hundreds of microseconds.
  static constexpr std::uint32_t looks_before_other_classes = 2;

  /// The maximum number of additional looks while other lanes return segments.
  static constexpr std::uint32_t max_uncounted = 64;

  /// The number of the look that reclaims all slices that other classes have not allocated.
  /// Rejected: every look after some time reclaims them. Lanes then end each other's runs
  /// repeatedly: on an H200, a burst of allocations took 13.9 s instead of 0.6 s.
  static constexpr std::uint32_t full_look = looks_before_refusal / 2;

  enum class outcome : std::uint32_t { found, wait, run_is_over };

  /// Claims tickets of the class's run. If there are no tickets, claims freed slices instead.
  /// Returns `wait` if there may be tickets soon: another lane replaces the run, or is about to
  /// count the last ticket that it took. Returns `run_is_over` if there are neither tickets nor
  /// freed slices. `run_word` is then the class's word.
  QUARRY_SLOW static outcome acquire_once(slice_request& request, bool with_all_effort,
                                          word& run_word) {
    heap_state& state = *request.state;
    // The three loads are in flight together.
    bool const has_returned =
        !state.class_tree(request.id).empty() && (with_all_effort || !run_supply::is_roomy(state));
    run_word = state.run(request.id).peek();
    bool const is_busy = class_run::is_busy(run_word);
    bool const is_used_up = class_run::used_up(run_word) >= counters_per_class;
    if (!is_busy && !is_used_up && simt::indirect_call(&claim_tickets, request) == outcome::found)
      return outcome::found;
    std::uint32_t const tries = with_all_effort ? all_tries : few_tries;
    if (has_returned && simt::indirect_call(&slice_claim::claim_returned, request, tries))
      return outcome::found;
    if (!is_busy) return is_used_up ? outcome::run_is_over : outcome::wait;
    return simt::indirect_call(&wait_for_tickets, request) ? outcome::found : outcome::wait;
  }

  static constexpr std::uint32_t few_tries = 4;

  static constexpr std::uint32_t all_tries = 16;

  /// Opens a new run for the request's class, whose word was `run_word`, and claims the request's
  /// slices from it. If there is no free segment, it reclaims memory from other classes; if
  /// `reclaims_all` is true, it reclaims all their unused slices. Returns false if there is no
  /// memory, and true without slices if another lane replaces the run.
  QUARRY_SLOW static bool replace_run(slice_request& request, word run_word, bool reclaims_all) {
    heap_state& state = *request.state;
    size_class const id = request.id;
    // A search may miss a number whose upper levels another lane repairs (bit_tree::successor). The
    // leaves are exact.
    bool const is_empty =
        reclaims_all ? state.segment_tree().count() == 0 : state.segment_tree().empty();
    if (is_empty &&
        (!run_supply::other_classes_have_run(state, id) ||
         !simt::indirect_call(&run_supply::reclaim_from_others, state, id, reclaims_all)))
      return false;
    if (!state.run(id).lock(run_word)) return true;
    bool const opened = simt::indirect_call(&run_supply::open_run, state, id, &request);
    state.run(id).unlock();
    return opened;
  }

  /// Waits for tickets, about as long as it takes to replace a run, and claims them.
  QUARRY_SLOW static bool wait_for_tickets(slice_request& request) {
    QUARRY_NO_UNROLL
    for (std::uint32_t poll = 0; poll < ticket_wait::polls; ++poll) {
      std::uint32_t const index =
          simt::indirect_call(&ticket_wait::look, *request.state, request.id, poll);
      if (index < counters_per_class && claim_tickets_of(request, index)) return true;
      if (index == ticket_wait::run_is_ready) return false;
      simt::pause(ticket_wait::pause_of_poll);
      request.patience.spend();
    }
    return false;
  }

  /// Claims tickets of counter `index`. Returns false if it has no tickets any more.
  QUARRY_HD static bool claim_tickets_of(slice_request& request, std::uint32_t index) {
    request.value = request.state->ticket_counter_at(request.id, index).claim(request.count);
    if (!ticket_wait::has_tickets(request.state->layouts[request.id], request.value, index))
      return false;
    request.counter = static_cast<std::uint8_t>(index);
    request.origin = slice_request::source::tickets;
    simt::indirect_call(&ticket_wait::count_if_last, *request.state, request.id, index,
                        request.value, request.count);
    return true;
  }

  /// Claims tickets of any counter that has tickets. The search begins with this warp's counter.
  QUARRY_SLOW static outcome claim_tickets(slice_request& request) {
    std::uint32_t const candidates =
        simt::indirect_call(&run_supply::counters_with_tickets, *request.state, request.id);
    // from this warp's counter on, then from the first one: bits 12 to 23 repeat bits 0 to 11
    constexpr std::uint32_t each = (1u << counters_per_class) - 1;
    std::uint32_t order = (candidates << counters_per_class | candidates) &
                          each << simt::warp_hint() % counters_per_class;
    QUARRY_NO_UNROLL
    for (; order != 0; order &= order - 1) {
      std::uint32_t const index = lowest_one(order) % counters_per_class;
      if (claim_tickets_of(request, index)) return outcome::found;
    }
    simt::pause();  // another lane just took the last ticket and is about to count it
    return outcome::wait;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
