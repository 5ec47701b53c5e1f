// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_state.hpp"
#include "quarry/simt/indirect_call.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Returns slices, blocks and segments after a free. Lock-free; each function works for one lane on
/// behalf of its group, but all lanes that called `free` together return a segment.
///
/// Problem. A hint that a block has claimable slices may be wrong, but must not be lost.
/// Race. A lane that adds slices sets the block's bit; a lane that found none clears it.
/// Re-check. (V) reads the block after (D), as in bit_tree. The class's tree works the same way.
/// Price. A load if the bit is one, else an RMW.
///
///   label  statement                              partner  guarantee
///   (U)    sets a bit of `advertised`, acq_rel    (D)      RMWs of one word: the later one sees
///   (D)    clears bits, acq_rel                   (U)      what the earlier one released
///          (after an announcement (U) is relaxed on CUDA, as block.hpp says of its RMWs)
///   (D)    stores zero, release, when the use     (U)      a later (U) sees the use just stored
///          ended                                           (a store, for which no lane waits)
///   (V)    reads the block again (block.hpp)      (U)      no hint is lost
///   (N)    reads a segment's use (segment_entry)           the use of the block's generation
///   (G)    sees that a bit is one                 (D)      (V) of a later (D) sees the slices
///   (L)    reads what an RMW of this lane ordered          none
class slice_return {
 public:
  /// The result of a release.
  struct result {
    word double_freed;  // the slices that were free already: double frees
    bool is_stale;      // nothing was released: the block is closed or has another generation
    bool ends_segment;  // the lane has retired the segment, and must return it
  };

  /// Releases `slices` of word `index` of a segment in `generation`. `target` is the word's block.
  QUARRY_HD static result release(heap_state& state, size_class id, std::uint32_t generation,
                                  block const& target, std::uint32_t segment, std::uint32_t index,
                                  word slices) {
    simt::fence_before_stores();  // before `announce`, so that it need not wait for that RMW
    block_state const previous = target.announce(count_ones(slices));
    if (!previous.is_open_in(generation)) {
      simt::indirect_call(&retract_announcement, state, segment, index / words_per_block,
                          count_ones(slices));
      return {0, true, false};
    }
    if (previous.count() <= 0)
      return simt::indirect_call(&advertise_and_set_bits, state, id, segment, index, slices,
                                 previous);
    return set_bits(state, id, target, segment, index, slices, previous);
  }

  /// Does the same in the segment's use `use`, for a lane without others, and returns the segment
  /// if the release ends that use. Returns the slices that were allocated until now.
  QUARRY_SLOW static word release_alone(heap_state& state, segment_use use, std::uint32_t segment,
                                        std::uint32_t index, word slices) {
    size_class const id = use.slices_class();
    result const released =
        release(state, id, use.generation(), state.block_at(id, segment, index / words_per_block),
                segment, index, slices);
    if (released.ends_segment) simt::indirect_call(&return_segment, state, id, segment);
    return released.is_stale ? 0 : slices & ~released.double_freed;
  }

  /// Releases slices of the segment's present use that the caller has claimed and not passed to a
  /// user. The block is open, or another lane is opening it and has written the word. If a double
  /// free that was not detected has ended that use, does nothing.
  QUARRY_SLOW static void return_claimed(heap_state& state, std::uint32_t segment,
                                         std::uint32_t index, word slices) {
    segment_use const use = state.segments[segment].load();
    if (!use.is_slices()) return;
    size_class const id = use.slices_class();
    simt::fence_before_stores();
    block_state const previous =
        state.block_at(id, segment, index / words_per_block).announce(count_ones(slices));
    if (previous.is_free() || previous.generation() != use.generation()) {
      simt::indirect_call(&retract_announcement, state, segment, index / words_per_block,
                          count_ones(slices));
      return;
    }
    result const released =
        simt::indirect_call(&advertise_and_set_bits, state, id, segment, index, slices, previous);
    if (released.ends_segment) simt::indirect_call(&return_segment, state, id, segment);
  }

  /// Subtracts an announcement to a block that is closed or has another generation. Until now the
  /// announcement may have kept other lanes from closing or advertising the block.
  QUARRY_SLOW static void retract_announcement(heap_state& state, std::uint32_t segment,
                                               std::uint32_t block_index, std::uint32_t count) {
    block_state const new_state = state.block_at(0, segment, block_index).retract(count);
    simt::indirect_call(&follow_late, state, segment, block_index, new_state);
  }

