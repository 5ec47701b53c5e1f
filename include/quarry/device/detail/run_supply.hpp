// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/run_segments.hpp"
#include "quarry/device/detail/slice_request.hpp"
#include "quarry/device/mitigations.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Opens segment runs for a class, and reclaims the segments of other classes' runs. Each function
/// works for one lane. The class's lock (class_run) decides which lane opens or ends a run.
class run_supply {
 public:
  static constexpr size_class no_class = ~size_class{0};

  /// Records that a lane took the last ticket of one of the counters of `run`.
  QUARRY_SLOW static void record_used_up(heap_state& state, size_class id, segment_run run) {
    class_run const run_of_class = state.run(id);
    word const run_word = run_of_class.count_used_up(run);
    if (class_run::run_of(run_word) != run || class_run::used_up(run_word) != counters_per_class)
      return;
    if (!is_roomy(state) && (!state.class_tree(id).empty() || state.segment_tree().empty())) return;
    if (run_of_class.lock(run_word)) {
      // open the next run ahead of demand, because other lanes need it soon
      (void)simt::indirect_call(&open_run, state, id, nullptr);
      run_of_class.unlock();
    }
  }

  /// Claims segments, formats them for class `id` and opens the class's ticket counters on them.
  /// The first tickets of one counter serve `own`, if it is not null. Otherwise a lane could open
  /// one run after another and get no slice, because lanes that wait for the run may take all its
  /// tickets at once. Requires the class's lock.
  QUARRY_SLOW static bool open_run(heap_state& state, size_class id, slice_request* own = nullptr) {
    std::uint32_t const wanted = simt::indirect_call(&length_of_next_run, state, id);
    // Before the claim, so that a lane that finds no segment sees that this class may have some.
    set_has_run(state, id, true);
    bit_tree::range const found = claim_segments(state, id, wanted);
    if (found.count == 0) {
      set_has_run(state, id, false);
      return false;
    }
    segment_run const old = class_run::run_of(state.run(id).peek());
    // A late lane may have raised the count of used-up counters too far (segment_run). Then a
    // counter still has tickets, which would be lost.
    if (old.count() != 0 && simt::indirect_call(&counters_with_tickets, state, id) != 0) {
      run_segments::closed_run closed{&state, id, old, 0, 0, false, {}};
      simt::indirect_call(&run_segments::close_counters, closed);
      simt::indirect_call(&run_segments::return_run, closed);
    }
    segment_run const run = old.next(found.first, found.count);
    if (own == nullptr) {
      simt::indirect_call(&run_segments::format_run, state, id, run, 0u, 0u);
      state.segment_counts[id].add(found.count);
      return true;
    }
    std::uint32_t const units = found.count * state.layouts[id].units;
    own->counter = static_cast<std::uint8_t>(
        simt::warp_hint() % (units < counters_per_class ? units : counters_per_class));
    std::uint32_t const tickets = ticket_counter::tickets_of(state.layouts[id], run, own->counter);
    own->value = run.encoded() << ticket_counter::ticket_bits;
    own->origin = slice_request::source::tickets;
    simt::indirect_call(&run_segments::format_run, state, id, run, own->counter,
                        own->count < tickets ? own->count : tickets);
    state.segment_counts[id].add(found.count);
    return true;
  }

  /// Claims up to `wanted` consecutive segments for class `id`. Finds none if `count` is 0.
  QUARRY_HD static bit_tree::range claim_segments(heap_state& state, size_class id,
                                                  std::uint32_t wanted) {
    std::uint32_t const start =
        is_on(mitigation::random_start) ? mix(state.secret + id) % state.max_segments : 0;
    bit_tree::range const found = state.segment_tree().claim_range(wanted, start);
    if (found.count == 0) return found;
    state.free_segments.add(-static_cast<std::int32_t>(found.count));
    if constexpr (is_on(mitigation::poison)) {
      for (std::uint32_t i = 0; i < found.count; ++i) ++state.formats[found.first + i];
    }
    return found;
  }

  /// How many segments the class should take. Opening a run takes about 30 us on an H200, and other
  /// classes cannot use the run's memory until they find no other memory and reclaim it. So runs
  /// grow with use. While more than half of the segments is free, or no other class has a run, a
  /// class takes as many segments as its peak. Otherwise it takes a quarter of the peak. If another
  /// class has a run, some segments are left for the other classes. While no other class has a run,
  /// a class takes at least twice the segments of its last run, but at most a quarter of all
  /// segments. (Rejected: the same while half of the segments is free. Then the runs of 24 classes
  /// take most segments, and churn becomes slower.)
  QUARRY_SLOW static std::uint32_t length_of_next_run(heap_state& state, size_class id) {
    // the loads are in flight together
    std::uint32_t const free_segments = state.free_segments.count();
    std::uint32_t const maximum = state.segment_counts[id].load_peak();
    bool const is_alone = !other_classes_have_run(state, id);
    bool const is_half_free = free_segments > state.segments_mapped / 2;
    bool const is_plentiful = is_alone || is_half_free;
    std::uint32_t const share = !is_alone      ? free_segments / 4
                                : is_half_free ? free_segments / 2
                                               : free_segments;
    std::uint32_t const twice = 2 * class_run::run_of(state.run(id).peek()).count();
    std::uint32_t const quarter = state.segments_mapped / 4;
    std::uint32_t const grown = twice < quarter ? twice : quarter;
    std::uint32_t const longest = ticket_counter::longest_run(state.layouts[id]);
    std::uint32_t wanted = is_plentiful ? maximum : maximum / 4;
    if (is_alone && wanted < grown) wanted = grown;
    std::uint32_t const first = state.layouts[id].run_segments;
    if (wanted < (is_plentiful ? first : first / 4 + 1))
      wanted = is_plentiful ? first : first / 4 + 1;
    if (wanted > longest) wanted = longest;
    return wanted < share ? wanted : share == 0 ? 1 : share;
  }

