// SPDX-License-Identifier: Apache-2.0
// The slow path of small allocations: a new run, slices that came back, memory taken back from other classes.
#pragma once

#include "quarry/device/mitigations.hpp"
#include "quarry/device/slice_claim.hpp"

namespace quarry {

/// Finds slices for one lane on behalf of its group when its slot is used up.
///
/// Lock-free but for the replacement of a class's run, on which others wait for a bounded time only (class_run). The order in
/// which memory is looked for: tickets of the class's other slots; slices that came back, with little effort, unless more than
/// half of the segments are free; free segments; what other classes' runs have not handed out; slices that came back, with all
/// effort. Fresh slices are cheaper by far, and blocks that nobody claims from come back whole.
class slice_supply {
 public:
  /// Up to `count` slices of class `id`; `nothing` or `run_is_over` if none is to be had. A call takes from one place, so it
  /// may give fewer.
  QUARRY_SLOW static slice_grant acquire(heap_state& state, size_class id, std::uint32_t count) {
    std::uint32_t tries = few_tries;
    QUARRY_NO_UNROLL
    for (std::uint32_t waited = 0; waited < wait_limit; ++waited) {
      slice_grant const grant = simt::far_call(&state, &acquire_once, state, id, count, tries);
      if (grant.from == slice_grant::source::tickets || grant.from == slice_grant::source::bits) return grant;
      if (grant.from == slice_grant::source::nothing) continue;
      if (tries == all_tries) return grant;
      if (!simt::far_call(&state, &replace_run, state, id, grant.value)) tries = all_tries;
    }
    return {};
  }

  /// Tickets of the class's run, or slices that came back if it is over; `run_is_over`, with the class's word, if there are
  /// neither; `nothing` if that may change in a moment.
  QUARRY_SLOW static slice_grant acquire_once(heap_state& state, size_class id, std::uint32_t count, std::uint32_t tries) {
    // All three are on their way together.
    bool const has_returned = !state.class_tree(id).empty() && (tries == all_tries || !is_roomy(state));
    word const seen = state.run(id).peek();
    if (class_run::is_busy(seen)) return simt::far_call(&state, &wait_for_tickets, state, id, count);
    if (class_run::used_up(seen) < slots_per_class) return simt::far_call(&state, &take_tickets, state, id, count);
    slice_grant grant;
    if (has_returned) grant = simt::far_call(&state, &slice_claim::claim_returned, state, id, count, tries);
    if (grant.from != slice_grant::source::nothing) return grant;
    grant.from = slice_grant::source::run_is_over;
    grant.value = seen;
    return grant;
  }

  /// The last ticket of one of the slots of `run` was taken.
  QUARRY_SLOW static void slot_used_up(heap_state& state, size_class id, segment_run run) {
    class_run const of_class = state.run(id);
    word const seen = of_class.count_used_up(run);
    if (class_run::run_of(seen) != run || class_run::used_up(seen) != slots_per_class) return;
    if (!is_roomy(state) && (!state.class_tree(id).empty() || state.segment_tree().empty())) return;
    if (of_class.lock(seen)) {  // fetch ahead: others will be here in a moment
      (void)simt::far_call(&state, &open_run, state, id);
      of_class.unlock();
    }
  }

  static constexpr size_class no_class = ~size_class{0};

  /// Takes back what the runs of classes other than `id` have not handed out, until a segment is free; with `no_class`, of all
  /// classes. True if a segment is free after that.
  QUARRY_SLOW static bool take_back_from_others(heap_state& state, size_class id) {
    QUARRY_NO_UNROLL
    for (std::uint32_t part = 0; part < 2; ++part) {
      word classes = simt::atomic_ref<word>{state.with_run[part]}.load(simt::relaxed);  // (L)
      QUARRY_NO_UNROLL
      for (; classes != 0; classes &= classes - 1) {
        size_class const other = part * bits_per_word + lowest_one(classes);
        if (other == id || !simt::far_call(&state, &take_back, state, other)) continue;
        if (id != no_class && !state.segment_tree().empty()) return true;
      }
    }
    return !state.segment_tree().empty();
  }

