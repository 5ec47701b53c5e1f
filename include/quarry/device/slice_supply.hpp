// SPDX-License-Identifier: Apache-2.0
// The slow path of small allocations: new segment runs, freed slices, and memory reclaimed from
// other classes.
#pragma once

#include "quarry/device/mitigations.hpp"
#include "quarry/device/run_segments.hpp"
#include "quarry/device/slice_claim.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Finds slices for one lane on behalf of its group when its ticket counter is used up.
///
/// Lock-free, except for the replacement of a class's run: other lanes wait for it for a bounded
/// time (class_run). It searches in this order: tickets of the class's other counters; freed
/// slices, with little effort, unless more than a sixteenth of the segments is free; free segments;
/// unused tickets of other classes' runs; freed slices, with all effort. Fresh slices are much
/// cheaper, and a slice block that no lane claims from becomes free as a whole.
///
/// A lane that takes a counter's last ticket records that at once. On CUDA, lanes of a warp that
/// call a function together wait for each other where they leave it. So no lane may postpone work
/// that another warp waits for until after a return. Otherwise two warps, each with a counter to
/// record and a lane that waits for the other warp, would wait for each other.
class slice_supply {
 public:
  enum class supply : std::uint32_t {
    found,      // as many slices as the request wants, or fewer, since they are of one place
    exhausted,  // there are no slices
    stalled     // another lane holds the class's run and makes no progress
  };