  /// Ends a release after which the block's state was `new_state`: makes the block free if it is
  /// complete. `double_freed` is the number of released slices that were already free. Returns
  /// whether the lane has retired the segment, and must return it.
  ///
  /// A free block is advertised, too, but not here: the block has had slices to claim, so its bit
  /// is one, or another lane is about to set it.
  QUARRY_SLOW static bool finish_release(heap_state& state, size_class id, std::uint32_t generation,
                                         std::uint32_t segment, std::uint32_t block_index,
                                         std::uint32_t double_freed, block_state new_state) {
    block const target = state.block_at(id, segment, block_index);
    if (double_freed != 0) new_state = target.retract(double_freed);
    // otherwise other lanes have returned the segment, and their releases have completed this one
    return new_state.generation() == generation && target.close(new_state) &&
           state.segments[segment].add_free_blocks(1, state.blocks_of(id));
  }

  /// Records that the block may hold claimable slices, for a lane that has announced slices to it,
  /// and has neither set their bits nor retracted them. Until then the announcement keeps the block
  /// from becoming free, and so the use of the segment from ending. Unlike `advertise`, the lane
  /// need not check that, except if the segment's bits were all zero: a free of a slice that was
  /// never handed out may have announced to a segment that returns untouched (run_segments).
  QUARRY_SLOW static void advertise_announced(heap_state& state, size_class id,
                                              std::uint32_t segment, std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    if (state.advertised_at(segment, block_index / bits_per_word)
            .fetch_or(bit, simt::fenced_acq_rel) != 0)  // (U)
      return;
    state.class_tree(id).insert(segment);
    simt::fence_after_loads();
    if (!state.segments[segment].load().is_slices_of(id))
      simt::indirect_call(&advertise_elsewhere, state, segment, block_index);
  }

  /// Completes a change of the block's state to `new_state` by a lane that knew the block in
  /// another generation, or as closed, or that left it. The block may need an advertisement, or may
  /// be complete.
  QUARRY_SLOW static void follow_late(heap_state& state, std::uint32_t segment,
                                      std::uint32_t block_index, block_state new_state) {
    simt::fence_after_loads();                               // and after the change
    segment_use const use = state.segments[segment].load();  // (N) of segment_entry
    if (!use.is_slices() || use.generation() != new_state.generation()) return;
    size_class const id = use.slices_class();
    if (block_index >= state.blocks_of(id)) return;
    // Also a block that is free now: this lane's announcement may have kept the count above zero
    // while others announced their slices, so that no other lane advertises the block. Until it is
    // counted as free, the use stays.
    bool const is_free = state.block_at(id, segment, block_index).close(new_state);
    if (new_state.count() > 0) simt::indirect_call(&advertise, state, id, segment, block_index);
    if (is_free) add_free_blocks(state, id, segment, 1);
  }

  /// Advertises those blocks of mask `index` that the caller retired unused, and adds them to the
  /// segment's free blocks. Until then they keep the segment's use unchanged.
  QUARRY_SLOW static void add_retired(heap_state& state, size_class id, std::uint32_t segment,
                                      std::uint32_t index, word blocks) {
    simt::fence_before_stores();
    if (state.advertised_at(segment, index).fetch_or(blocks, simt::acq_rel) == 0)  // (U)
      state.class_tree(id).insert(segment);
    add_free_blocks(state, id, segment, count_ones(blocks));
  }

  QUARRY_HD static void add_free_blocks(heap_state& state, size_class id, std::uint32_t segment,
                                        std::uint32_t added) {
    if (state.segments[segment].add_free_blocks(added, state.blocks_of(id)))
      simt::indirect_call(&return_segment, state, id, segment);
  }

  /// Returns a segment to the segment tree. Requires that the caller has retired the segment
  /// (segment_entry).
  QUARRY_SLOW static void return_segment(heap_state& state, size_class id, std::uint32_t segment) {
    auto const alone = simt::lane_group::alone();
    return_segments(state, alone, alone.members(), id, segment);
  }

