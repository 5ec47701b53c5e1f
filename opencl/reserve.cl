// SPDX-License-Identifier: Apache-2.0
// A reserve: slots of one size class that a work-item claimed ahead. A malloc from a reserve takes
// a few instructions. One claim from the heap fills the reserve with up to 32 slots.
//
//   quarry_reserve reserve = quarry_reserve_empty();
//   quarry_ref r = quarry_reserve_malloc(heap, &reserve, bytes);
//   quarry_reserve_return(heap, &reserve);   // before the kernel ends
//
// The allocations are those of quarry_malloc, and any work-item may free them by quarry_free. A
// free goes to the heap, which checks it as usual. If a kernel does not call quarry_reserve_return,
// unused slots stay allocated. A reserve has at most 512 bytes, so that a million work-items can
// have one each. Requests above 256 bytes go to the heap, and so do requests of another class than
// the reserve's. In a debug heap the trailer counts as part of the request.
#pragma once

#include "heap.cl"

#define QUARRY_RESERVE_UNITS 32u

typedef struct quarry_reserve {
  uint bits;        // the unused slots, as bits of a word of slot bits
  uint id;          // the class of the slots
  quarry_ref base;  // the reference of the word's first slot
} quarry_reserve;

static inline quarry_reserve quarry_reserve_empty(void) {
  quarry_reserve const reserve = {0u, 0u, 0u};
  return reserve;
}

// Takes `words` words, a multiple of a lease, from the area's ticket. Opens a span if the ticket
// has no words left. Returns the hint of the first word, or 0. The words may belong to another span
// than the opened one. Then the opened span is listed as empty, because possibly no work-item
// claims slots in it.
static inline uint quarry_lease_ahead(quarry_heap heap, quarry_search const* search, uint words) {
  uint const first = quarry_lease_by_ticket(heap, search, words);
  if (first != 0u) return first;
  uint const found = quarry_find_lease(heap, search, true);
  quarry_store_relaxed(quarry_hint(heap, search->id, search->place), found);
  uint const second = quarry_lease_by_ticket(heap, search, words);
  if (found != 0u && (second == 0u || quarry_span_of_hint(second) != quarry_span_of_hint(found)))
    quarry_list_empty(heap, quarry_span_of_hint(found));
  return second;
}

// Claims up to `count` slots; `count` is a power of two up to 32. The members of a team get words
// from one ticket, so that all members claim at the same time. A member may get no slots although
// the heap has free ones.
QUARRY_OUT_OF_LINE static quarry_slots quarry_claim_ahead(quarry_heap heap, uint id, uint count) {
  quarry_team const team = quarry_team_of(heap, id);
  if (quarry_team_size(team) == 1u) return quarry_claim_or_reclaim(heap, id, count);
  quarry_search const search = quarry_search_of(heap, id);
  uint const lease = QUARRY_LAYOUT(heap, lease_words), last = quarry_team_size(team) * count - 1u;
  uint const words = ((last >> 5u) + lease) / lease * lease;
  uint first = 0u;  // a hint
  if (quarry_leads(team)) first = quarry_lease_ahead(heap, &search, words);
  first = quarry_from_leader(team, first);
  uint const begin = quarry_rank_in(team) * count;  // the first bit of this member's slots
  quarry_slots found = {quarry_span_of_hint(first), quarry_word_of_hint(first) + (begin >> 5u), 0u};
  if (first == 0u || found.word >= search.words) return found;
  uint used = ~((count == 32u ? ~0u : (1u << count) - 1u) << (begin & 31u));
  found.bits = quarry_claim_bits(heap, id, found.span, found.word, &used, count, 0u);
  return found;
}

// The highest power of two up to `value`, which is not 0.
static inline uint quarry_power_below(uint value) { return 1u << quarry_highest_bit(value); }

// In a debug heap, writes vacant trailers to the slots of a reserve. They stay vacant until the
// reserve hands the slots out.
static inline void quarry_reserve_vacate(quarry_heap heap, quarry_reserve const* reserve,
                                         uint units) {
  for (uint bits = reserve->bits; bits != 0u; bits &= bits - 1u)
    quarry_write_vacant_trailer(heap, reserve->base + quarry_lowest_bit(bits) * units,
                                (ulong)units * QUARRY_UNIT);
}

// Allocates `bytes` bytes as quarry_malloc does.
static inline quarry_ref quarry_reserve_malloc(quarry_heap heap, quarry_reserve* reserve,
                                               ulong bytes) {
  ulong const padded = quarry_padded(heap, bytes);
  if (padded > QUARRY_RESERVE_UNITS / 2u * QUARRY_UNIT) return quarry_malloc(heap, bytes);
  uint const shift = quarry_span_shift(heap), id = quarry_class_of(quarry_units_of(padded), shift);
  uint const units = quarry_units_of_class(id, shift);
  if (reserve->bits == 0u) {
    quarry_slots const found =
        quarry_claim_ahead(heap, id, quarry_power_below(QUARRY_RESERVE_UNITS / units));
    reserve->bits = found.bits;
    reserve->id = id;
    reserve->base = quarry_base_of_span(heap, found.span) + found.word * 32u * units;
    if (quarry_has_trailers(heap)) quarry_reserve_vacate(heap, reserve, units);
  }
  if (reserve->bits == 0u || reserve->id != id) return quarry_malloc(heap, bytes);
  quarry_ref const result = reserve->base + quarry_lowest_bit(reserve->bits) * units;
  reserve->bits &= reserve->bits - 1u;
  return quarry_with_trailer(heap, result, bytes);
}

// Frees the unused slots.
static inline void quarry_reserve_return(quarry_heap heap, quarry_reserve* reserve) {
  if (reserve->bits == 0u) return;
  uint const shift = quarry_span_shift(heap),
             offset = reserve->base - QUARRY_LAYOUT(heap, first_unit);
  uint const span = offset >> shift;
  uint const word =
      (offset & ((1u << shift) - 1u)) / quarry_units_of_class(reserve->id, shift) >> 5u;
  bool const may_be_empty = quarry_is_listed_as_empty(heap, span);
  (void)quarry_free_slots(heap, reserve->id, span, word, reserve->bits, may_be_empty);
  reserve->bits = 0u;
}
