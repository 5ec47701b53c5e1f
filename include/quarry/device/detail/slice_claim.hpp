// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/slice_request.hpp"
#include "quarry/device/detail/slice_return.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Claims freed slices. The search finds a segment through the class tree, then a block, then a
/// word. A hint selects each of them, and an atomic on the selected object decides.
///
/// Lock-free; each function works for one lane on behalf of its group. Each lane selects a
/// candidate by a number that depends on its place in the launch, so that lanes seldom conflict. (A
/// search from a random position to the next candidate does not suffice. The segments of a class
/// are often adjacent, and then most lanes meet at the first of these segments.)
///
///   label  statement                                   partner  guarantee
///   (D)    removes a segment from its class's tree     (V)      no hint is lost (slice_return)
///   (V)    reads the segment's masks again, acquire    (D)
///   (N)    reads the use after a reservation                    the use stays (segment_entry)
///   (L)    selects a candidate; an RMW decides                  none
class slice_claim {
 public:
  /// Claims freed slices. Examines at most `tries` segments without slices, and at most one if the
  /// request is late, except in its stage `broad_classes`. Returns false if it finds no slices.
  QUARRY_SLOW static bool claim_returned(slice_request& request, std::uint32_t tries) {
    // plus 1 because `mix` maps 0 to 0, so that the lane with rank 0 would search in one place only
    request.random =
        mix(static_cast<std::uint32_t>(simt::this_place().rank()) + request.random + 1);
    QUARRY_NO_UNROLL
    for (; tries != 0; --tries) {
      std::uint32_t segment = request.state->class_tree(request.id).random_member(request.random);
      if (segment == bit_tree::none) return false;
      if (request.joined == 1)
        segment = simt::indirect_call(&fuller_of_two, *request.state, request.id, request.count,
                                      segment, request.random);
      if (simt::indirect_call(&claim_in_segment, request, segment)) return true;
      if (request.is_late() && request.now != slice_request::stage::broad_classes) return false;
      request.patience.spend();
      simt::pause();
      request.random = mix(request.random + 1);
    }
    return false;
  }

  /// Of `segment` and another random segment of the class, the one with fewer free slices, but at
  /// least `count`. So segments with few allocations lose them over time, become free, and can
  /// serve any class. Only in small heaps, and where a segment has few blocks, whose states count
  /// its free slices. (Rejected: a choice in all heaps. It made churn slower.)
  QUARRY_SLOW static std::uint32_t fuller_of_two(heap_state& state, size_class id,
                                                 std::uint32_t count, std::uint32_t segment,
                                                 std::uint32_t random) {
    std::uint32_t const blocks = state.blocks_of(id);
    if (state.segment_shift > largest_segment_shift || blocks > most_blocks_counted) return segment;
    std::uint32_t const other = state.class_tree(id).guess_member(mix(random + 2));
    if (other == bit_tree::none) return segment;
    std::uint32_t const of_first = free_slices(state, id, segment, blocks);
    std::uint32_t const of_other = free_slices(state, id, other, blocks);
    return of_other >= count && of_other < of_first ? other : segment;
  }
  static constexpr std::uint32_t most_blocks_counted = 4;
  static constexpr std::uint32_t largest_segment_shift = 19;  // by default, heaps below 1 GiB

