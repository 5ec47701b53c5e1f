// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap_state.hpp"
#include "quarry/simt/far_call.hpp"

namespace quarry {

/// Slices, blocks and segments on their way back: what follows from a free.
///
/// Lock-free; each function works for one lane on behalf of its group.
///
/// Memory order of the advertisement. Whoever gives a block something to claim then sets its bit in
/// `advertised` (U); whoever finds a block empty clears the bit (D) and looks at the block again
/// (V, block.hpp). (U) and (D) are acquire-release RMWs of one word, so the argument of bit_tree
/// holds: a hint may be wrong, but is never lost. The same holds between `advertised` and the
/// class's tree. A bit that is one already need not be set (G).
class slice_return {
 public:
  /// Gives back `slices` of word `index` of a segment, which holds block `of`. Gives those that
  /// were not in use: double frees, of which nothing is left. Requires that the others are in use,
  /// so that the segment's class `id` is stable.
  QUARRY_HD static word release(heap_state& state, size_class id, block const& of,
                                std::uint32_t segment, std::uint32_t index, word slices) {
    word const before = of.at(index % words_per_block).release(slices);
    word const fresh = slices & ~before;
    if (fresh == 0) return slices;
    word const now = of.add(count_ones(fresh));
    if (of.is_plain(now, count_ones(fresh))) return slices & before;
    return (slices & before) |
           simt::far_call(&state, &follow_up, state, id, segment, index, fresh, now);
  }

  QUARRY_SLOW static void release_far(heap_state& state, size_class id, std::uint32_t segment,
                                      std::uint32_t index, word slices) {
    release(state, id, state.block_at(id, segment, index / words_per_block), segment, index,
            slices);
  }

  /// Adds again `count` slices that were reserved too much, in a block whose state was `before`
  /// that. As long as they are missing the segment keeps its class, if it has one and its slices
  /// were handed out: they may be missing from a segment that nobody uses at this moment, from a
  /// block that it does not have now, or from one that is given back unused. Then they may be gone
  /// with the use, and for a moment there seem to be more slices than there are, as after a double
  /// free.
  QUARRY_SLOW static void return_reserved(heap_state& state, std::uint32_t segment,
                                          std::uint32_t block_index, std::uint32_t count,
                                          word before) {
    block const of = state.block_at(0, segment, block_index);
    word now = of.add_again(count);
    if (!block::is_same_use(before, now)) {
      now = of.undo(now, count);
      if (now == 0) return;
      count = slices_per_block;  // nobody else may have seen what came back
    }
    simt::far_call(&state, &follow_return, state, segment, block_index, count, now);
  }

  /// What follows if `count` slices were added again to a block, whose state is now `now`. Requires
  /// that this was acquired. A block that the segment does not have never counts more than none.
  QUARRY_SLOW static void follow_return(heap_state& state, std::uint32_t segment,
                                        std::uint32_t block_index, std::uint32_t count, word now) {
    segment_use const use = state.segments[segment].load();  // (N) of segment_entry
    if (!use.is_slices()) return;
    block const of = state.block_at(use.slices_class(), segment, block_index);
    if (of.is_plain(now, count) || !block::has_slices(now)) return;
    simt::far_call(&state, &pass_on, state, use.slices_class(), segment, block_index, now);
  }

  /// What follows when `slices` of word `index` were released and counted; the block's state is
  /// `now`. Gives those that were not in use. What they added may have kept others from advertising
  /// the block, until it is undone.
  QUARRY_SLOW static word follow_up(heap_state& state, size_class id, std::uint32_t segment,
                                    std::uint32_t index, word slices, word now) {
    std::uint32_t const block_index = index / words_per_block;
    word refused = 0;
    if (block::is_closed(now)) {
      block const of = state.block_at(id, segment, block_index);
      of.at(index % words_per_block).take_back(slices);
      now = of.undo(now, count_ones(slices));
      refused = slices;
    }
    if (block::has_slices(now))
      simt::far_call(&state, &pass_on, state, id, segment, block_index, now);
    return refused;
  }

