// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_handle.hpp"
#include "quarry/device/detail/run_supply.hpp"
#include "quarry/device/detail/slice_claim.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Claims freed slices at random places: the usual case in a heap in use, before any search.
///
/// All lanes that call `malloc` together share the ballots, and the leaders of their groups claim
/// at the same time. A warp may have a group for each of 20 classes. A claim makes few calls and
/// waits seldom. The calls and waits of a search (slice_supply, slice_claim) took most of the time
/// that `malloc` needed in a heap in use.
///
/// Problem. A claimer must not pass on a slice of a later use of the segment.
/// Race. The use ends after the claimer has read it.
/// Re-check. As in slice_claim: the reservation and the departure return the block's generation.
/// The word is read before the reservation, so its bits may be those of an earlier use. Only the
/// bits that the RMW finds set are claimed.
/// Price. If the block becomes free, or other lanes are faster, two additions that cancel out.
///
///   label  statement                                partner  guarantee
///   (L)    selects a candidate; an RMW decides               none
class random_claim {
 public:
  struct result {
    void* slice;    // or nullptr
    bool is_roomy;  // many segments are free
  };

  /// Claims a slice of class `id` for each of the lanes that call together, or for some of them.
  /// Claims no slice if many segments are free, because fresh slices are cheaper. `ticket` is a
  /// ticket of the class that was not valid.
  QUARRY_HD static result claim(heap_handle const& heap, size_class id, std::uint32_t ticket) {
    if (heap.state().magic != heap_state::magic_alive) return {nullptr, false};
    auto const callers = simt::lane_group::coalesced<class random_claim_site>();
    // One lane reads for all: lanes of all classes need this word, which others change. (If the
    // lanes have several heaps, it is the word of one of them. That costs time only.)
    bool const is_roomy =
        callers.broadcast(callers.is_leader() && run_supply::is_roomy(heap.state()));
    if (is_roomy) return {nullptr, true};
    auto const group = callers.match(&heap.state(), id);
    // Ticket and rank grow alike in a kernel of one class, so one of them is mixed first.
    std::uint32_t random = mix(static_cast<std::uint32_t>(simt::this_place().rank())) + ticket;
    void* slice = nullptr;
    simt::lane_mask waiting =
        callers.ballot(simt::indirect_call(&may_claim, heap.state(), id, ticket));
    QUARRY_NO_UNROLL
    for (std::uint32_t tries = max_tries; tries != 0 && waiting != 0; --tries) {
      random = mix(random + 1);
      void* const found =
          simt::indirect_call(&claim_once, heap, callers, waiting & group.members(), id, random);
      if (slice == nullptr) slice = found;
      waiting &= callers.ballot(slice == nullptr);
    }
    return {slice, false};
  }
  static constexpr std::uint32_t max_tries = 4;

  /// Slices of one word of a segment.
  struct slices_of_word {
    word slices = 0;
    std::uint32_t segment = bit_tree::none;
    std::uint32_t index = 0;       // of the word in its segment
    std::uint32_t generation = 0;  // of the segment's use
  };