  /// About how many slices of a segment of `blocks` blocks are free. The loads are in flight
  /// together.
  [[nodiscard]] QUARRY_HD static std::uint32_t free_slices(heap_state& state, size_class id,
                                                           std::uint32_t segment,
                                                           std::uint32_t blocks) {
    std::uint32_t sum = 0;
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < most_blocks_counted; ++i) {
      if (i >= blocks) continue;
      block_state const current = state.block_at(id, segment, i).peek();
      if (current.is_free()) sum += slices_per_block;
      if (current.has_slices()) sum += static_cast<std::uint32_t>(current.count());
    }
    return sum;
  }

  /// Claims freed slices. Examines all segments of the class, from a random one on, as long as
  /// `request.examines_all()`. Returns false if it finds no slices.
  QUARRY_SLOW static bool claim_anywhere(slice_request& request) {
    std::uint32_t remaining = request.state->max_segments;
    std::uint32_t segment = scaled(mix(request.random + 1), remaining);
    QUARRY_NO_UNROLL
    while (request.examines_all()) {
      std::uint32_t const next = request.state->class_tree(request.id).successor_round(segment);
      if (next == bit_tree::none) return false;
      std::uint32_t const skipped =
          next - segment + (next < segment ? request.state->max_segments : 0);
      if (skipped >= remaining) return false;
      if (simt::indirect_call(&claim_in_segment, request, next)) return true;
      request.patience.spend();
      remaining -= skipped + 1;
      segment = next + 1;
    }
    return false;
  }

  /// Claims slices of one segment. Withdraws advertisements that turn out to be wrong.
  QUARRY_SLOW static bool claim_in_segment(slice_request& request, std::uint32_t segment) {
    heap_state& state = *request.state;
    segment_use const use = state.segments[segment].load();
    request.generation = use.generation();
    bool const is_own_class = use.is_slices_of(request.id);
    if (is_own_class && simt::indirect_call(&claim_by_mask, request, segment)) return true;
    if (!is_own_class || request.joined == 1)
      simt::indirect_call(&withdraw_segment, state, request.id, segment);
    return false;
  }

  QUARRY_SLOW static bool claim_by_mask(slice_request& request, std::uint32_t segment) {
    std::uint32_t const masks =
        (request.state->blocks_of(request.id) + bits_per_word - 1) / bits_per_word;
    // other bits than those that selected the segment, or most pairs of both would never be tried
    std::uint32_t mask = scaled(mix(request.random + 1), masks);
    QUARRY_NO_UNROLL
    for (std::uint32_t remaining = masks; remaining != 0; --remaining) {
      if (simt::indirect_call(&claim_in_mask, request, segment, mask)) return true;
      if (request.examines_all())
        request.patience.spend();
      else if (request.is_late() || request.joined > 1)
        return false;
      if (++mask == masks) mask = 0;
    }
    return false;
  }

  /// The number of blocks of a mask that a search tries without success before it leaves the mask.
  /// The limit is small because other lanes claim from these blocks, too.
  static constexpr std::uint32_t tries_of_a_mask = 4;

  /// Claims slices of one of the 64 blocks that `mask` describes: blocks 64 * `mask` and following.
  /// Tries random blocks, or all of them in their order if `request.examines_all()`.
  QUARRY_SLOW static bool claim_in_mask(slice_request& request, std::uint32_t segment,
                                        std::uint32_t mask) {
    QUARRY_NO_UNROLL
    for (std::uint32_t tries = 0;; ++tries) {
      bool const is_random = !request.examines_all();
      if (tries >= (is_random ? tries_of_a_mask : bits_per_word)) break;
      word const ones = request.state->advertised_at(segment, mask).load(simt::relaxed);  // (L)
      std::uint32_t const bit =
          is_random ? random_one(ones, request.random << 8) : lowest_one(ones & ~low_bits(tries));
      if (bit == bits_per_word) break;
      if (!is_random) tries = bit;
      bool const may_claim = request.joined == 1 || simt::indirect_call(&may_join, request, segment,
                                                                        mask * bits_per_word + bit);
      if (may_claim &&
          simt::indirect_call(&claim_in_block, request, segment, mask * bits_per_word + bit))
        return true;
      if (request.joined == 1)  // else the block may have slices that are not adjacent
        simt::indirect_call(&slice_return::withdraw, *request.state, segment,
                            mask * bits_per_word + bit);
      request.random = mix(request.random + 1);
      simt::pause();
    }
    return false;
  }

  /// Claims slices of one block.
  QUARRY_SLOW static bool claim_in_block(slice_request& request, std::uint32_t segment,
                                         std::uint32_t block_index) {
    // a late advertisement of an earlier use
    if (block_index >= request.state->blocks_of(request.id)) return false;
    request.segment = segment;
    request.index = block_index * words_per_block;
    block_state const current = request.state->block_at(request.id, segment, block_index).peek();
    if (current.is_free()) {
      request.value = simt::indirect_call(&revive_block, request, segment, block_index);
    } else if (current.has_slices()) {
      request.value = simt::indirect_call(&claim_from_used, request, segment, block_index);
    } else {
      return false;
    }
    if (request.value == 0) return false;
    request.origin = slice_request::source::bits;
    return true;
  }

  /// Claims slices of a block that is not free. A lane inside keeps the block from becoming free.
  /// But it does not keep a segment of which no slice was allocated from returning to the tree. A
  /// late lane's announcement may admit a claimer to a block of such a segment. Then the claimer
  /// takes slices of a later use. It owns those slices like any other owner, and releases them. The
  /// claimer detects the later use by the generation when it leaves. It passes no slice to a user
  /// before it has left: the release of such a slice must not find this lane inside.
  QUARRY_SLOW static word claim_from_used(slice_request& request, std::uint32_t segment,
                                          std::uint32_t block_index) {
    block const target = request.state->block_at(request.id, segment, block_index);
    block_state const previous = target.reserve(request.count);
    bool const may_claim = previous.is_open_in(request.generation);
    std::uint32_t const reserved = may_claim ? block::reserved_of(previous, request.count) : 0;
    word const claimed =
        reserved == 0 ? 0
                      : simt::indirect_call(request.joined == 1 ? &claim_reserved : &claim_runs,
                                            request, segment, block_index, reserved);
    return leave(*request.state,
                 {segment, request.index, request.generation, request.count, request.was_full},
                 claimed);
  }

  /// A word of a block that a lane has entered, as the lane knows it.
  struct entered_word {
    std::uint32_t segment;
    std::uint32_t index;       // of the word in the segment
    std::uint32_t generation;  // of the segment's use
    std::uint32_t requested;   // slices that the lane tried to reserve
    bool was_full = false;     // before the lane took slices of it
  };

  /// Claims those of `slices`, which the caller has reserved, that are free. Sets `from.was_full`.
  QUARRY_HD static word claim_bits(heap_state& state, size_class id, entered_word& from,
                                   word slices) {
    block const target = state.block_at(id, from.segment, from.index / words_per_block);
    word const mask = target.mask(from.index % words_per_block);
    word const previous = target.word_at(from.index % words_per_block).claim(slices);
    from.was_full = previous == mask;
    if ((previous & slices) != 0 && may_be_of_another_use(previous, mask))
      from.was_full = simt::indirect_call(&was_full_in_present_use, state, id, from, previous);
    return previous & slices;
  }

  /// Leaves the block. Returns `claimed`, or 0 if the block is closed or has a new generation now.
  /// It is closed if a late lane's announcement admitted this lane to a block of which no slice was
  /// allocated, and another lane opens it after `retire_unused`. Until it is open, a user could not
  /// free its slices.
  QUARRY_HD static word leave(heap_state& state, entered_word from, word claimed) {
    std::uint32_t const block_index = from.index / words_per_block;
    std::uint32_t const unclaimed = from.requested - count_ones(claimed);
    block_state const new_state = state.block_at(0, from.segment, block_index)
                                      .leave(unclaimed, claimed != 0 && from.was_full);
    // The returned reservation may be the only available slices, or may complete the block.
    if (unclaimed != 0 && new_state.count() > 0)
      simt::indirect_call(&slice_return::follow_late, state, from.segment, block_index, new_state);
    if (claimed == 0 || new_state.is_open_in(from.generation)) return claimed;
    simt::indirect_call(&slice_return::return_claimed, state, from.segment, from.index, claimed);
    return 0;
  }

  /// Claims up to `count` slices, which the caller has reserved, of one word of the block. Returns
  /// 0 if the slices are announced but their bits are not set yet.
  QUARRY_SLOW static word claim_reserved(slice_request& request, std::uint32_t segment,
                                         std::uint32_t block_index, std::uint32_t count) {
    block const target = request.state->block_at(request.id, segment, block_index);
    std::uint32_t const words = target.words();
    std::uint32_t index = scaled(request.random << 16, words);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < words; ++i) {
      word const free_bits = target.word_at(index).peek();
      if (free_bits != 0) {
        request.index = block_index * words_per_block + index;
        word const claimed =
            simt::indirect_call(&claim_of_word, request, segment, lowest_ones(free_bits, count));
        if (claimed != 0) return claimed;
      }
      if (++index == words) index = 0;
    }
    return 0;
  }

  /// Claims up to `count` slices, which the caller has reserved, in runs of `request.joined` slices
  /// of one word of the block. Other lanes may take slices of a run first.
  QUARRY_SLOW static word claim_runs(slice_request& request, std::uint32_t segment,
                                     std::uint32_t block_index, std::uint32_t count) {
    std::uint32_t const words = request.state->block_at(request.id, segment, block_index).words();
    std::uint32_t const first = scaled(request.random << 16, words);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < words; ++i) {
      std::uint32_t const index = first + i < words ? first + i : first + i - words;
      word const claimed = simt::indirect_call(&claim_runs_of_word, request, segment, block_index,
                                               index, count / request.joined);
      if (claimed != 0) return claimed;
    }
    return 0;
  }

  QUARRY_SLOW static word claim_runs_of_word(slice_request& request, std::uint32_t segment,
                                             std::uint32_t block_index, std::uint32_t index,
                                             std::uint32_t runs) {
    block const target = request.state->block_at(request.id, segment, block_index);
    word const wanted = lowest_runs(target.word_at(index).peek(), request.joined, runs);
    if (wanted == 0) return 0;
    request.index = block_index * words_per_block + index;
    return simt::indirect_call(&claim_of_word, request, segment, wanted);
  }

  QUARRY_SLOW static word claim_of_word(slice_request& request, std::uint32_t segment,
                                        word slices) {
    entered_word from{segment, request.index, request.generation, request.count};
    word const claimed = claim_bits(*request.state, request.id, from, slices);
    request.was_full = from.was_full;
    return claimed;
  }

  /// Whether the block seems to have `request.joined` adjacent slices.
  QUARRY_SLOW static bool may_join(slice_request const& request, std::uint32_t segment,
                                   std::uint32_t block_index) {
    if (block_index >= request.state->blocks_of(request.id)) return false;
    block const target = request.state->block_at(request.id, segment, block_index);
    block_state const state = target.peek();
    if (state.is_free()) return target.slices() >= request.joined;
    if (state.count() < request.joined) return false;
    word found = 0;
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < target.words(); ++i)
      found |= starts_of_runs(target.word_at(i).peek(), request.joined);
    return found != 0;
  }

  /// Whether the word `previous` may be full by the mask of one class and not full by the mask of
  /// another class. This concerns a block's last word, which may have fewer than 64 slices.
  [[nodiscard]] QUARRY_HD static bool may_be_of_another_use(word previous, word mask) {
    return mask != ~word{0} || (previous != ~word{0} && (previous & (previous + 1)) == 0);
  }

  /// Whether the word `from` was full when it was `previous`, just before the caller took a slice
  /// of it. The slice protects the segment's use, which may be later than the use that the caller
  /// knew. (After a double free that was not detected, nothing protects the use. Then the segment
  /// may have no slices any more.)
  QUARRY_SLOW static bool was_full_in_present_use(heap_state& state, size_class id,
                                                  entered_word from, word previous) {
    std::uint32_t const block_index = from.index / words_per_block;
    segment_use const use = state.segments[from.segment].load();
    bool const is_known_use =
        state.block_at(0, from.segment, block_index).generation() == from.generation;
    size_class const present = is_known_use || !use.is_slices() ? id : use.slices_class();
    return previous ==
           state.block_at(present, from.segment, block_index).mask(from.index % words_per_block);
  }

  /// Revives a free block and claims slices of it; other lanes can then claim its other slices.
  /// Returns 0 if the block cannot be revived.
  QUARRY_SLOW static word revive_block(slice_request& request, std::uint32_t segment,
                                       std::uint32_t block_index) {
    heap_state& state = *request.state;
    if (!state.segments[segment].reserve_free_block()) return 0;
    segment_use const use = state.segments[segment].load();  // (N) of segment_entry
    word const claimed = use.is_slices_of(request.id)
                             ? simt::indirect_call(&revive_reserved, request, segment, block_index)
                             : 0;
    if (claimed != 0) {
      simt::indirect_call(&slice_return::advertise, state, request.id, segment, block_index);
    } else if (use.is_slices()) {  // always, without double frees
      slice_return::add_free_blocks(state, use.slices_class(), segment, 1);
    }
    return claimed;
  }

  QUARRY_SLOW static word revive_reserved(slice_request& request, std::uint32_t segment,
                                          std::uint32_t block_index) {
    return request.state->block_at(request.id, segment, block_index).revive(request.count);
  }

  /// Withdraws a segment in which no block was found to hold slices of this class. Inserts it again
  /// if a block is advertised meanwhile.
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
