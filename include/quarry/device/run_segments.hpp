// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_return.hpp"

namespace quarry {

/// The segments of a class's run: how they are cut, and how those return that the run did not hand
/// out.
///
/// Each function works for one lane, which has the right to replace the run (class_run). (D) is as
/// in slice_return.
class run_segments {
 public:
  /// Cuts the segments of `run`, which the caller has claimed, for class `id`, and opens the
  /// class's slots on it. Requires the class's lock. The host calls it, too, for a state of its
  /// own, of whose segments none was used.
  QUARRY_SLOW static void format_run(heap_state& state, size_class id, segment_run run) {
    std::uint32_t done = 0;
    QUARRY_NO_UNROLL
    for (; run.count() - done >= segment_entry::at_once; done += segment_entry::at_once)
      simt::far_call(&cut_several, state, id, run, done);
    QUARRY_NO_UNROLL
    for (; done < run.count(); ++done) simt::far_call(&cut_one, state, id, run, done);
    std::uint32_t const units = run.count() * state.shapes[id].units;
    // slots without a unit are used up
    state.run(id).set(run, units < slots_per_class ? slots_per_class - units : 0);
    simt::fence_before_stores();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < slots_per_class; ++i) state.slot(id, i).open(run);
  }

  /// Cuts the segments of `run` from number `begin` on, as many as are read at once. Under load a
  /// load takes a microsecond, and what a call saves is soon out of the nearest cache: there is one
  /// wait for all, and no call.
  QUARRY_SLOW static void cut_several(heap_state& state, size_class id, segment_run run,
                                      std::uint32_t begin) {
    segment_entry* const first = &state.segments[run.first() + begin];
    segment_entry::between_uses rest[segment_entry::at_once];
    first->rest_of_several(rest);
    std::uint32_t const blocks = state.blocks_of(id);
    slice_shape const shape = state.shapes[id].slice;
    bool knows_all = true;
    for (std::uint32_t i = 0; i < segment_entry::at_once; ++i) {
      knows_all &= rest[i].knows(blocks);
      first[i].cut(id, rest[i].generation(), shape, run.key());
    }
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; !knows_all && i < segment_entry::at_once; ++i)
      simt::far_call(&bring_blocks_up, state, id, run.first() + begin + i);
  }

  QUARRY_SLOW static void cut_one(heap_state& state, size_class id, segment_run run,
                                  std::uint32_t number) {
    segment_entry& entry = state.segments[run.first() + number];
    entry.cut(id, entry.rest().generation(), state.shapes[id].slice, run.key());
    if (!entry.rest().knows(state.blocks_of(id)))
      simt::far_call(&bring_blocks_up, state, id, run.first() + number);
  }

  /// Blocks that the segment's last uses did not have get its generation.
  QUARRY_SLOW static void bring_blocks_up(heap_state& state, size_class id, std::uint32_t segment) {
    std::uint32_t const blocks = state.blocks_of(id);
    auto const rest = state.segments[segment].rest();
    QUARRY_NO_UNROLL
    for (std::uint32_t begin = rest.knows(blocks) ? blocks : rest.known_blocks(); begin < blocks;
         begin += blocks_at_once) {
      std::uint32_t const count = blocks - begin < blocks_at_once ? blocks - begin : blocks_at_once;
      std::uint32_t own[blocks_at_once];
      for (std::uint32_t i = 0; i < blocks_at_once; ++i)
        own[i] = state.block_at(id, segment, begin + (i < count ? i : 0)).generation();
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 0; i < count; ++i)
        state.block_at(id, segment, begin + i).change_generation(own[i], rest.generation());
    }
  }

  static constexpr std::uint32_t blocks_at_once = 4;  // read together, too

  /// Whether the last segment of the run of class `id` seems untouched.
  QUARRY_SLOW static bool has_untouched(heap_state& state, size_class id) {
    class_shape const& shape = state.shapes[id];
    segment_run const run = class_run::run_of(state.run(id).peek());
    std::uint32_t touched = 0;  // units, up to the last
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < slots_per_class; ++i) {
      std::uint32_t const next =
          tickets_taken(shape, run, i, block_slot::ticket_of(state.slot(id, i).peek()));
      std::uint32_t const units =
          next == 0 ? 0 : ((next - 1) >> shape.unit_shift) * slots_per_class + i + 1;
      if (units > touched) touched = units;
    }
    return run.count() != 0 && touched <= (run.count() - 1) * shape.units;
  }

  /// A run that is being taken back.
  struct closed_run {
    heap_state* state;
    size_class id;
    segment_run run;
    std::uint32_t used_units;                // up to the last that was touched
    bool has_rest;                           // some tickets were not taken
    std::uint32_t tickets[slots_per_class];  // the next of each slot
  };

  /// How many of a slot's tickets were taken, if the next one is `next`: invalid ones count, too.
  [[nodiscard]] QUARRY_HD static std::uint32_t tickets_taken(class_shape const& shape,
                                                             segment_run run, std::uint32_t slot,
                                                             std::uint32_t next) {
    std::uint32_t const all = block_slot::tickets_of(shape, run, slot);
    return next < all ? next : all;
  }

  /// Closes the slots of a run and notes where they were.
  QUARRY_SLOW static void close_slots(closed_run& closed) {
    class_shape const& shape = closed.state->shapes[closed.id];
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < slots_per_class; ++i) {
      word const before = closed.state->slot(closed.id, i).close(closed.run.next(0, 0));
      std::uint32_t const next = tickets_taken(shape, closed.run, i, block_slot::ticket_of(before));
      closed.tickets[i] = next;
      closed.has_rest |= next < block_slot::tickets_of(shape, closed.run, i);
      if (next == 0) continue;
      std::uint32_t const touched = ((next - 1) >> shape.unit_shift) * slots_per_class + i + 1;
      if (touched > closed.used_units) closed.used_units = touched;
    }
  }

  /// Returns what a closed run had not handed out.
  QUARRY_SLOW static void give_back_run(closed_run const& closed) {
    std::uint32_t const units = closed.state->shapes[closed.id].units;
    std::uint32_t const touched = (closed.used_units + units - 1) / units;  // segments
    if (touched < closed.run.count())
      simt::far_call(&give_back_untouched, *closed.state, closed.id, closed.run.first() + touched,
                     closed.run.count() - touched);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = touched; i-- > 0;) give_back_unused(closed, i);
  }

  /// Returns `count` segments from `first` on of which no slice was handed out. Their blocks are
  /// empty and open, and stay so; only their generation ends. They need not be closed one by one,
  /// or counted: no other lane can return such a segment.
  QUARRY_SLOW static void give_back_untouched(heap_state& state, size_class id, std::uint32_t first,
                                              std::uint32_t count) {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      state.segments[first + i].store(segment_use::nothing());
    simt::fence_before_stores();
    std::uint32_t const blocks = state.blocks_of(id);
    std::uint32_t const masks = (blocks + bits_per_word - 1) / bits_per_word;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      QUARRY_NO_UNROLL
      for (std::uint32_t mask = 0; mask < masks; ++mask) {
        state.advertised_at(first + i, mask)
            .fetch_and(0, simt::fenced_release);  // (D) a late (U) sees the use just stored
      }
      auto const now = state.segments[first + i].rest();
      std::uint32_t const next = block_state::next_generation(now.generation());
      QUARRY_NO_UNROLL
      for (std::uint32_t block = 0; block < blocks; ++block)
        state.block_at(id, first + i, block).change_generation(now.generation(), next);
      state.segments[first + i].begin_generation(now, blocks);
    }
    state.held[id].subtract(count);
    state.segment_tree().insert_run(first, count);  // publishes all of it
    state.change_free_segments(static_cast<std::int32_t>(count));
  }

  /// Returns those slices of the run's segment number `index` whose tickets were not taken.
  QUARRY_HD static void give_back_unused(closed_run const& closed, std::uint32_t index) {
    class_shape const& shape = closed.state->shapes[closed.id];
    std::uint32_t const per_unit = 1u << shape.unit_shift;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < shape.units; ++i) {
      std::uint32_t const unit = index * shape.units + i;
      std::uint32_t const next = closed.tickets[unit % slots_per_class];
      std::uint32_t const first_ticket = unit / slots_per_class * per_unit;
      std::uint32_t const used = next > first_ticket ? next - first_ticket : 0;
      if (used >= per_unit) continue;
      simt::far_call(&give_back_slices, *closed.state, closed.id, closed.run.first() + index,
                     i * per_unit + used, (i + 1) * per_unit);
    }
  }

  QUARRY_SLOW static void give_back_slices(heap_state& state, size_class id, std::uint32_t segment,
                                           std::uint32_t begin, std::uint32_t end) {
    QUARRY_NO_UNROLL
    while (begin < end) {
      std::uint32_t const bit = begin % bits_per_word;
      std::uint32_t here = end - begin < bits_per_word - bit ? end - begin : bits_per_word - bit;
      if (begin % slices_per_block == 0 && end - begin >= slices_per_block) {
        here = slices_per_block;
        state.block_at(id, segment, begin / slices_per_block).retire_unused();
        simt::fence_before_stores();  // and before (G) looks whether it is advertised
        simt::far_call(&slice_return::advertise, state, id, segment, begin / slices_per_block);
        simt::far_call(&slice_return::add_free_block, state, id, segment);
      } else {
        simt::far_call(&slice_return::release_held, state, segment, begin / bits_per_word,
                       low_bits(here) << bit);
      }
      begin += here;
    }
  }
};

}  // namespace quarry
