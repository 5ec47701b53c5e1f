// SPDX-License-Identifier: Apache-2.0
// The heap: malloc and free for work-items of any kernel, over one buffer (heap_layout.cl).
//
// A kernel takes the buffer as `__global quarry_heap_state*`. No call waits for another work-item.
// Any work-item may free an allocation of another work-item, also in a later kernel.
#pragma once

#include "subgroup.cl"
#include "trailer.cl"

typedef uint quarry_ref;

// The address of an allocation. Requires a reference that is not null.
static inline __global void* quarry_at(quarry_heap heap, quarry_ref reference) {
  return (__global void*)((__global uint4*)heap + reference);
}

// The maximum size of an allocation.
static inline ulong quarry_max_bytes(quarry_heap heap) {
  return (ulong)QUARRY_LAYOUT(heap, units) * QUARRY_UNIT;
}
static inline uint quarry_units_of(ulong bytes) {
  return bytes == 0u ? 1u : (uint)((bytes + QUARRY_UNIT - 1u) / QUARRY_UNIT);
}

#define QUARRY_MAX_FAULTS 0x80000000u  // of a kind; concurrent counts may exceed it

// Counts a fault. Keeps the first fault together with its work-item.
QUARRY_OUT_OF_LINE static void quarry_record_fault(quarry_heap heap, uint kind, uint bytes,
                                                   quarry_ref reference) {
  if (quarry_load_relaxed(&heap->fault_counts[kind]) < QUARRY_MAX_FAULTS)
    (void)quarry_add_relaxed(&heap->fault_counts[kind], 1u);
  if (quarry_load_relaxed(&heap->fault_kind) != 0u) return;
  if (quarry_cas_acq_rel(&heap->fault_kind, 0u, kind) != 0u) return;
  quarry_store_relaxed(&heap->fault_bytes, bytes);
  quarry_store_relaxed(&heap->fault_reference, reference);
  quarry_store_relaxed(&heap->fault_group, quarry_group());
  quarry_store_relaxed(&heap->fault_item, quarry_local_item());
}
static inline void quarry_record_out_of_memory(quarry_heap heap, ulong bytes) {
  quarry_record_fault(heap, QUARRY_FAULT_OUT_OF_MEMORY,
                      bytes >= QUARRY_NONE ? QUARRY_NONE : (uint)bytes, 0u);
}

#define QUARRY_LOOKS_AT_RECLAIM 1024u  // maximum, while another work-item closes spans
#define QUARRY_ROUNDS 8u               // maximum rounds of a claim that finds no memory
#define QUARRY_MIN_ROUNDS 4u           // a search may miss words that others list or close now

// Closes empty spans, so that other classes and large allocations get their pages. Closes the first
// empty span that it finds, or all of them. If another work-item closes spans now, looks a bounded
// number of times whether it has finished. Returns false if no span was closed.
QUARRY_OUT_OF_LINE static bool quarry_reclaim(quarry_heap heap, bool all) {
  uint look = 0u;
  while (look < QUARRY_LOOKS_AT_RECLAIM && quarry_load_relaxed(&heap->reclaiming) != 0u) ++look;
  if (look != 0u && look < QUARRY_LOOKS_AT_RECLAIM) return true;
  __global uint* const tree = quarry_empty_tree(heap);
  if (quarry_tree_next(tree, &heap->span_tree, 0u) == QUARRY_NONE) return false;
  (void)quarry_add_relaxed(&heap->reclaiming, 1u);
  bool has_closed = false;
  uint const start = quarry_seed() % QUARRY_LAYOUT(heap, spans);
  for (uint pass = 0; pass < 2u && (all || !has_closed); ++pass) {
    uint span = pass == 0u ? start : 0u;
    uint const end = pass == 0u ? QUARRY_LAYOUT(heap, spans) : start;
    while ((all || !has_closed) && (span = quarry_tree_next(tree, &heap->span_tree, span)) < end) {
      uint const id = quarry_load_relaxed(quarry_span_class(heap, span));
      if (id != 0u && quarry_return_span(heap, id - 1u, span)) has_closed = true;
      ++span;
    }
  }
  (void)quarry_add_release(&heap->reclaiming, ~0u);
  return has_closed;
}

