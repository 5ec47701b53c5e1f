// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/slice_return.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// What a lane wants for its group, and what it got.
///
/// It lies in the lane's own memory: the functions of the slow path get a reference to it and need
/// few registers, of which the one with the most decides how many warps of any kernel that
/// allocates run at once.
struct slice_request {
  /// How long a lane tries when there are no free segments and others always come before it.
  static constexpr std::uint32_t microseconds_to_refuse = 2000;

  enum class source : std::uint32_t { nothing, tickets, bits };

  heap_state* state;
  size_class id;
  std::uint32_t count;        // slices wanted
  simt::patience patience{};  // with the whole group
  std::uint32_t random = 0;   // where to begin looking
  source from = source::nothing;
  std::uint32_t slot = 0;        // tickets: which slot
  std::uint32_t segment = 0;     // bits
  std::uint32_t generation = 0;  // of the segment, as this lane knows it
  std::uint32_t index = 0;       // bits: of the word in its segment
  word value = 0;                // tickets: the slot before; bits: which slices of the word
  bool from_full = false;        // bits: that word was full

  /// The lane gives up unless it finds something at once.
  [[nodiscard]] QUARRY_HD bool is_late() const {
    return patience.has_lasted(microseconds_to_refuse);
  }
};

/// Claims slices that came back: class tree, segment, block, word, each found by a hint and decided
/// by its own atomic.
///
/// Lock-free; each function works for one lane on behalf of its group. Of what may hold something
/// each lane picks one by a number that depends on who it is, so that they seldom meet. (To begin
/// at a random place and take what comes next is not enough: the segments of a class often lie side
/// by side, and then most lanes meet at the first of them.)
///
/// Memory order. (L) orders nothing: it picks what to try. A segment without an advertised block is
/// taken out of its class's tree (D), and its masks are read again (V), as in slice_return.
class slice_claim {
 public:
  /// Slices that came back, looking at no more than `tries` segments that hold none, and at one if
  /// the request's patience is over. False if there are none.
  QUARRY_SLOW static bool claim_returned(slice_request& request, std::uint32_t tries) {
    request.random = mix(static_cast<std::uint32_t>(simt::this_place().rank()));
    QUARRY_NO_UNROLL
    for (; tries != 0; --tries) {
      std::uint32_t const segment = request.state->class_tree(request.id).any(request.random);
      if (segment == bit_tree::none) return false;
      if (simt::indirect_call(&claim_in_segment, request, segment)) return true;
      if (request.is_late()) return false;
      simt::pause();
      request.random = mix(request.random);
    }
    return false;
  }

  /// Slices of one segment. What is found to hold none is withdrawn.
  QUARRY_SLOW static bool claim_in_segment(slice_request& request, std::uint32_t segment) {
    heap_state& state = *request.state;
    segment_use const use = state.segments[segment].load();
    request.generation = use.generation();
    if (use.is_slices_of(request.id) && simt::indirect_call(&claim_by_mask, request, segment))
      return true;
    simt::indirect_call(&withdraw_segment, state, request.id, segment);
    return false;
  }

  QUARRY_SLOW static bool claim_by_mask(slice_request& request, std::uint32_t segment) {
    std::uint32_t const masks =
        (request.state->blocks_of(request.id) + bits_per_word - 1) / bits_per_word;
    std::uint32_t mask = scaled(request.random, masks);
    QUARRY_NO_UNROLL
    for (std::uint32_t left = masks; left != 0; --left) {
      if (simt::indirect_call(&claim_in_mask, request, segment, mask)) return true;
      if (request.is_late()) return false;
      if (++mask == masks) mask = 0;
    }
    return false;
  }

  /// Blocks of a mask that are tried in vain before it is left: others claim there, too.
  static constexpr std::uint32_t tries_of_a_mask = 4;

  /// Slices of the 64 blocks from `mask` * 64 on.
  QUARRY_SLOW static bool claim_in_mask(slice_request& request, std::uint32_t segment,
                                        std::uint32_t mask) {
    QUARRY_NO_UNROLL
    for (std::uint32_t tries = tries_of_a_mask; tries != 0; --tries) {
      word const ones = request.state->advertised_at(segment, mask).load(simt::relaxed);  // (L)
      std::uint32_t const bit = any_one(ones, request.random << 8);
      if (bit == bits_per_word) break;
      if (simt::indirect_call(&claim_in_block, request, segment, mask * bits_per_word + bit))
        return true;
      simt::indirect_call(&slice_return::withdraw, *request.state, segment,
                          mask * bits_per_word + bit);
      simt::pause();
    }
    return false;
  }

  /// Slices of one block.
  QUARRY_SLOW static bool claim_in_block(slice_request& request, std::uint32_t segment,
                                         std::uint32_t block_index) {
    // a late advertisement of an earlier use
    if (block_index >= request.state->blocks_of(request.id)) return false;
    request.segment = segment;
    request.index = block_index * words_per_block;
    block_state const seen = request.state->block_at(request.id, segment, block_index).peek();
    if (seen.is_free()) {
      request.value = simt::indirect_call(&revive_block, request, segment, block_index);
    } else if (seen.has_slices()) {
      request.value = simt::indirect_call(&claim_from_used, request, segment, block_index);
    } else {
      return false;
    }
    if (request.value == 0) return false;
    request.from = slice_request::source::bits;
    return true;
  }