  /// Ends the run of class `id` and gives back what it had not handed out. False if the run was being replaced.
  QUARRY_SLOW static bool take_back(heap_state& state, size_class id) {
    word const seen = state.run(id).peek();
    if (!state.run(id).lock(seen)) return false;
    segment_run const run = class_run::run_of(seen);
    state.run(id).set(run.next(0, 0), slots_per_class);
    std::uint32_t tickets[slots_per_class];
    std::uint32_t const used = simt::far_call(&state, &close_slots, state, id, run, tickets);
    if (class_run::used_up(seen) != slots_per_class) simt::far_call(&state, &give_back_run, state, id, run.first(), run.count(), used, tickets);
    set_has_run(state, id, false);  // after the segments are back: who sees none of both has missed nothing
    state.run(id).unlock();
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

  [[nodiscard]] QUARRY_HD static bool any_has_run(heap_state& state) { return others_have_run(state, no_class); }

  /// Cuts the segments of `run`, which the caller has claimed, for class `id`, and opens the class's slots on it. Requires the
  /// class's lock.
  QUARRY_SLOW static void format_run(heap_state& state, size_class id, segment_run run) {
    class_shape const shape = state.shapes[id];
    segment_shape const entry_shape{run.key(), shape.size, shape.size_multiplier,
                                    segment_shape::pack(shape.units, shape.unit_shift, shape.size_divider_shift)};
    std::uint32_t const last_word = (shape.slices - 1) / bits_per_word;
    word const unused_bits = ~low_bits(shape.slices - last_word * bits_per_word);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < run.count(); ++i) {
      segment_entry& entry = state.segments[run.first() + i];
      entry.store(segment_use::slices_of(id));
      entry.store_shape(entry_shape);
      if (unused_bits != 0) slice_word{state.word_at(run.first() + i, last_word)}.reset(unused_bits);
    }
    std::uint32_t const units = run.count() * shape.units;
    state.run(id).set(run, units < slots_per_class ? slots_per_class - units : 0);  // slots without a unit are used up
    simt::fence_before_stores();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < slots_per_class; ++i) state.slot(id, i).open(run);
  }

  /// Whether more than half of the segments are free.
  [[nodiscard]] QUARRY_HD static bool is_roomy(heap_state& state) {
    return simt::atomic_ref<std::uint32_t>{state.free_segments}.load(simt::relaxed) > state.segments_mapped / 2;  // (L) a hint
  }

  static constexpr std::uint32_t few_tries = 4;

  static constexpr std::uint32_t polls = 6;

  static constexpr std::uint32_t all_tries = 1u << 20;

  static constexpr std::uint32_t wait_limit = 1u << 20;

  /// Opens a new run for the class, whose word was `seen`, with memory of other classes if need be. False if there is none.
  QUARRY_SLOW static bool replace_run(heap_state& state, size_class id, word seen) {
    if (state.segment_tree().empty() && !others_have_run(state, id)) return false;
    if (!state.run(id).lock(seen)) return true;
    bool const opened = simt::far_call(&state, &open_run, state, id);
    state.run(id).unlock();
    if (opened || simt::far_call(&state, &take_back_from_others, state, id)) return true;
    // What was taken back may have gone to another lane at once; as long as there are runs, there may be more.
    simt::pause();
    return others_have_run(state, id);
  }

