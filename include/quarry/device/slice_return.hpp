// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap_state.hpp"
#include "quarry/simt/far_call.hpp"

namespace quarry {

/// Slices, blocks and segments on their way back: what follows from a free.
///
/// Lock-free; each function works for one lane on behalf of its group.
///
/// Memory order of the advertisement. Whoever gives a block something to claim then sets its bit in `advertised` (U); whoever
/// finds a block empty clears the bit (D) and looks at the block again (V, block.hpp). (U) and (D) are acquire-release RMWs of
/// one word, so the argument of bit_tree holds: a hint may be wrong, but is never lost. The same holds between `advertised`
/// and the class's tree.
class slice_return {
 public:
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
    state.class_tree(id).claim(segment);
    simt::fence_before_stores();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i * bits_per_word < blocks; ++i) {
      state.advertised_at(segment, i).fetch_and(0, simt::fenced_release);  // (D) a late (U) sees the use just stored
    }
    simt::zero_words(&state.blocks[std::size_t{segment} * state.blocks_per_segment], blocks);
    slice_word{state.word_at(segment, (state.shapes[id].slices - 1) / bits_per_word)}.reset(0);
    entry.end_retirement(blocks);  // (E) the tree's insert publishes all of it
    state.held[id].subtract();
    state.segment_tree().insert(segment);
    simt::atomic_ref<std::uint32_t>{state.free_segments}.fetch_add(1, simt::relaxed);  // (L) a hint
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
};

}  // namespace quarry
