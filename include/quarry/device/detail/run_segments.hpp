// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/slice_return.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Formats the segments of a class's run, and returns those slices of a run that were not
/// allocated.
///
/// Each function works for one lane, which has the right to replace the run (class_run), or which
/// alone knows the run (slice_supply::take_segment). (D) is as in slice_return.
class run_segments {
 public:
  /// Formats the segments of `run`, which the caller has claimed, for class `id`, and opens the
  /// class's ticket counters on the run. The first `claimed` tickets of counter `counter` belong to
  /// the caller. Requires the class's lock. The host also calls this function, for its own copy of
  /// a state in which no segment is used.
  QUARRY_SLOW static void format_run(heap_state& state, size_class id, segment_run run,
                                     std::uint32_t counter = 0, std::uint32_t claimed = 0) {
    std::uint32_t formatted = 0;
    QUARRY_NO_UNROLL
    for (; run.count() - formatted >= segment_entry::batch_size;
         formatted += segment_entry::batch_size)
      simt::indirect_call(&cut_several, state, id, run, formatted);
    QUARRY_NO_UNROLL
    for (; formatted < run.count(); ++formatted)
      simt::indirect_call(&cut_one, state, id, run, formatted);
    std::uint32_t const units = run.count() * state.layouts[id].units;
    // ticket counters without a unit count as used up, and so does the caller's if it took them all
    std::uint32_t const without_unit = units < counters_per_class ? counters_per_class - units : 0;
    bool const takes_all =
        claimed != 0 && claimed == ticket_counter::tickets_of(state.layouts[id], run, counter);
    state.run(id).set(run, without_unit + (takes_all ? 1 : 0));
    simt::fence_before_stores();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < counters_per_class; ++i)
      state.ticket_counter_at(id, i).open(run, i == counter ? claimed : 0);
  }

  /// Formats the `batch_size` segments of `run` from index `offset` on. On a busy GPU a load takes
  /// a microsecond, and registers that a call saves soon leave the nearest cache. So the function
  /// waits once for all segments, and makes no call.
  QUARRY_SLOW static void cut_several(heap_state& state, size_class id, segment_run run,
                                      std::uint32_t offset) {
    segment_entry* const first = &state.segments[run.first() + offset];
    segment_entry::idle_state idle[segment_entry::batch_size];
    first->load_idle_states(idle);
    std::uint32_t const blocks = state.blocks_of(id);
    slice_layout const layout = state.layouts[id].slice;
    bool knows_all = true;
    for (std::uint32_t i = 0; i < segment_entry::batch_size; ++i) {
      knows_all &= idle[i].knows(blocks);
      first[i].cut(id, idle[i].generation(), layout, run.key());
    }
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; !knows_all && i < segment_entry::batch_size; ++i)
      simt::indirect_call(&update_blocks, state, id, run.first() + offset + i);
  }

  QUARRY_SLOW static void cut_one(heap_state& state, size_class id, segment_run run,
                                  std::uint32_t number) {
    segment_entry& entry = state.segments[run.first() + number];
    entry.cut(id, entry.load_idle_state().generation(), state.layouts[id].slice, run.key());
    if (!entry.load_idle_state().knows(state.blocks_of(id)))
      simt::indirect_call(&update_blocks, state, id, run.first() + number);
  }

  /// Gives the segment's generation to those blocks that have an older generation: classes that did
  /// not use these blocks have returned the segment without a use.
  QUARRY_SLOW static void update_blocks(heap_state& state, size_class id, std::uint32_t segment) {
    std::uint32_t const blocks = state.blocks_of(id);
    auto const idle = state.segments[segment].load_idle_state();
    QUARRY_NO_UNROLL
    for (std::uint32_t offset = idle.knows(blocks) ? blocks : idle.known_blocks(); offset < blocks;
         offset += blocks_per_batch) {
      std::uint32_t const count =
          blocks - offset < blocks_per_batch ? blocks - offset : blocks_per_batch;
      std::uint32_t generations[blocks_per_batch];
      for (std::uint32_t i = 0; i < blocks_per_batch; ++i)
        generations[i] = state.block_at(id, segment, offset + (i < count ? i : 0)).generation();
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 0; i < count; ++i)
        state.block_at(id, segment, offset + i)
            .change_generation(generations[i], idle.generation());
    }
  }

  static constexpr std::uint32_t blocks_per_batch = 4;  // blocks whose states are read together

  /// Whether the last segment of the run of class `id` seems untouched: no slice of it was
  /// allocated.
  QUARRY_SLOW static bool has_untouched(heap_state& state, size_class id) {
    class_layout const& layout = state.layouts[id];
    segment_run const run = class_run::run_of(state.run(id).peek());
    std::uint32_t touched = 0;  // units up to the last touched unit
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      std::uint32_t const next = claimed_tickets(
          layout, run, i, ticket_counter::ticket_of(state.ticket_counter_at(id, i).peek()));
      std::uint32_t const units =
          next == 0 ? 0 : ((next - 1) >> layout.unit_shift) * counters_per_class + i + 1;
      if (units > touched) touched = units;
    }
    return run.count() != 0 && touched <= (run.count() - 1) * layout.units;
  }

  /// A run that a lane has closed to return its unused slices.
  struct closed_run {
    heap_state* state;
    size_class id;
    segment_run run;
    std::uint32_t used_units;  // units up to the last touched unit
    std::uint32_t full_units;  // units before the first unit with an unused ticket
    bool has_unused_tickets;
    std::uint32_t tickets[counters_per_class];  // the next ticket of each counter
  };

  /// The number of tickets that were claimed from a counter whose next ticket is `next`. `next` may
  /// count invalid tickets; the result does not.
  [[nodiscard]] QUARRY_HD static std::uint32_t claimed_tickets(class_layout const& layout,
                                                               segment_run run,
                                                               std::uint32_t counter,
                                                               std::uint32_t next) {
    std::uint32_t const tickets = ticket_counter::tickets_of(layout, run, counter);
    return next < tickets ? next : tickets;
  }

  /// Closes the ticket counters of a run and records their positions.
  QUARRY_SLOW static void close_counters(closed_run& closed) {
    class_layout const& layout = closed.state->layouts[closed.id];
    closed.full_units = closed.run.count() * layout.units;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      word const previous =
          closed.state->ticket_counter_at(closed.id, i).close(closed.run.next(0, 0));
      std::uint32_t const next =
          claimed_tickets(layout, closed.run, i, ticket_counter::ticket_of(previous));
      closed.tickets[i] = next;
      closed.has_unused_tickets |= next < ticket_counter::tickets_of(layout, closed.run, i);
      std::uint32_t const full = (next >> layout.unit_shift) * counters_per_class + i;
      if (full < closed.full_units) closed.full_units = full;
      if (next == 0) continue;
      std::uint32_t const touched = ((next - 1) >> layout.unit_shift) * counters_per_class + i + 1;
      if (touched > closed.used_units) closed.used_units = touched;
    }
  }

  /// Returns the slices of a closed run that were not allocated.
  QUARRY_SLOW static void return_run(closed_run const& closed) {
    std::uint32_t const units = closed.state->layouts[closed.id].units;
    std::uint32_t const touched = (closed.used_units + units - 1) / units;  // segments
    if (touched < closed.run.count())
      simt::indirect_call(&return_untouched, *closed.state, closed.id, closed.run.first() + touched,
                          closed.run.count() - touched);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = touched; i-- > closed.full_units / units;) return_unused(closed, i);
  }

  /// Returns `count` segments from `first` on of which no slice was allocated. Their blocks are
  /// empty and open, and stay so; only the blocks' generation ends. The blocks need not be closed
  /// or counted separately, because no other lane can return such a segment.
  QUARRY_SLOW static void return_untouched(heap_state& state, size_class id, std::uint32_t first,
                                           std::uint32_t count) {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      state.segments[first + i].store(segment_use::free_use());
    simt::fence_before_stores();
    std::uint32_t const blocks = state.blocks_of(id);
    std::uint32_t const masks = (blocks + bits_per_word - 1) / bits_per_word;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      QUARRY_NO_UNROLL
      for (std::uint32_t mask = 0; mask < masks; ++mask) {
        state.advertised_at(first + i, mask).store(0, simt::fenced_release);  // (D)
      }
      auto const ended = state.segments[first + i].load_idle_state();
      std::uint32_t const next = block_state::next_generation(ended.generation());
      QUARRY_NO_UNROLL
      for (std::uint32_t block = 0; block < blocks; ++block)
        state.block_at(id, first + i, block).change_generation(ended.generation(), next);
      state.segments[first + i].begin_generation(ended, blocks);
    }
    state.segment_counts[id].subtract(count);
    state.segment_tree().insert_range(first, count);  // publishes all changes above
    state.free_segments.add(static_cast<std::int32_t>(count));
  }

  /// Returns the slices of the run's segment `number` whose tickets were not claimed, by blocks.
  QUARRY_SLOW static void return_unused(closed_run const& closed, std::uint32_t number) {
    heap_state& state = *closed.state;
    std::uint32_t const segment = closed.run.first() + number;
    std::uint32_t const blocks = state.blocks_of(closed.id);
    class_layout const& layout = state.layouts[closed.id];
    std::uint32_t const first_unit = number * layout.units;
    std::uint32_t const full = closed.full_units < first_unit ? 0 : closed.full_units - first_unit;
    word retired = 0;  // bits of the 64 blocks of a mask
    QUARRY_NO_UNROLL
    for (std::uint32_t i = (full << layout.unit_shift) / slices_per_block; i < blocks; ++i) {
      if (simt::indirect_call(&return_block, closed, number, i))
        retired |= word{1} << i % bits_per_word;
      bool const is_last = i + 1 == blocks || (i + 1) % bits_per_word == 0;
      if (!is_last || retired == 0) continue;
      simt::indirect_call(&slice_return::add_retired, state, closed.id, segment, i / bits_per_word,
                          retired);
      retired = 0;
    }
  }

  /// Returns the unused slices of a block. Returns true if no slice of the block was allocated:
  /// then the caller retires the block.
  QUARRY_SLOW static bool return_block(closed_run const& closed, std::uint32_t number,
                                       std::uint32_t index) {
    std::uint32_t const unused = simt::indirect_call(&count_unused, closed, number, index);
    if (unused == block_of(closed, number, index).slices()) {
      block_of(closed, number, index).retire_unused();
      return true;
    }
    if (unused != 0) release_unused(closed, number, index, unused);
    return false;
  }

  [[nodiscard]] QUARRY_HD static block block_of(closed_run const& closed, std::uint32_t number,
                                                std::uint32_t index) {
    return closed.state->block_at(closed.id, closed.run.first() + number, index);
  }

  QUARRY_SLOW static std::uint32_t count_unused(closed_run const& closed, std::uint32_t number,
                                                std::uint32_t block_index) {
    std::uint32_t sum = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < words_per_block; ++i)
      sum += count_ones(unused_in_word(closed, number, block_index * words_per_block + i));
    return sum;
  }

  /// The slices of word `index` of the run's segment `number` whose tickets were not claimed.
  [[nodiscard]] QUARRY_HD static word unused_in_word(closed_run const& closed, std::uint32_t number,
                                                     std::uint32_t index) {
    class_layout const& layout = closed.state->layouts[closed.id];
    std::uint32_t const per_unit = 1u << layout.unit_shift;
    std::uint32_t const step = per_unit < bits_per_word ? per_unit : bits_per_word;
    word unused = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t bit = 0; bit < bits_per_word; bit += step) {
      std::uint32_t const slice = index * bits_per_word + bit;
      std::uint32_t const unit = number * layout.units + (slice >> layout.unit_shift);
      if (slice >> layout.unit_shift >= layout.units) break;
      std::uint32_t const ticket =
          (unit / counters_per_class << layout.unit_shift) + (slice & (per_unit - 1));
      std::uint32_t const next = closed.tickets[unit % counters_per_class];
      std::uint32_t const used = next <= ticket ? 0 : next - ticket < step ? next - ticket : step;
      if (used < step) unused |= low_bits(step - used) << (bit + used);
    }
    return unused;
  }

  /// Sets the bits of the unused slices of a word. Returns how many words became full: 0 or 1.
  QUARRY_SLOW static std::uint32_t set_unused(closed_run const& closed, std::uint32_t number,
                                              std::uint32_t index) {
    word const unused = unused_in_word(closed, number, index);
    if (unused == 0) return 0;
    std::uint32_t const slices = closed.state->layouts[closed.id].slice.slices();
    word const mask = low_bits(slices - index * bits_per_word);
    slice_word const bits{closed.state->word_at(closed.run.first() + number, index)};
    if (unused != mask) return (bits.release(unused) | unused) == mask ? 1 : 0;
    bits.reset(unused, simt::fenced_release);
    return 1;
  }

  /// Returns the unused slices of a block of which some slices were allocated. It works like
  /// slice_return::release, but for many words at once. No other lane sets bits of slices that the
  /// caller owns. The block stays open while the caller owns such slices, or has filled words that
  /// it has not counted. One addition counts all full words.
  QUARRY_HD static void release_unused(closed_run const& closed, std::uint32_t number,
                                       std::uint32_t block_index, std::uint32_t count) {
    simt::fence_before_stores();
    block_state const previous = block_of(closed, number, block_index).announce(count);
    std::uint32_t const segment = closed.run.first() + number;
    if (previous.count() <= 0)
      simt::indirect_call(&slice_return::advertise_announced, *closed.state, closed.id, segment,
                          block_index);
    std::uint32_t full = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < words_per_block; ++i)
      full += simt::indirect_call(&set_unused, closed, number, block_index * words_per_block + i);
    // so that a lane that closes the block after the next addition sees the words' current bits
    simt::fence_before_stores();
    block const target = block_of(closed, number, block_index);
    block_state const new_state = target.count_full_words(full);
    // If no word became full, this lane owns no slice and no uncounted word of the block after it
    // set the last bits. Then the segment may have another use by now.
    bool const is_same = new_state.generation() == previous.generation();
    if (is_same && target.is_complete(new_state) &&
        simt::indirect_call(&slice_return::finish_release, *closed.state, closed.id,
                            previous.generation(), segment, block_index, 0, new_state))
      simt::indirect_call(&slice_return::return_segment, *closed.state, closed.id, segment);
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