  /// Does the same for the segments of the `returning` lanes, each of which passes its own segment.
  /// All members of `callers` call this function and change the blocks together. There may be a
  /// thousand blocks, and additions to adjacent words by one instruction cost little more than one
  /// addition.
  QUARRY_SLOW static void return_segments(heap_state& state, simt::lane_group callers,
                                          simt::lane_mask returning, size_class id,
                                          std::uint32_t segment) {
    bool const returns_own = (returning >> simt::lane_group::own_lane() & 1) != 0;
    segment_entry::idle_state ended{0};
    if (returns_own) ended = simt::indirect_call(&begin_return, state, id, segment);
    callers.sync();
    QUARRY_NO_UNROLL
    while (returning != 0) {  // the lanes of one heap, then of the next
      heap_state* const heap = callers.broadcast(&state, lowest_one(returning));
      simt::lane_mask const lanes = callers.ballot(&state == heap) & returning;
      simt::indirect_call(&renew_blocks, *heap, callers, lanes, segment, ended);
      returning &= ~lanes;
    }
    callers.sync();  // extends the release of (E) to the members' changes
    if (returns_own) simt::indirect_call(&end_return, state, id, segment, ended);
  }

  /// Records that the block may hold claimable slices.
  QUARRY_SLOW static void advertise(heap_state& state, size_class id, std::uint32_t segment,
                                    std::uint32_t block_index) {
    if (!simt::indirect_call(&set_bit, state, id, segment, block_index))
      simt::indirect_call(&advertise_elsewhere, state, segment, block_index);
  }

  /// Corrects the hints after this lane set the block's bit too late.
  QUARRY_SLOW static void advertise_elsewhere(heap_state& state, std::uint32_t segment,
                                              std::uint32_t block_index) {
    size_class id = no_class;
    QUARRY_NO_UNROLL
    do {
      // The caller's slices were freed, and the whole segment was returned, before this lane set
      // the bit. A later use of the segment must not find a bit while the tree of its class lacks
      // the segment. Other lanes may have set bits as late as this lane.
      id = simt::indirect_call(&clear_bit, state, segment, block_index);
      segment_use const use = state.segments[segment].load();
      if (use.is_slices()) simt::indirect_call(&enter_segment, state, use, segment, block_index);
    } while (id != no_class && !simt::indirect_call(&set_bit, state, id, segment, block_index));
  }

  /// Records that the block was found empty, and reads the block again.
  QUARRY_SLOW static void withdraw(heap_state& state, std::uint32_t segment,
                                   std::uint32_t block_index) {
    size_class const id = simt::indirect_call(&clear_bit, state, segment, block_index);
    if (id != no_class) simt::indirect_call(&advertise, state, id, segment, block_index);
  }

  static constexpr size_class no_class = ~size_class{0};

 private:
  /// The second part of a release: the slices are announced, and the block's state was `previous`.
  [[nodiscard]] QUARRY_HD static result set_bits(heap_state& state, size_class id,
                                                 block const& target, std::uint32_t segment,
                                                 std::uint32_t index, word slices,
                                                 block_state previous) {
    word const old = target.word_at(index % words_per_block).release(slices);
    word const full = target.mask(index % words_per_block);
    bool const fills_word = old != full && (old | slices) == full;
    block_state const new_state =
        fills_word ? target.count_full_words(1)
                   : block_state{previous.bits() + count_ones(slices) * block_state::one_slice};
    bool ends_segment = false;
    if ((old & slices) != 0 || target.is_complete(new_state))
      ends_segment =
          simt::indirect_call(&finish_release, state, id, previous.generation(), segment,
                              index / words_per_block, count_ones(old & slices), new_state);
    return {old & slices, false, ends_segment};
  }

  /// Does the same for the first free slices of a block.
  QUARRY_SLOW static result advertise_and_set_bits(heap_state& state, size_class id,
                                                   std::uint32_t segment, std::uint32_t index,
                                                   word slices, block_state previous) {
    std::uint32_t const block_index = index / words_per_block;
    advertise_announced(state, id, segment, block_index);
    return set_bits(state, id, state.block_at(id, segment, block_index), segment, index, slices,
                    previous);
  }

  /// Sets the block's bit. Returns false if the segment no longer belongs to class `id`.
  QUARRY_SLOW static bool set_bit(heap_state& state, size_class id, std::uint32_t segment,
                                  std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    simt::atomic_ref<word> const mask = state.advertised_at(segment, block_index / bits_per_word);
    // (G): a lane that clears the bit from now on reads the block after this lane's change.
    word const ones = mask.load(simt::relaxed);  // (G)
    if ((ones & bit) != 0) return true;
    if (mask.fetch_or(bit, simt::acq_rel) == 0) state.class_tree(id).insert(segment);  // (U)
    return state.segments[segment].load().is_slices_of(id);
  }