// Claims up to `count` slots of class `id`. If it finds no slot, closes empty spans of other
// classes.
static inline quarry_slots quarry_claim_or_reclaim(quarry_heap heap, uint id, uint count) {
  for (uint round = 0;; ++round) {
    quarry_slots const found = quarry_claim(heap, id, count);
    if (found.bits != 0u || round == QUARRY_ROUNDS) return found;
    if (!quarry_reclaim(heap, false) && round >= QUARRY_MIN_ROUNDS) return found;
  }
}

// Claims a slot of class `id` for each member of the team. The leader claims as many slots at a
// time as one word has. Returns the reference, or 0.
static inline quarry_ref quarry_malloc_small(quarry_heap heap, uint id) {
  uint const shift = quarry_span_shift(heap);
  uint const first_unit = QUARRY_LAYOUT(heap, first_unit), units = quarry_units_of_class(id, shift);
  for (;;) {
    quarry_team const team = quarry_team_of(heap, id);
    quarry_slots found = {0u, 0u, 0u};
    if (quarry_leads(team)) found = quarry_claim_or_reclaim(heap, id, quarry_team_size(team));
    found.bits = quarry_from_leader(team, found.bits);
    found.span = quarry_from_leader(team, found.span);
    found.word = quarry_from_leader(team, found.word);
    if (found.bits == 0u) return 0u;
    uint bits = found.bits;
    uint const rank = quarry_rank_in(team);
    if (rank >= popcount(bits)) continue;
    for (uint i = 0; i < rank; ++i) bits &= bits - 1u;
    return first_unit + (found.span << shift) +
           (found.word * 32u + quarry_lowest_bit(bits)) * units;
  }
}

// Claims a run of pages. Returns the reference, or 0.
QUARRY_OUT_OF_LINE static quarry_ref quarry_malloc_large(quarry_heap heap, uint units) {
  uint const count = ((units - 1u) >> QUARRY_LAYOUT(heap, page_shift)) + 1u;
  if (count > QUARRY_LAYOUT(heap, usable_pages)) return 0u;
  uint first = QUARRY_NONE;
  for (uint round = 0;; ++round) {
    bool met = false;  // whether it met another work-item's claim, which may be undone by now
    first = quarry_claim_pages(heap, count, &met);
    if (first != QUARRY_NONE) break;
    if (round == QUARRY_ROUNDS) return 0u;
    if (!quarry_reclaim(heap, true) && !met && round >= QUARRY_MIN_ROUNDS) return 0u;
  }
  quarry_store_release(quarry_words(heap) + QUARRY_LAYOUT(heap, large_pages) + first, count);
  return QUARRY_LAYOUT(heap, first_unit) + (first << QUARRY_LAYOUT(heap, page_shift));
}

static inline quarry_ref quarry_malloc_units(quarry_heap heap, uint units) {
  uint const shift = quarry_span_shift(heap);
  if (units > 1u << (shift - 2u)) return quarry_malloc_large(heap, units);
  return quarry_malloc_small(heap, quarry_class_of(units, shift));
}

// Allocates as quarry_malloc does, but records no fault.
static inline quarry_ref quarry_try_malloc(quarry_heap heap, ulong bytes) {
  ulong const padded = quarry_padded(heap, bytes);
  quarry_ref const result =
      padded > quarry_max_bytes(heap) ? 0u : quarry_malloc_units(heap, quarry_units_of(padded));
  return quarry_with_trailer(heap, result, bytes);
}

// Allocates `bytes` bytes, aligned to 16. Returns a null reference and records a fault if no free
// slot or run of pages is large enough. May miss memory that other work-items free or try to claim
// at the same time. Size 0 returns a slot of its own.
static inline quarry_ref quarry_malloc(quarry_heap heap, ulong bytes) {
  quarry_ref const result = quarry_try_malloc(heap, bytes);
  if (result == 0u) quarry_record_out_of_memory(heap, bytes);
  return result;
}