  /// Finds freed slices in one word of one block of the class, chosen by `random`: `count` of them
  /// if possible. May find none although there are some.
  QUARRY_SLOW static slices_of_word find(heap_state& state, size_class id, std::uint32_t count,
                                         std::uint32_t random) {
    slices_of_word found{0, state.class_tree(id).guess_member(random), 0, 0};
    if (found.segment == bit_tree::none) return found;
    found.segment = slice_claim::fuller_of_two(state, id, count, found.segment, random);
    std::uint32_t const blocks = state.blocks_of(id);
    // other bits than those that selected the segment (slice_claim::claim_by_mask)
    std::uint32_t const mask =
        scaled(mix(random + 1), (blocks + bits_per_word - 1) / bits_per_word);
    // the two loads are in flight together
    word const advertised = state.advertised_at(found.segment, mask).load(simt::relaxed);  // (L)
    segment_use const use = state.segments[found.segment].load();
    std::uint32_t const block_index = mask * bits_per_word + random_one(advertised, random << 8);
    if (advertised == 0 || !use.is_slices_of(id) || block_index >= blocks) return found;
    found.generation = use.generation();
    block const target = state.block_at(id, found.segment, block_index);
    std::uint32_t const words = target.words();
    std::uint32_t index = scaled(random << 16, words);
    word read[words_read_at_once];
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < words_read_at_once; ++i)
      read[i] = target.word_at(index + i < words ? index + i : 0).peek();
    if (!target.peek().has_slices()) return found;  // the bits of a free block have no meaning
    QUARRY_UNROLL_4
    for (std::uint32_t i = 0; i < words_read_at_once; ++i) {
      if (count_ones(found.slices) < count && count_ones(read[i]) > count_ones(found.slices)) {
        found.slices = read[i];
        found.index = block_index * words_per_block + (index + i < words ? index + i : 0);
      }
    }
    return found;
  }
  static constexpr std::uint32_t words_read_at_once = 3;

  /// Claims up to `count` of the slices that `find` found.
  QUARRY_SLOW static word claim_found(heap_state& state, size_class id, slices_of_word found,
                                      std::uint32_t count) {
    slice_claim::entered_word from{found.segment, found.index, found.generation, count};
    block const target = state.block_at(id, found.segment, found.index / words_per_block);
    block_state const previous = target.reserve(count);
    std::uint32_t const reserved =
        previous.is_open_in(found.generation) ? block::reserved_of(previous, count) : 0;
    word const claimed = reserved == 0 ? 0
                                       : slice_claim::claim_bits(
                                             state, id, from, lowest_ones(found.slices, reserved));
    return slice_claim::leave(state, from, claimed);
  }

 private:
  /// Whether the class should claim freed slices: it has some, and no tickets.
  QUARRY_SLOW static bool may_claim(heap_state& state, size_class id, std::uint32_t ticket) {
    // the loads are in flight together
    bool const is_empty = state.class_tree(id).empty();
    word const run = state.run(id).peek();
    return !is_empty && ticket < ticket_counter::ticket_limit &&  // else the search must `rewind`
           (class_run::is_busy(run) || class_run::used_up(run) >= counters_per_class);
  }

  /// One attempt for those lanes of `callers` that are `members`: lanes of one group. Returns the
  /// lane's slice, or nullptr.
  QUARRY_SLOW static void* claim_once(heap_handle const& heap, simt::lane_group callers,
                                      simt::lane_mask members, size_class id,
                                      std::uint32_t random) {
    bool const is_member = (members >> simt::lane_group::own_lane() & 1) != 0;
    std::uint32_t const rank = callers.rank_among(members);
    slices_of_word freed;
    if (is_member && rank == 0)
      freed = simt::indirect_call(&claim_for_group, heap.state(), id, count_ones(members), random);
    callers.sync();  // extends the leaders' acquire to all members
    std::uint32_t const leader = members == 0 ? callers.leader() : lowest_one(members);
    freed.slices = callers.broadcast(freed.slices, leader);
    freed.segment = callers.broadcast(freed.segment, leader);
    freed.index = callers.broadcast(freed.index, leader);
    if (!is_member || rank >= count_ones(freed.slices)) return nullptr;
    std::uint32_t const slice = freed.index * bits_per_word + select_one(freed.slices, rank);
    return heap.address(freed.segment, bytes{slice} * heap.state().layouts[id].size);
  }

  QUARRY_SLOW static slices_of_word claim_for_group(heap_state& state, size_class id,
                                                    std::uint32_t count, std::uint32_t random) {
    slices_of_word found = simt::indirect_call(&find, state, id, count, random);
    if (found.slices != 0)
      found.slices = simt::indirect_call(&claim_found, state, id, found, count);
    return found;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
