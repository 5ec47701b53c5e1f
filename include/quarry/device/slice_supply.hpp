// SPDX-License-Identifier: Apache-2.0
// The slow paths of small allocations: slices that came back, new runs, memory taken back from other classes.
#pragma once

#include "quarry/device/heap_state.hpp"
#include "quarry/simt/far_call.hpp"

namespace quarry {

/// Slices granted to a lane group by its leader's work.
struct slice_grant {
  enum class source : std::uint32_t { nothing, tickets, bits, run_is_over };
  source from = source::nothing;
  std::uint32_t slot = 0;     // tickets: which slot
  word value = 0;             // tickets: the slot before; bits: which slices of the word
  std::uint32_t segment = 0;  // bits
  std::uint32_t index = 0;    // bits: of the word in its segment
};

/// Gives slices back, and finds slices, for one lane on behalf of its group. Everything here is lock-free but for the
/// replacement of a class's run, on which others wait for a bounded time only (class_run).
///
/// Memory order of the advertisement. Whoever makes a word non-zero, or a block free, then sets the block's bit in
/// `advertised` (U); whoever finds a block empty clears the bit (D) and looks at the block again (V). Both are acquire-release
/// RMWs of one word, so the argument of bit_tree holds: a hint may be wrong, but is never lost. The same holds between
/// `advertised` and the class's tree.
class slice_supply {
 public:
  /// Up to `count` slices of class `id`; `nothing` or `run_is_over` if none is to be had. A call takes from one place, so it
  /// may give fewer. With `wait` it first looks for a few microseconds whether another lane opens a new run.
  QUARRY_SLOW static slice_grant acquire(heap_state& state, size_class id, std::uint32_t count, bool wait) {
    if (wait) {
      slice_grant const grant = simt::far_call(&state, &wait_for_tickets, state, id, count);
      if (grant.from == slice_grant::source::tickets) return grant;
    }
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
    bool const has_returned = !state.class_tree(id).empty();  // on its way with the next
    word const seen = state.run(id).peek();
    if (class_run::is_busy(seen)) return simt::far_call(&state, &wait_for_tickets, state, id, count);
    if (class_run::used_up(seen) < slots_per_class) return simt::far_call(&state, &take_tickets, state, id, count);
    slice_grant grant;
    if (has_returned) grant = simt::far_call(&state, &claim_returned, state, id, count, tries);
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
    if (!state.class_tree(id).empty() || state.segment_tree().empty()) return;
    if (of_class.lock(seen)) {  // fetch ahead: others will be here in a moment
      (void)simt::far_call(&state, &open_run, state, id);
      of_class.unlock();
    }
  }