// Clears bits, which the caller holds, of a word of slot bits in a span of class `id`. Closes the
// span if the clearing emptied it. Returns the previous word. `may_be_empty`: whether the tree of
// empty spans had the span while the caller held the bits; then the tree still has it.
static inline uint quarry_free_slots(quarry_heap heap, uint id, uint span, uint word, uint bits,
                                     bool may_be_empty) {
  uint const before = quarry_put_back(heap, span, word, bits);
  if ((before & bits) != bits) return before;
  if (before == ~0u) quarry_restore_hint(heap, id, span, word);
  if (!may_be_empty && quarry_is_empty_word(heap, id, word, before & ~bits))
    quarry_close_or_list_span(heap, id, span);
  return before;
}

// Whether an allocation begins at `reference`, according to one look without synchronisation.
static inline bool quarry_is_allocated(quarry_heap heap, quarry_ref reference) {
  uint const offset = reference - QUARRY_LAYOUT(heap, first_unit);
  uint const page = offset >> QUARRY_LAYOUT(heap, page_shift), shift = quarry_span_shift(heap);
  if (reference < QUARRY_LAYOUT(heap, first_unit) || page >= QUARRY_LAYOUT(heap, usable_pages))
    return false;
  uint const id = quarry_load_relaxed(quarry_span_class(heap, offset >> shift));
  if (id == 0u)
    return (offset & ((1u << QUARRY_LAYOUT(heap, page_shift)) - 1u)) == 0u &&
           quarry_load_relaxed(quarry_words(heap) + QUARRY_LAYOUT(heap, large_pages) + page) != 0u;
  uint const in_span = offset & ((1u << shift) - 1u), units = quarry_units_of_class(id - 1u, shift);
  uint const slot = in_span / units;
  if (slot * units != in_span || slot >= quarry_slots_of_class(id - 1u, shift)) return false;
  return (quarry_load_relaxed(quarry_slot_word(heap, offset >> shift, slot >> 5u)) >> (slot & 31u) &
          1u) != 0u;
}

// In a debug heap, checks an allocation that the caller frees next, and reports an overrun. Returns
// false if the slot is allocated but not handed out: another work-item frees the slot now, or a
// reserve has it.
static inline bool quarry_may_free(quarry_heap heap, quarry_ref reference) {
  if (!quarry_is_allocated(heap, reference)) return true;  // the free then reports the reason
  ulong const slot_bytes = quarry_slot_bytes(heap, reference);
  if (slot_bytes == 0u) return true;  // another work-item freed the allocation since
  quarry_trailer_view const view = quarry_retire_trailer(heap, reference, slot_bytes);
  if (view.state == QUARRY_TRAILER_OVERRUN)
    quarry_record_fault(heap, QUARRY_FAULT_OVERRUN, view.requested, reference);
  return view.state != QUARRY_TRAILER_VACANT;
}

// Frees an allocation; null has no effect. Returns false, changes nothing and records a fault if
// `reference` is not the base of an allocation. Reports a double free, unless the memory was
// allocated again or the other free runs at the same time. An overrun in a debug heap is also a
// fault, but the function then frees the allocation and returns true.
static inline bool quarry_free(quarry_heap heap, quarry_ref reference) {
  if (reference == 0u) return true;
  if (quarry_has_trailers(heap) && !quarry_may_free(heap, reference)) {
    quarry_record_fault(heap, QUARRY_FAULT_DOUBLE_FREE, 0u, reference);
    return false;
  }
  uint const offset = reference - QUARRY_LAYOUT(heap, first_unit);
  uint const page = offset >> QUARRY_LAYOUT(heap, page_shift);
  uint fault = QUARRY_FAULT_FOREIGN_REFERENCE;
  if (reference >= QUARRY_LAYOUT(heap, first_unit) && page < QUARRY_LAYOUT(heap, usable_pages)) {
    uint const shift = quarry_span_shift(heap);
    uint const span = offset >> shift;
    uint const class_and_one = quarry_load_relaxed(quarry_span_class(heap, span));
    // This load does not depend on the one above, so both are in flight at the same time.
    bool const may_be_empty = quarry_is_listed_as_empty(heap, span);
    if (class_and_one != 0u) {
      uint const id = class_and_one - 1u;
      uint const units = quarry_units_of_class(id, shift);
      uint const in_span = offset & ((1u << shift) - 1u);
      uint const slot = in_span / units;
      fault = QUARRY_FAULT_INTERIOR_REFERENCE;
      if (slot * units == in_span && in_span + units <= 1u << shift) {
        uint const bit = 1u << (slot & 31u);
        if ((quarry_free_slots(heap, id, span, slot >> 5u, bit, may_be_empty) & bit) != 0u)
          return true;
        fault = QUARRY_FAULT_DOUBLE_FREE;
      }
    } else {
      __global uint* const large = quarry_words(heap) + QUARRY_LAYOUT(heap, large_pages) + page;
      uint const count = quarry_load_relaxed(large);
      bool const is_base = (offset & ((1u << QUARRY_LAYOUT(heap, page_shift)) - 1u)) == 0u;
      if (count != 0u && is_base) {
        if (quarry_cas_acq_rel(large, count, 0u) == count) {
          quarry_free_pages(heap, page, count);
          return true;
        }
        fault = QUARRY_FAULT_DOUBLE_FREE;
      } else if ((quarry_load_relaxed(quarry_page_word(heap, page >> 5u)) >> (page & 31u) & 1u) ==
                 0u) {
        fault = QUARRY_FAULT_DOUBLE_FREE;  // the memory was freed before, or never allocated
      } else {
        fault = QUARRY_FAULT_INTERIOR_REFERENCE;
      }
    }
  }
  quarry_record_fault(heap, fault, 0u, reference);
  return false;
}