  /// The class's ticket counters that have tickets: bit i stands for counter i.
  QUARRY_SLOW static std::uint32_t counters_with_tickets(heap_state& state, size_class id) {
    class_layout const& layout = state.layouts[id];
    std::uint32_t found = 0;
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      word const counter = state.ticket_counter_at(id, i).peek();
      bool const has_tickets =
          ticket_counter::ticket_of(counter) <
          ticket_counter::tickets_of(layout, ticket_counter::run_of(counter), i);
      found |= (has_tickets ? 1u : 0u) << i;
    }
    return found;
  }

  /// Reclaims the slices that the runs of classes other than `id` have not allocated, until a
  /// segment is free. With `no_class`, reclaims the runs of all classes. Returns true if a segment
  /// is free afterwards. Unless `reclaims_all` is true, it reclaims only runs with a segment of
  /// which no slice was allocated. Other runs serve lanes, or their return takes long, so they
  /// stay. With `no_class`, it examines every class; otherwise it ends with the first free segment.
  QUARRY_SLOW static bool reclaim_from_others(heap_state& state, size_class id, bool reclaims_all) {
    QUARRY_NO_UNROLL
    for (std::uint32_t part = 0; part < 2; ++part) {
      word& hint = reclaims_all ? state.classes_with_run[part] : state.classes_with_untouched[part];
      word classes = simt::atomic_ref{hint}.load(simt::relaxed);  // (L)
      QUARRY_NO_UNROLL
      for (; classes != 0; classes &= classes - 1) {
        size_class const other_class = part * bits_per_word + lowest_one(classes);
        if (other_class == id ||
            (!reclaims_all && !simt::indirect_call(&still_has_untouched, state, other_class)))
          continue;
        if (!simt::indirect_call(&reclaim, state, other_class)) continue;
        if (id != no_class && !state.segment_tree().empty()) return true;
      }
    }
    return !state.segment_tree().empty();
  }

  /// Whether the run of class `id` has a segment of which no slice was allocated. A run that has no
  /// such segment never has one again. Then this function marks the class, so that searches skip
  /// the class until it has another run.
  QUARRY_SLOW static bool still_has_untouched(heap_state& state, size_class id) {
    word const previous = state.run(id).peek();
    simt::fence_after_loads();
    if (simt::indirect_call(&run_segments::has_untouched, state, id)) return true;
    if (class_run::is_busy(previous)) return false;
    set_has_untouched(state, id, false);
    simt::fence_after_loads();
    // a run that was opened meanwhile has untouched segments
    if (state.run(id).peek() != previous) set_has_untouched(state, id, true);
    return false;
  }

  /// Ends the run of class `id` and returns its unused slices. Returns false if another lane was
  /// replacing the run. Other lanes wait only until the run has ended. They do not wait for the
  /// return of its slices, which takes long for many slices.
  QUARRY_SLOW static bool reclaim(heap_state& state, size_class id) {
    word const run_word = state.run(id).peek();
    if (!state.run(id).lock(run_word)) return false;
    // Before the class loses its run, so that a lane that finds neither the run nor the memory
    // knows that a return is in progress.
    state.begin_return();
    run_segments::closed_run closed{&state, id, class_run::run_of(run_word), 0, 0, false, {}};
    state.run(id).set(closed.run.next(0, 0), counters_per_class);
    simt::indirect_call(&run_segments::close_counters, closed);
    set_has_run(state, id, false);
    state.run(id).unlock();
    if (closed.has_unused_tickets) simt::indirect_call(&run_segments::return_run, closed);
    state.end_return();
    return true;
  }

  /// Whether a class other than `id` may have a run. With `no_class`, whether any class may have a
  /// run.
  [[nodiscard]] QUARRY_HD static bool other_classes_have_run(heap_state& state, size_class id) {
    word const low = simt::atomic_ref{state.classes_with_run[0]}.load(simt::relaxed);   // (L)
    word const high = simt::atomic_ref{state.classes_with_run[1]}.load(simt::relaxed);  // (L)
    word const own = id == no_class ? 0 : word{1} << id % bits_per_word;
    return ((id < bits_per_word ? low & ~own : low) | (id < bits_per_word ? high : high & ~own)) !=
           0;
  }

  [[nodiscard]] QUARRY_HD static bool any_has_run(heap_state& state) {
    return other_classes_have_run(state, no_class);
  }

  /// Whether more than a sixteenth of the segments is free. Then fresh slices are preferred to
  /// freed slices.
  [[nodiscard]] QUARRY_HD static bool is_roomy(heap_state& state) {
    return state.free_segments.count() > state.segments_mapped / 16;
  }

  QUARRY_HD static void set_has_run(heap_state& state, size_class id, bool has) {
    set_hint(state.classes_with_run, id, has);
    set_has_untouched(state, id, has);
  }
  QUARRY_HD static void set_has_untouched(heap_state& state, size_class id, bool has) {
    set_hint(state.classes_with_untouched, id, has);
  }

  /// Sets or clears a search hint. (L) orders nothing; each class's lock decides.
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