  QUARRY_SLOW static supply acquire(slice_request& request) {
    request.state->slot(request.id, simt::warp_hint() % counters_per_class).rewind();
    (void)request.patience.ends_after(0);  // it begins
    simt::patience stall;
    word run_before = 0;
    std::uint32_t uncounted = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t empty_looks = 0; empty_looks < looks_before_refusal;) {
      word const before = request.state->begin_look();
      word run = 0;
      outcome const now = simt::indirect_call(&acquire_once, request, empty_looks != 0, run);
      if (now == outcome::found) return supply::found;
      if (now == outcome::wait) {
        if (run != run_before) stall.begin();
        run_before = run;
        if (stall.ends_after(microseconds_to_stall)) return supply::stalled;
        continue;
      }
      if (simt::indirect_call(&replace_run, request, run, empty_looks == look_at_all)) continue;
      if (is_hopeless(request, empty_looks, before)) break;
      // What another lane frees, reserves or returns at this moment is in no tree: look again. A
      // look that may have missed segments on their way does not count, for some time.
      bool const counts = uncounted == max_uncounted || request.state->missed_none(before);
      uncounted += counts ? 0 : 1;
      if (counts || empty_looks == look_at_all) ++empty_looks;
      simt::pause();
    }
    return supply::exhausted;
  }

  /// Whether there are no free segments, and it took too long: less if no slice is back either and
  /// all that others hold was looked at, more if the look that began with `before` may have missed
  /// segments that others return.
  [[nodiscard]] QUARRY_HD static bool is_hopeless(slice_request& request, std::uint32_t empty_looks,
                                                  word before) {
    if (!request.patience.ends_after(microseconds_without_hope)) return false;
    heap_state& state = *request.state;
    if (!state.segment_tree().empty()) return false;
    if (!state.missed_none(before)) return request.patience.has_lasted(microseconds_for_returns);
    return request.is_late() || (empty_looks > look_at_all && state.class_tree(request.id).empty());
  }

  /// How long a lane looks when there is neither a free segment nor a slice that came back.
  static constexpr std::uint32_t microseconds_without_hope = 500;

  /// How long a lane looks while others return segments. To return what a long run had not
  /// handed out takes milliseconds under load.
  static constexpr std::uint32_t microseconds_for_returns = 10'000;

  /// Looks that find nothing before a refusal. What a free announced, and the lane that is to say
  /// so did not yet advertise, is seen by none of the trees for about the time of one look.
  static constexpr std::uint32_t looks_before_refusal = 16;

  /// More looks, while other lanes return segments.
  static constexpr std::uint32_t max_uncounted = 64;

  /// The look that takes back all that others have not handed out. Rejected: each look after a
  /// while. Lanes then end each other's runs again and again: a storm took 13.9 s in place of 0.6.
  static constexpr std::uint32_t look_at_all = looks_before_refusal / 2;

  /// How long a lane waits for another one that holds its class's run and does nothing.
  static constexpr std::uint32_t microseconds_to_stall = 200'000;

  enum class outcome : std::uint32_t { found, wait, run_is_over };

  /// Tickets of the class's run, or slices that came back if it is over or being replaced. `wait`
  /// if there may be tickets in a moment; `run_is_over`, with the class's word in `seen`, if there
  /// is neither.
  QUARRY_SLOW static outcome acquire_once(slice_request& request, bool with_all_effort,
                                          word& seen) {
    heap_state& state = *request.state;
    // All three are on their way together.
    bool const has_returned =
        !state.class_tree(request.id).empty() && (with_all_effort || !is_roomy(state));
    seen = state.run(request.id).peek();
    bool const is_busy = class_run::is_busy(seen);
    if (!is_busy && class_run::used_up(seen) < counters_per_class)
      return simt::indirect_call(&take_tickets, request);
    std::uint32_t const tries = with_all_effort ? all_tries : few_tries;
    if (has_returned && simt::indirect_call(&slice_claim::claim_returned, request, tries))
      return outcome::found;
    if (!is_busy) return outcome::run_is_over;
    return simt::indirect_call(&has_new_run, request) ? simt::indirect_call(&take_tickets, request)
                                                      : outcome::wait;
  }

  /// Records that a lane took the last ticket of one of the counters of `run`.
  QUARRY_SLOW static void slot_used_up(heap_state& state, size_class id, segment_run run) {
    class_run const of_class = state.run(id);
    word const seen = of_class.count_used_up(run);
    if (class_run::run_of(seen) != run || class_run::used_up(seen) != counters_per_class) return;
    if (!is_roomy(state) && (!state.class_tree(id).empty() || state.segment_tree().empty())) return;
    if (of_class.lock(seen)) {  // fetch ahead: others will be here in a moment
      (void)simt::indirect_call(&open_run, state, id);
      of_class.unlock();
    }
  }

  static constexpr size_class no_class = ~size_class{0};

  /// Takes back what the runs of classes other than `id` have not handed out, until a segment is
  /// free; with `no_class`, of all classes. True if a segment is free after that. Unless `all`,
  /// only of runs with a segment of which nothing was handed out: what others are served from, and
  /// what takes a while to return, stays. Ends early if it lasts too long.
  QUARRY_SLOW static bool take_back_from_others(heap_state& state, size_class id, bool all,
                                                simt::patience const& patience) {
    QUARRY_NO_UNROLL
    for (std::uint32_t part = 0; part < 2; ++part) {
      word& hint = all ? state.with_run[part] : state.with_untouched[part];
      word classes = simt::atomic_ref<word>{hint}.load(simt::relaxed);  // (L)
      QUARRY_NO_UNROLL
      for (; classes != 0; classes &= classes - 1) {
        size_class const other = part * bits_per_word + lowest_one(classes);
        if (other == id || (!all && !simt::indirect_call(&still_has_untouched, state, other)))
          continue;
        if (!simt::indirect_call(&take_back, state, other)) continue;
        if (id != no_class && !state.segment_tree().empty()) return true;
        if (patience.has_lasted(slice_request::microseconds_to_refuse)) return false;
      }
    }
    return !state.segment_tree().empty();
  }

  /// Whether the run of class `id` has a segment of which nothing was handed out. If not, it will
  /// not have one again, and is not looked at again before it has another run.
  QUARRY_SLOW static bool still_has_untouched(heap_state& state, size_class id) {
    word const before = state.run(id).peek();
    simt::fence_after_loads();
    if (simt::indirect_call(&run_segments::has_untouched, state, id)) return true;
    if (class_run::is_busy(before)) return false;
    set_has_untouched(state, id, false);
    simt::fence_after_loads();
    // a run that was opened meanwhile has some
    if (state.run(id).peek() != before) set_has_untouched(state, id, true);
    return false;
  }

  /// Ends the run of class `id` and returns what it had not handed out. False if the run was
  /// being replaced. Others need not wait for what goes back, which may be much: only for the end
  /// of the run.
  QUARRY_SLOW static bool take_back(heap_state& state, size_class id) {
    word const seen = state.run(id).peek();
    if (!state.run(id).lock(seen)) return false;
    // before the class has no run: who sees neither that nor the memory has missed nothing
    state.begin_return();
    run_segments::closed_run closed{&state, id, class_run::run_of(seen), 0, 0, false, {}};
    state.run(id).set(closed.run.next(0, 0), counters_per_class);
    simt::indirect_call(&run_segments::close_slots, closed);
    set_has_run(state, id, false);
    state.run(id).unlock();
    if (closed.has_rest) simt::indirect_call(&run_segments::give_back_run, closed);
    state.end_return();
    return true;
  }

  /// Whether a class other than `id`, or with `no_class` any, may have a run.
  [[nodiscard]] QUARRY_HD static bool others_have_run(heap_state& state, size_class id) {
    word found = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t part = 0; part < 2; ++part) {
      word classes = simt::atomic_ref<word>{state.with_run[part]}.load(simt::relaxed);  // (L)
      if (id != no_class && id / bits_per_word == part) classes &= ~(word{1} << id % bits_per_word);
      found |= classes;
    }
    return found != 0;
  }

  [[nodiscard]] QUARRY_HD static bool any_has_run(heap_state& state) {
    return others_have_run(state, no_class);
  }

  /// Whether more than a sixteenth of the segments is free: then fresh slices come before those
  /// that came back.
  [[nodiscard]] QUARRY_HD static bool is_roomy(heap_state& state) {
    return state.count_free_segments() > state.segments_mapped / 16;
  }

  static constexpr std::uint32_t few_tries = 4;

  static constexpr std::uint32_t polls = 6;

  static constexpr std::uint32_t all_tries = 16;

  /// Opens a new run for the request's class, whose word was `seen`, with memory of other classes
  /// if need be: if `all`, with all that they have not handed out. False if there is none.
  QUARRY_SLOW static bool replace_run(slice_request const& request, word seen, bool all) {
    heap_state& state = *request.state;
    size_class const id = request.id;
    // A search may miss what another lane is putting right (bit_tree::successor): the leaves tell.
    bool const is_empty = all ? state.segment_tree().count() == 0 : state.segment_tree().empty();
    if (is_empty &&
        (!others_have_run(state, id) ||
         !simt::indirect_call(&take_back_from_others, state, id, all, request.patience)))
      return false;
    if (!state.run(id).lock(seen)) return true;
    bool const opened = simt::indirect_call(&open_run, state, id);
    state.run(id).unlock();
    return opened;
  }

  /// While another lane replaces the run: looks at this warp's slot from time to time, and not at
  /// what that lane needs. Whether the slot has a new run.
  QUARRY_SLOW static bool has_new_run(slice_request const& request) {
    ticket_counter const slot =
        request.state->slot(request.id, simt::warp_hint() % counters_per_class);
    segment_run const old = ticket_counter::run_of(slot.peek());
    bool is_new = false;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < polls && !is_new; ++i) {
      simt::pause(i);
      is_new = !(ticket_counter::run_of(slot.peek()) == old);
    }
    return is_new;
  }

  /// Tickets of any slot that has some, from this warp's on.
  QUARRY_SLOW static outcome take_tickets(slice_request& request) {
    class_layout const& layout = request.state->layouts[request.id];
    std::uint32_t index = simt::warp_hint() % counters_per_class;
    QUARRY_NO_UNROLL
    for (std::uint32_t left = counters_per_class; left != 0; --left) {
      ticket_counter const slot = request.state->slot(request.id, index);
      word const seen = slot.peek();
      if (has_tickets(layout, seen, index)) {
        request.value = slot.take(request.count);
        request.slot = index;
        request.from = slice_request::source::tickets;
        if (has_tickets(layout, request.value, index)) {
          simt::indirect_call(&count_if_last, request);
          return outcome::found;
        }
      }
      if (++index == counters_per_class) index = 0;
    }
    simt::pause();  // the last ticket was taken a moment ago, and is about to be counted
    return outcome::wait;
  }

  /// Counts the slot as used up if the request's tickets have its last one among them.
  QUARRY_SLOW static void count_if_last(slice_request const& request) {
    segment_run const run = ticket_counter::run_of(request.value);
    std::uint32_t const tickets =
        ticket_counter::tickets_of(request.state->layouts[request.id], run, request.slot);
    if (tickets - ticket_counter::ticket_of(request.value) <= request.count)
      simt::indirect_call(&slot_used_up, *request.state, request.id, run);
  }

  [[nodiscard]] QUARRY_HD static bool has_tickets(class_layout const& layout, word slot,
                                                  std::uint32_t index) {
    return ticket_counter::place_of(layout, ticket_counter::run_of(slot), index,
                                    ticket_counter::ticket_of(slot))
        .valid;
  }

  /// How many segments the class should take. To open a run takes some 30 us, and what it holds is
  /// lost to others until they need it so much that they take it back. So runs grow with use: while
  /// memory abounds, or nobody else needs any, a class takes as much again as it once held, later
  /// a quarter of that. Some is left to others, if there are any.
  QUARRY_SLOW static std::uint32_t length_of_next_run(heap_state& state, size_class id) {
    std::uint32_t const there = state.count_free_segments();
    bool const is_alone = !others_have_run(state, id);
    bool const is_half_free = there > state.segments_mapped / 2;
    bool const abounds = is_alone || is_half_free;
    std::uint32_t const share = !is_alone ? there / 4 : is_half_free ? there / 2 : there;
    std::uint32_t const maximum = state.held[id].read_most();
    std::uint32_t const longest = ticket_counter::longest_run(state.layouts[id]);
    std::uint32_t wanted = abounds ? maximum : maximum / 4;
    std::uint32_t const first = state.layouts[id].run_segments;
    if (wanted < (abounds ? first : first / 4 + 1)) wanted = abounds ? first : first / 4 + 1;
    if (wanted > longest) wanted = longest;
    return wanted < share ? wanted : share == 0 ? 1 : share;
  }

  /// Claims segments, formats them for class `id` and opens its slots on them. Requires the class's
  /// lock.
  QUARRY_SLOW static bool open_run(heap_state& state, size_class id) {
    std::uint32_t const wanted = simt::indirect_call(&length_of_next_run, state, id);
    // before the claim: who finds no segment then sees that we have them
    set_has_run(state, id, true);
    std::uint32_t const start =
        is_on(mitigation::random_start) ? mix(state.secret + id) % state.segments_reserved : 0;
    bit_tree::run const found = state.segment_tree().claim_front(wanted, start);
    if (found.count == 0) {
      set_has_run(state, id, false);
      return false;
    }
    state.change_free_segments(-static_cast<std::int32_t>(found.count));
    state.held[id].add(found.count);
    if constexpr (is_on(mitigation::poison)) {
      for (std::uint32_t i = 0; i < found.count; ++i) ++state.formats[found.first + i];
    }
    segment_run const old = class_run::run_of(state.run(id).peek());
    // The count of used-up slots may be too high by a late lane's (segment_run): then a slot has
    // tickets, which would be lost.
    if (old.count() != 0 && simt::indirect_call(&has_any_tickets, state, id)) {
      run_segments::closed_run closed{&state, id, old, 0, 0, false, {}};
      simt::indirect_call(&run_segments::close_slots, closed);
      simt::indirect_call(&run_segments::give_back_run, closed);
    }
    simt::indirect_call(&run_segments::format_run, state, id, old.next(found.first, found.count));
    return true;
  }

  /// Whether a ticket counter of the class has tickets.
  QUARRY_SLOW static bool has_any_tickets(heap_state& state, size_class id) {
    segment_run const run = class_run::run_of(state.run(id).peek());
    bool found = false;
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      found |= ticket_counter::ticket_of(state.slot(id, i).peek()) <
               ticket_counter::tickets_of(state.layouts[id], run, i);
    }
    return found;
  }

  QUARRY_HD static void set_has_run(heap_state& state, size_class id, bool has) {
    set_hint(state.with_run, id, has);
    set_has_untouched(state, id, has);
  }
  QUARRY_HD static void set_has_untouched(heap_state& state, size_class id, bool has) {
    set_hint(state.with_untouched, id, has);
  }

  /// Sets or clears a hint where to search. (L) orders nothing; each class's lock decides.
  QUARRY_HD static void set_hint(word (&classes)[2], size_class id, bool has) {
    simt::atomic_ref<word> part{classes[id / bits_per_word]};
    word const bit = word{1} << id % bits_per_word;
    if (has) {
      part.fetch_or(bit, simt::relaxed);  // (L)
    } else {
      part.fetch_and(~bit, simt::relaxed);  // (L)
    }
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