  /// Clears the block's bit and reads the block again. Returns the block's class if it may hold
  /// claimable slices, otherwise `no_class`.
  QUARRY_SLOW static size_class clear_bit(heap_state& state, std::uint32_t segment,
                                          std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    state.advertised_at(segment, block_index / bits_per_word)
        .fetch_and(~bit, simt::acq_rel);  // (D)
    segment_use const use = state.segments[segment].load();
    bool const may_hold_slices =
        use.is_slices() && block_index < state.blocks_of(use.slices_class()) &&
        state.block_at(use.slices_class(), segment, block_index).may_have_slices();  // (V)
    return may_hold_slices ? use.slices_class() : no_class;
  }

  /// Ends the segment's use: no lane finds its slices from now on. Returns the segment's state.
  QUARRY_SLOW static segment_entry::idle_state begin_return(heap_state& state, size_class id,
                                                            std::uint32_t segment) {
    segment_entry& entry = state.segments[segment];
    segment_entry::idle_state const ended = entry.load_retired_state();  // in flight meanwhile
    entry.store(segment_use::free_use());
    simt::fence_before_stores();  // and after the loads of (S)
    std::uint32_t const blocks = state.blocks_of(id);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i * bits_per_word < blocks; ++i)
      state.advertised_at(segment, i).store(0, simt::fenced_release);  // (D)
    state.class_tree(id).claim(segment);
    return ended;
  }

  /// Moves all blocks of the segments of `lanes` to their next generation, clears the bits of those
  /// blocks that the ended uses had, and opens these. Also the other blocks get the next
  /// generation, so that a lane that opens a run need not examine them (run_segments). The members
  /// of `callers` change adjacent words. `state` is the heap of `lanes`.
  QUARRY_SLOW static void renew_blocks(heap_state& state, simt::lane_group callers,
                                       simt::lane_mask lanes, std::uint32_t segment,
                                       segment_entry::idle_state ended) {
    std::uint32_t const shift = state.segment_shift;
    word* const all_words = &state.word_at(0, 0);
    QUARRY_NO_UNROLL
    for (; lanes != 0; lanes &= lanes - 1) {
      std::uint32_t const lane = lowest_one(lanes);
      segment_entry::idle_state const last = callers.broadcast(ended, lane);
      word* const words = all_words + std::size_t{callers.broadcast(segment, lane)} *
                                          heap_state::stride_of_bits(shift);
      word* const states = words + (1u << (shift - 10));
      std::uint32_t const next = block_state::next_generation(last.generation());
      bool const knows_all = last.knows(1u << (shift - 14));
      QUARRY_UNROLL_4
      for (std::uint32_t i = callers.rank(); i < 1u << (shift - 14); i += callers.size()) {
        block const target{nullptr, states[i], 0};
        target.renew(knows_all ? last.generation() : target.generation(), next,
                     heap_state::block_with_state(shift, i) < last.free_blocks());
      }
      QUARRY_UNROLL_4
      for (std::uint32_t i = 2 * callers.rank(); i < last.free_blocks() * words_per_block;
           i += 2 * callers.size())
        simt::store_pair(words[i], {0, 0});  // no lane reads these bits now
    }
  }

  /// Gives a segment to other uses, all of whose blocks have the next generation.
  QUARRY_SLOW static void end_return(heap_state& state, size_class id, std::uint32_t segment,
                                     segment_entry::idle_state ended) {
    // (E) the insertion into the tree publishes all changes
    state.segments[segment].end_retirement(ended);
    state.segment_counts[id].subtract(1);
    state.segment_tree().insert(segment);
    state.free_segments.add(1);
  }

  /// Inserts the segment into the tree of the class of `use` if any block is advertised in the mask
  /// that contains `block_index`.
  QUARRY_SLOW static void enter_segment(heap_state& state, segment_use use, std::uint32_t segment,
                                        std::uint32_t block_index) {
    if (state.advertised_at(segment, block_index / bits_per_word).load(simt::relaxed) != 0)  // (L)
      state.class_tree(use.slices_class()).insert(segment);
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