  /// While another lane replaces the run: looks at this warp's slot from time to time, and not at what that lane needs.
  QUARRY_SLOW static slice_grant wait_for_tickets(heap_state& state, size_class id, std::uint32_t count) {
    block_slot const slot = state.slot(id, simt::spread() % slots_per_class);
    segment_run const old = block_slot::run_of(slot.peek());
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < polls; ++i) {
      simt::pause(i);
      if (!(block_slot::run_of(slot.peek()) == old)) return take_tickets_far(state, id, count);
    }
    return {};
  }

  QUARRY_HD static slice_grant take_tickets_far(heap_state& state, size_class id, std::uint32_t count) {
    return simt::far_call(&state, &take_tickets, state, id, count);
  }

  /// Tickets of any slot that has some, from this warp's on.
  QUARRY_SLOW static slice_grant take_tickets(heap_state& state, size_class id, std::uint32_t count) {
    class_shape const& shape = state.shapes[id];
    std::uint32_t const home = simt::spread() % slots_per_class;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < slots_per_class; ++i) {
      std::uint32_t const index = home + i < slots_per_class ? home + i : home + i - slots_per_class;
      block_slot const slot = state.slot(id, index);
      word const seen = slot.peek();
      if (!block_slot::place_of(shape, block_slot::run_of(seen), index, block_slot::ticket_of(seen)).valid) {
        slot.rewind(seen);
        continue;
      }
      word const taken = slot.take(count);
      if (block_slot::place_of(shape, block_slot::run_of(taken), index, block_slot::ticket_of(taken)).valid) {
        slice_grant grant;
        grant.from = slice_grant::source::tickets;
        grant.slot = index;
        grant.value = taken;
        return grant;
      }
    }
    simt::pause();  // the last ticket was taken a moment ago, and is about to be counted
    return {};
  }

  /// Closes the slots of a run, notes their next tickets, and gives the number of units up to the last that was touched.
  QUARRY_SLOW static std::uint32_t close_slots(heap_state& state, size_class id, segment_run run, std::uint32_t* tickets) {
    std::uint32_t const unit_shift = state.shapes[id].unit_shift;
    std::uint32_t units = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < slots_per_class; ++i) {
      tickets[i] = block_slot::ticket_of(state.slot(id, i).close(run.next(0, 0)));
      if (tickets[i] == 0) continue;
      std::uint32_t const touched = ((tickets[i] - 1) >> unit_shift) * slots_per_class + i + 1;
      if (touched > units) units = touched;
    }
    return units;
  }

  /// Gives back what a closed run of `count` segments, of which `used` units were touched, had not handed out.
  QUARRY_SLOW static void give_back_run(heap_state& state, size_class id, std::uint32_t first, std::uint32_t count, std::uint32_t used,
                                        std::uint32_t const* tickets) {
    std::uint32_t const units = state.shapes[id].units;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = count; i-- > 0;) {
      if (i * units >= used) {
        simt::far_call(&state, &give_back_untouched, state, id, first + i);
      } else {
        simt::far_call(&state, &give_back_unused, state, id, first + i, i * units, tickets);
      }
    }
  }

  /// Gives back a segment of which no slice was handed out.
  QUARRY_SLOW static void give_back_untouched(heap_state& state, size_class id, std::uint32_t segment) {
    std::uint32_t const blocks = state.blocks_of(id);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < blocks; ++i) state.block_at(id, segment, i).retire_unused();
    if (state.segments[segment].add_free_blocks(blocks, blocks)) {
      simt::far_call(&state, &slice_return::give_back_segment, state, id, segment);
    }
  }

  /// Gives back those slices of `segment`, whose first unit is `unit` of its run, whose tickets were not taken.
  QUARRY_SLOW static void give_back_unused(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t unit,
                                           std::uint32_t const* tickets) {
    std::uint32_t const shift = state.shapes[id].unit_shift;
    std::uint32_t const end = state.shapes[id].units << shift;
    std::uint32_t begin = 0;
    QUARRY_NO_UNROLL
    for (; begin < end; begin += 1u << shift, ++unit) {
      std::uint32_t const first_ticket = unit / slots_per_class << shift;
      std::uint32_t const next = tickets[unit % slots_per_class];
      std::uint32_t const used = next > first_ticket ? next - first_ticket : 0;
      if (used >= 1u << shift) continue;
      simt::far_call(&state, &give_back_slices, state, id, segment, begin + used, begin + (1u << shift));
    }
  }

  QUARRY_SLOW static void give_back_slices(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t begin,
                                           std::uint32_t end) {
    QUARRY_NO_UNROLL
    while (begin < end) {
      std::uint32_t const bit = begin % bits_per_word;
      std::uint32_t here = end - begin < bits_per_word - bit ? end - begin : bits_per_word - bit;
      if (begin % slices_per_block == 0 && end - begin >= slices_per_block) {
        here = slices_per_block;
        state.block_at(id, segment, begin / slices_per_block).retire_unused();
        simt::far_call(&state, &slice_return::advertise, state, id, segment, begin / slices_per_block);
        simt::far_call(&state, &slice_return::add_free_block, state, id, segment);
      } else {
        simt::far_call(&state, &slice_return::release_far, state, id, segment, begin / bits_per_word, low_bits(here) << bit);
      }
      begin += here;
    }
  }

  /// Claims segments, formats them for class `id` and opens its slots on them. Requires the class's lock.
  QUARRY_SLOW static bool open_run(heap_state& state, size_class id) {
    simt::atomic_ref<std::uint32_t> free_segments{state.free_segments};
    std::uint32_t const share = free_segments.load(simt::relaxed) / 8;  // (L) leave some to others
    std::uint32_t const most = state.shapes[id].run_segments;
    std::uint32_t const wanted = most < share ? most : share == 0 ? 1 : share;
    set_has_run(state, id, true);  // before the claim: who finds no segment then sees that we have them
    std::uint32_t const start = is_on(mitigation::random_start) ? mix(state.secret + id) % state.segments_reserved : 0;
    bit_tree::run const found = state.segment_tree().claim_front(wanted, start);
    if (found.count == 0) {
      set_has_run(state, id, false);
      return false;
    }
    free_segments.fetch_sub(found.count, simt::relaxed);  // (L) a hint
    state.held[id].add(found.count);
    simt::far_call(&state, &format_run, state, id, class_run::run_of(state.run(id).peek()).next(found.first, found.count));
    return true;
  }

  QUARRY_HD static void set_has_run(heap_state& state, size_class id, bool has) {
    simt::atomic_ref<word> classes{state.with_run[id / bits_per_word]};
    word const bit = word{1} << id % bits_per_word;
    if (has) {
      classes.fetch_or(bit, simt::relaxed);  // (L) a hint; the class's lock decides
    } else {
      classes.fetch_and(~bit, simt::relaxed);  // (L)
    }
  }
};

}  // namespace quarry