// The bytes that an allocation can hold. Returns 0 if no open span contains `reference` and no
// large allocation begins there. In a debug heap, returns the requested bytes if the trailer is
// intact.
static inline ulong quarry_usable_size(quarry_heap heap, quarry_ref reference) {
  ulong const slot_bytes = quarry_slot_bytes(heap, reference);
  if (!quarry_has_trailers(heap) || slot_bytes == 0u) return slot_bytes;
  quarry_trailer_view const view = quarry_view_trailer(heap, reference, slot_bytes);
  return view.canary == 0u || view.requested == QUARRY_NONE ? slot_bytes - QUARRY_TRAILER_BYTES
                                                            : view.requested;
}

// The initial bits of a word of page bits in a heap whose first `pages` pages are usable.
static inline uint quarry_initial_page_bits(uint word, uint pages) {
  if (pages <= word * 32u) return ~0u;
  return pages - word * 32u >= 32u ? 0u : ~0u << (pages & 31u);
}

// Makes all memory free. Any number of work-items run it, after the heap state was written. Each
// work-item writes every n-th word.
static inline void quarry_initialise(quarry_heap heap, uint item, uint items) {
  __global uint* const words = quarry_words(heap);
  uint const begin =
      min(QUARRY_LAYOUT(heap, class_trees), quarry_load_constant(&heap->page_tree.first[0]));
  for (uint word = begin + item; word < QUARRY_LAYOUT(heap, words); word += items) {
    uint value = 0u;
    if (word >= QUARRY_LAYOUT(heap, slot_bits)) value = ~0u;
    if (word - QUARRY_LAYOUT(heap, page_bits) < QUARRY_LAYOUT(heap, page_tree.count))
      value = quarry_initial_page_bits(word - QUARRY_LAYOUT(heap, page_bits),
                                       QUARRY_LAYOUT(heap, usable_pages));
    uint members = (QUARRY_LAYOUT(heap, usable_pages) + 31u) >> 5u;
    for (uint level = 0; level < QUARRY_TREE_LEVELS; ++level) {
      uint const at = word - heap->page_tree.first[level];
      if (at < heap->page_tree.words[level] && at * 32u < members)
        value = quarry_bits_in_word(0u, members, at);
      members = (members + 31u) >> 5u;
    }
    words[word] = value;
  }
}

// Makes the pages [first, end) usable. Requires that `usable_pages` was raised to `end` before, and
// that no other work-item uses the heap, except for those that run this function.
static inline void quarry_add_pages(quarry_heap heap, uint first, uint end, uint item, uint items) {
  for (uint word = (first >> 5u) + item; word <= (end - 1u) >> 5u; word += items) {
    uint const low = max(first, word * 32u), high = min(end, word * 32u + 32u);
    quarry_free_page_bits(heap, word, quarry_bits_in_word(low, high - low, word));
  }
}
