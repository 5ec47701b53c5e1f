// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_return.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry {

/// Slices granted to a lane group by its leader's work.
struct slice_grant {
  enum class source : std::uint32_t { nothing, tickets, bits, run_is_over };
  source from = source::nothing;
  std::uint32_t slot = 0;     // tickets: which slot
  word value = 0;             // tickets: the slot before; bits: which slices of the word; run_is_over: the class's word
  std::uint32_t segment = 0;  // bits
  std::uint32_t index = 0;    // bits: of the word in its segment
};

/// Claims slices that came back: class tree, segment, block, word, each found by a hint and decided by its own atomic.
///
/// Lock-free; each function works for one lane on behalf of its group. Lanes start at places that depend on who they are, so
/// that they seldom meet. Whoever claims in a segment is its visitor meanwhile (segment_entry).
///
/// Memory order. (L) orders nothing: it picks what to try. A segment without an advertised block is taken out of its class's
/// tree (D), and its masks are read again (V), as in slice_return.
class slice_claim {
 public:
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
      simt::pause();
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
      bool being_given_back = false;
      if (entry.leave(blocks, being_given_back)) simt::far_call(&state, &slice_return::give_back_segment, state, use.slices_class(), segment);
      if (use.is_slices() || being_given_back || !entry.load().is_slices()) return;
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
      simt::far_call(&state, &slice_return::withdraw, state, segment, mask * bits_per_word + bit);
      simt::pause();
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
      simt::far_call(&state, &slice_return::advertise, state, id, segment, block_index);
    } else {
      simt::far_call(&state, &slice_return::add_free_block, state, id, segment);
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
    simt::far_call(&state, &slice_return::return_word, state, id, segment, index / words_per_block);
    return 0;
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