  /// Slices of a block that is not free. To be inside keeps the block from becoming free, but does
  /// not keep a segment of which nothing was handed out from returning to the tree, and a late
  /// lane's announcement may let a claimer into such a block. What it takes then is of a later use.
  /// It holds those slices like any other owner, and releases them. It sees this by the generation
  /// when it leaves, and hands nothing out before: their release must not meet this lane inside.
  QUARRY_SLOW static word claim_from_used(slice_request& request, std::uint32_t segment,
                                          std::uint32_t block_index) {
    block const from = request.state->block_at(request.id, segment, block_index);
    block_state const before = from.reserve(request.count);
    bool const may_take = before.is_open_in(request.generation);
    std::uint32_t const reserved = may_take ? block::reserved_of(before, request.count) : 0;
    word const taken = reserved == 0 ? 0
                                     : simt::indirect_call(&claim_reserved, request, segment,
                                                           block_index, reserved);
    std::uint32_t const rest = request.count - count_ones(taken);
    block_state const now = from.leave(rest, taken != 0 && request.from_full);
    // What was returned may be all that there is, or complete the block.
    if (rest != 0 && now.count() > 0)
      simt::indirect_call(&slice_return::follow_late, *request.state, segment, block_index, now);
    if (taken == 0 || now.generation() == request.generation) return taken;
    simt::indirect_call(&slice_return::release_held, *request.state, segment, request.index, taken);
    return 0;
  }

  /// Up to `count` slices, which the caller has reserved, of one word of the block. None if they
  /// are announced and their bits are still to be set.
  QUARRY_SLOW static word claim_reserved(slice_request& request, std::uint32_t segment,
                                         std::uint32_t block_index, std::uint32_t count) {
    block const from = request.state->block_at(request.id, segment, block_index);
    std::uint32_t const words = from.words();
    std::uint32_t at = scaled(request.random << 16, words);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < words; ++i) {
      word const there = from.at(at).peek();
      if (there != 0) {
        word const wanted = lowest_ones(there, count);
        word const before = from.at(at).claim(wanted);
        request.index = block_index * words_per_block + at;
        request.from_full = before == from.mask(at);
        if ((before & wanted) != 0) {
          if (may_be_of_another_use(before, from.mask(at)))
            simt::indirect_call(&look_whether_full, request, segment, block_index, before, at);
          return before & wanted;
        }
      }
      if (++at == words) at = 0;
    }
    return 0;
  }

  /// Whether a word that was `before` may be full by the mask of one class, and not by that of
  /// another: a last word with fewer slices.
  [[nodiscard]] QUARRY_HD static bool may_be_of_another_use(word before, word mask) {
    return mask != ~word{0} || (before != ~word{0} && (before & (before + 1)) == 0);
  }

  /// Says whether word `at`, from which the caller has taken a slice, was full. The slice keeps the
  /// segment's use, which may be a later one than the caller knew.
  QUARRY_SLOW static void look_whether_full(slice_request& request, std::uint32_t segment,
                                            std::uint32_t block_index, word before,
                                            std::uint32_t at) {
    heap_state& state = *request.state;
    if (state.block_at(request.id, segment, block_index).generation() == request.generation) return;
    segment_use const use = state.segments[segment].load();
    request.from_full = before == state.block_at(use.slices_class(), segment, block_index).mask(at);
  }

  /// Slices of a free block, which becomes one whose other slices can be claimed. Zero if it cannot
  /// be had.
  QUARRY_SLOW static word revive_block(slice_request& request, std::uint32_t segment,
                                       std::uint32_t block_index) {
    heap_state& state = *request.state;
    if (!state.segments[segment].reserve_free_block()) return 0;
    segment_use const use = state.segments[segment].load();  // (N) of segment_entry
    word const taken = use.is_slices_of(request.id)
                           ? simt::indirect_call(&revive_reserved, request, segment, block_index)
                           : 0;
    if (taken != 0) {
      simt::indirect_call(&slice_return::advertise, state, request.id, segment, block_index);
    } else {
      slice_return::add_free_blocks(state, use.slices_class(), segment, 1);
    }
    return taken;
  }

  QUARRY_SLOW static word revive_reserved(slice_request& request, std::uint32_t segment,
                                          std::uint32_t block_index) {
    return request.state->block_at(request.id, segment, block_index).revive(request.count);
  }

  /// None of the segment's blocks was found to hold anything for this class.
  QUARRY_SLOW static void withdraw_segment(heap_state& state, size_class id,
                                           std::uint32_t segment) {
    bit_tree const tree = state.class_tree(id);
    tree.claim(segment);  // (D)
    segment_use const use = state.segments[segment].load();
    if (!use.is_slices_of(id)) return;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < state.masks_per_segment(); ++i) {
      if (state.advertised_at(segment, i).load(simt::acquire) != 0) {  // (V)
        tree.insert(segment);
        return;
      }
    }
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