  /// A block, whose state is `now`, has something to claim, and may be complete.
  QUARRY_SLOW static void pass_on(heap_state& state, size_class id, std::uint32_t segment,
                                  std::uint32_t block_index, word now) {
    simt::fence_after_loads();
    block const of = state.block_at(id, segment, block_index);
    bool const is_free = of.is_complete(now) && of.become_free(now);
    simt::far_call(&state, &advertise, state, id, segment, block_index);
    if (is_free) simt::far_call(&state, &add_free_block, state, id, segment);
  }

  QUARRY_SLOW static void add_free_block(heap_state& state, size_class id, std::uint32_t segment) {
    if (state.segments[segment].add_free_blocks(1, state.blocks_of(id)))
      simt::far_call(&state, &give_back_segment, state, id, segment);
  }

  /// Requires that the caller has retired the segment (segment_entry).
  QUARRY_SLOW static void give_back_segment(heap_state& state, size_class id,
                                            std::uint32_t segment) {
    segment_entry& entry = state.segments[segment];
    std::uint32_t const blocks = state.blocks_of(id);
    entry.store(segment_use::nothing());
    state.class_tree(id).claim(segment);
    simt::fence_before_stores();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i * bits_per_word < blocks; ++i) {
      state.advertised_at(segment, i)
          .fetch_and(0, simt::fenced_release);  // (D) a late (U) sees the use just stored
    }
    simt::far_call(&state, &empty_segment, state, id, segment);
    entry.end_retirement(blocks);  // (E) the tree's insert publishes all of it
    state.held[id].subtract();
    state.segment_tree().insert(segment);
    simt::atomic_ref<std::uint32_t>{state.free_segments}.fetch_add(1, simt::relaxed);  // (L) a hint
  }

  /// Bits and blocks of a segment on its way back, as its next use expects them.
  QUARRY_SLOW static void empty_segment(heap_state& state, size_class id, std::uint32_t segment) {
    word* const words = &state.word_at(segment, 0);
    slice_word{words[(state.shapes[id].slices - 1) / bits_per_word]}.reset(0);
    word const next = block::state_of_use(state.segments[segment].uses() + 1);
    std::uint32_t const blocks = state.blocks_of(id);
    if (blocks > few_blocks) {
      simt::far_call(&state, &simt::fill_words, words + state.words_per_segment(),
                     state.blocks_per_segment, next);
      return;
    }
    std::uint32_t const shift = state.segment_shift;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < blocks; ++i)
      simt::atomic_ref<word>{heap_state::state_of_block(words, shift, i)}.store(
          next, simt::relaxed);  // (E)
  }

  static constexpr std::uint32_t few_blocks = 32;  // fewer than what one pass over all states takes

  /// Says that the block may hold something to claim.
  QUARRY_SLOW static void advertise(heap_state& state, size_class id, std::uint32_t segment,
                                    std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    simt::atomic_ref<word> const mask = state.advertised_at(segment, block_index / bits_per_word);
    if ((mask.load(simt::relaxed) & bit) != 0)
      return;  // (G) whoever clears it from now on looks at the block after us
    if (mask.fetch_or(bit, simt::acq_rel) == 0) state.class_tree(id).insert(segment);  // (U)
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && use.slices_class() == id) return;
    // The caller's slices came back, and with them the whole segment, before it got here: a later
    // use of the segment must not find a bit set of which its own class tree knows nothing. Other
    // bits may be as late as this one.
    if (simt::far_call(&state, &withdraw, state, segment, block_index) == 0) return;
    segment_use const now = state.segments[segment].load();
    if (now.is_slices()) state.class_tree(now.slices_class()).insert(segment);
  }

  /// The block was found to hold nothing: says so, and looks again. Gives the other blocks' bits.
  QUARRY_SLOW static word withdraw(heap_state& state, std::uint32_t segment,
                                   std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    word const before = state.advertised_at(segment, block_index / bits_per_word)
                            .fetch_and(~bit, simt::acq_rel);  // (D)
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && block_index < state.blocks_of(use.slices_class()) &&
        state.block_at(use.slices_class(), segment, block_index).has_something()) {  // (V)
      simt::far_call(&state, &advertise, state, use.slices_class(), segment, block_index);
    }
    return before & ~bit;
  }
};

}  // namespace quarry