  /// Gives back `slices` of word `index` of a segment of `segment_slices`. Gives those that were back already: double frees.
  /// Requires that the others are in use, so that the segment's class `id` is stable.
  QUARRY_HD static word release(heap_state& state, size_class id, std::uint32_t segment_slices, std::uint32_t segment,
                                std::uint32_t index, word slices) {
    slice_word const bits{state.word_at(segment, index)};
    word const before = bits.release(slices);
    word const valid = low_bits(segment_slices - index * bits_per_word);
    bool const first_hole = (before & valid) == 0;
    bool const whole = (before | slices) == ~word{0} && (before & slices) != slices;
    if (!first_hole && !whole) return before & slices;
    auto const next = state.block_at(id, segment, index / words_per_block).count_release(first_hole, whole);
    if (next == block::consequence::none) return before & slices;
    bool const refused = simt::far_call(&state, &follow_up, state, id, segment, index, next, whole);
    return refused ? slices : before & slices;
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

 private:
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

  /// While another lane replaces the run: looks at this processor's slot from time to time, and not at what that lane needs.
  QUARRY_SLOW static slice_grant wait_for_tickets(heap_state& state, size_class id, std::uint32_t count) {
    block_slot const slot = state.slot(id, simt::processor() % slots_per_class);
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

  /// Tickets of any slot that has some, from this processor's on.
  QUARRY_SLOW static slice_grant take_tickets(heap_state& state, size_class id, std::uint32_t count) {
    class_shape const& shape = state.shapes[id];
    std::uint32_t const home = simt::processor() % slots_per_class;
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

  /// Slices that came back, looking at no more than `tries` blocks that hold none.
  QUARRY_SLOW static slice_grant claim_returned(heap_state& state, size_class id, std::uint32_t count, std::uint32_t tries) {
    std::uint32_t const random = mix(static_cast<std::uint32_t>(simt::this_place().rank()));
    std::uint32_t from = random % state.segments_reserved;
    QUARRY_NO_UNROLL
    while (tries != 0) {
      std::uint32_t const segment = state.class_tree(id).successor_round(from);
      if (segment == bit_tree::none) return {};
      slice_grant const grant = simt::far_call(&state, &claim_in_segment, state, id, segment, count, random);
      if (grant.from != slice_grant::source::nothing) return grant;
      --tries;
      from = segment + 1 < state.segments_reserved ? segment + 1 : 0;
    }
    return {};
  }

  /// Slices of one segment. What is found to hold none is withdrawn.
  QUARRY_SLOW static slice_grant claim_in_segment(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t count,
                                                  std::uint32_t random) {
    bool const entered = state.segments[segment].enter();
    slice_grant grant;
    segment_use const use = state.segments[segment].load();
    if (entered && use.is_slices() && use.slices_class() == id) {
      grant = simt::far_call(&state, &claim_by_mask, state, id, segment, count, random);
    }
    if (grant.from == slice_grant::source::nothing) simt::far_call(&state, &withdraw_segment, state, id, segment);
    simt::far_call(&state, &leave_segment, state, segment, entered);
    return grant;
  }

  /// The visitor may be the last that keeps a free segment from being given back.
  QUARRY_SLOW static void leave_segment(heap_state& state, std::uint32_t segment, bool entered) {
    segment_entry& entry = state.segments[segment];
    QUARRY_NO_UNROLL
    for (;;) {
      // If it is for slices, it stays so until this lane has left; unless it was being given back when this lane came.
      segment_use const use = entered ? entry.load() : segment_use::nothing();
      std::uint32_t const blocks = use.is_slices() ? state.blocks_of(use.slices_class()) : 0;
      if (entry.leave(blocks)) simt::far_call(&state, &give_back_segment, state, use.slices_class(), segment);
      if (use.is_slices() || !entry.load().is_slices()) return;
      entered = entry.enter();  // it was formatted while this lane looked, and may have become free again
    }
  }

  QUARRY_SLOW static slice_grant claim_by_mask(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t count,
                                               std::uint32_t random) {
    std::uint32_t const masks = (state.blocks_of(id) + bits_per_word - 1) / bits_per_word;
    std::uint32_t mask = random % masks;
    QUARRY_NO_UNROLL
    for (std::uint32_t left = masks; left != 0; --left) {
      slice_grant const grant = simt::far_call(&state, &claim_in_mask, state, id, segment, mask, count, random);
      if (grant.from != slice_grant::source::nothing) return grant;
      if (++mask == masks) mask = 0;
    }
    return {};
  }

  /// Slices of the 64 blocks from `mask` * 64 on.
  QUARRY_SLOW static slice_grant claim_in_mask(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t mask,
                                               std::uint32_t count, std::uint32_t random) {
    QUARRY_NO_UNROLL
    for (std::uint32_t tries = bits_per_word; tries != 0; --tries) {
      std::uint32_t const bit = one_from(state.advertised_at(segment, mask).load(simt::relaxed), random >> 26);  // (L)
      if (bit == bits_per_word) break;
      slice_grant const grant =
          simt::far_call(&state, &claim_in_block, state, id, segment, mask * bits_per_word + bit, count, random >> 16);
      if (grant.from != slice_grant::source::nothing) return grant;
      simt::far_call(&state, &withdraw, state, segment, mask * bits_per_word + bit);
    }
    return {};
  }

  QUARRY_SLOW static slice_grant claim_in_block(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t block_index,
                                                std::uint32_t count, std::uint32_t random) {
    slice_grant grant;
    grant.segment = segment;
    grant.index = block_index * words_per_block;
    if (block_index >= state.blocks_of(id)) return grant;  // a late advertisement of an earlier use
    if (state.block_at(id, segment, block_index).is_free()) {
      grant.value = simt::far_call(&state, &revive_block, state, id, segment, block_index, count);
    } else {
      std::uint32_t const words = state.block_at(id, segment, block_index).words();
      std::uint32_t at = random % words;
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 0; i < words && grant.value == 0; ++i) {
        grant.index = block_index * words_per_block + at;
        grant.value = simt::far_call(&state, &claim_in_word, state, id, segment, grant.index, count);
        if (++at == words) at = 0;
      }
    }
    if (grant.value != 0) grant.from = slice_grant::source::bits;
    return grant;
  }

  /// Up to `count` slices of a free block, which becomes one whose other slices can be claimed. Zero if it cannot be had.
  QUARRY_SLOW static word revive_block(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t block_index,
                                       std::uint32_t count) {
    if (!state.segments[segment].reserve_free_block()) return 0;
    word const taken = state.block_at(id, segment, block_index).revive(count);
    if (taken != 0) {
      simt::far_call(&state, &advertise, state, id, segment, block_index);
    } else {
      simt::far_call(&state, &add_free_block, state, id, segment);
    }
    return taken;
  }

  /// Up to `count` slices of word `index` of the segment. Zero if it has none.
  QUARRY_SLOW static word claim_in_word(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t index,
                                        std::uint32_t count) {
    slice_word const bits{state.word_at(segment, index)};
    word const unused = state.block_at(id, segment, index / words_per_block).empty(index % words_per_block);
    word seen = bits.peek();
    QUARRY_NO_UNROLL
    while ((seen & ~unused) != 0 && seen != ~word{0}) {
      word const wanted = lowest_ones(seen & ~unused, count);
      if (!bits.claim(seen, wanted)) continue;
      if ((seen & ~wanted & ~unused) == 0) state.block_at(id, segment, index / words_per_block).count_emptied();
      return wanted;
    }
    if (seen != ~word{0}) return 0;
    return simt::far_call(&state, &claim_in_whole_word, state, id, segment, index, lowest_ones(~unused, count));
  }

  /// `wanted` of a word all of whose slices are back. Zero if that is no longer so, or if nobody may take from it now.
  QUARRY_SLOW static word claim_in_whole_word(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t index,
                                              word wanted) {
    block const from = state.block_at(id, segment, index / words_per_block);
    if (!from.reserve_word()) return 0;
    word seen = ~word{0};
    if (from.at(index % words_per_block).claim(seen, wanted)) {
      if ((~wanted & ~from.empty(index % words_per_block)) == 0) from.count_emptied();
      return wanted;
    }
    simt::far_call(&state, &return_word, state, id, segment, index / words_per_block);
    return 0;
  }

  /// Gives up a reservation.
  QUARRY_SLOW static void return_word(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t block_index) {
    auto const next = state.block_at(id, segment, block_index).count_release(false, true);
    if (next != block::consequence::none) simt::far_call(&state, &follow_up, state, id, segment, block_index * words_per_block, next, true);
  }

  QUARRY_SLOW static void release_far(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t index, word slices) {
    release(state, id, state.shapes[id].slices, segment, index, slices);
  }

  /// What a block asked for when a release of slices of word `index` was counted. True if it was refused, and is undone.
  QUARRY_SLOW static bool follow_up(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t index,
                                    block::consequence what, bool whole) {
    std::uint32_t const block_index = index / words_per_block;
    if (what == block::consequence::refused) {
      block const of = state.block_at(id, segment, block_index);
      of.at(index % words_per_block).take_back(~of.empty(index % words_per_block));
      of.take_back_count(true, whole);
      return true;
    }
    simt::fence_after_loads();
    simt::far_call(&state, &advertise, state, id, segment, block_index);
    if (what == block::consequence::hand_over) simt::far_call(&state, &add_free_block, state, id, segment);
    return false;
  }

  QUARRY_SLOW static void add_free_block(heap_state& state, size_class id, std::uint32_t segment) {
    if (state.segments[segment].add_free_blocks(1, state.blocks_of(id))) simt::far_call(&state, &give_back_segment, state, id, segment);
  }

  /// Requires that the caller has retired the segment (segment_entry).
  QUARRY_SLOW static void give_back_segment(heap_state& state, size_class id, std::uint32_t segment) {
    segment_entry& entry = state.segments[segment];
    std::uint32_t const blocks = state.blocks_of(id);
    entry.store(segment_use::nothing());
    simt::fence_before_stores();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i * bits_per_word < blocks; ++i) {
      state.advertised_at(segment, i).fetch_and(0, simt::fenced_release);  // (D) a late (U) sees the use just stored
    }
    simt::zero_words(&state.blocks[std::size_t{segment} * state.blocks_per_segment], blocks);
    slice_word{state.word_at(segment, (state.shapes[id].slices - 1) / bits_per_word)}.reset(0);
    entry.end_retirement(blocks);  // (E) the tree's insert publishes all of it
    state.held[id].subtract();
    state.class_tree(id).claim(segment);
    state.segment_tree().insert(segment);
    simt::atomic_ref<std::uint32_t>{state.free_segments}.fetch_add(1, simt::relaxed);  // (L) a hint
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
      simt::far_call(&state, &give_back_segment, state, id, segment);
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
        simt::far_call(&state, &advertise, state, id, segment, begin / slices_per_block);
        simt::far_call(&state, &add_free_block, state, id, segment);
      } else {
        simt::far_call(&state, &release_far, state, id, segment, begin / bits_per_word, low_bits(here) << bit);
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
    bit_tree::run const found = state.segment_tree().claim_front(wanted);
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

  /// Says that the block may hold something to claim.
  QUARRY_SLOW static void advertise(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    word const before = state.advertised_at(segment, block_index / bits_per_word).fetch_or(bit, simt::acq_rel);  // (U)
    if (before != 0) return;
    state.class_tree(id).insert(segment);
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && use.slices_class() == id) return;
    // The caller's slices came back, and with them the whole segment, before it got here: a later use of the segment must
    // not find a bit set of which its own class tree knows nothing.
    if (simt::far_call(&state, &withdraw, state, segment, block_index) == 0) return;
    segment_use const now = state.segments[segment].load();
    if (now.is_slices()) state.class_tree(now.slices_class()).insert(segment);
  }

  /// The block was found to hold nothing: says so, and looks again. Gives the other blocks' bits.
  QUARRY_SLOW static word withdraw(heap_state& state, std::uint32_t segment, std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    word const before = state.advertised_at(segment, block_index / bits_per_word).fetch_and(~bit, simt::acq_rel);  // (D)
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && block_index < state.blocks_of(use.slices_class()) &&
        state.block_at(use.slices_class(), segment, block_index).has_something()) {  // (V)
      simt::far_call(&state, &advertise, state, use.slices_class(), segment, block_index);
    }
    return before & ~bit;
  }

  /// None of the segment's blocks was found to hold anything for this class.
  QUARRY_SLOW static void withdraw_segment(heap_state& state, size_class id, std::uint32_t segment) {
    bit_tree const tree = state.class_tree(id);
    tree.claim(segment);  // (D)
    segment_use const use = state.segments[segment].load();
    if (!use.is_slices() || use.slices_class() != id) return;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < state.masks_per_segment(); ++i) {
      if (state.advertised_at(segment, i).load(simt::acquire) != 0) {  // (V)
        tree.insert(segment);
        return;
      }
    }
  }

};

}  // namespace quarry
