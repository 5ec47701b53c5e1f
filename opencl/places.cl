// SPDX-License-Identifier: Apache-2.0
// Where a malloc looks for a free slot.
//
// A place is a sub-group of 32 neighbours, or several of them. For each class it has a hint: the
// word of slot bits where its work-items look first. So sub-groups meet at one word only if there
// are more of them than places. When the word is full, one work-item moves the hint:
//
//   1. to the next word of the span that was opened last for its area, which is several places. A
//      ticket counts these words, so each goes to one place.
//   2. else to a span that it opens, if its class has less than a sixteenth of the heap: so places
//      share words only in heaps that are used
//   3. else to a listed word of a listed span. Searches begin at different spans and words.
//   4. else to a span that it opens.
//
// All this is advice: only slot bits decide. Whoever reads an old hint or ticket finds no free bit,
// or another class, and goes on. Nobody waits: who finds that another work-item moves the hint
// looks again a bounded number of times, and then finds a word for itself.
#pragma once

#include "spans.cl"

#define QUARRY_MOVING 0x80000000u        // in a hint: a work-item moves it
#define QUARRY_LOOKS_AT_HINT 64u         // while another work-item moves it
#define QUARRY_LOOKS_AT_TICKET 64u       // while another work-item opens a span
#define QUARRY_TRIES_IN_TREE 16u

// Spreads work-items over slots: neighbours get neighbouring bits.
static inline uint quarry_seed(void) {
  return (uint)(get_group_id(0) * get_local_size(0) + get_local_id(0));
}
static inline uint quarry_place_of_seed(quarry_heap heap, uint seed) { return (seed >> 5u) & heap->place_mask; }

// A hint is a span and 1, in 23 bits, and a word, in 8 bits; 0 names nothing. A ticket likewise; its
// word is the next one to give away, in the uppermost bits, and wraps to 0: only advice.
static inline uint quarry_hint_of(uint span, uint word) { return (span + 1u) | word << 23u; }
static inline uint quarry_span_of_hint(uint hint) { return (hint & 0x7fffffu) - 1u; }
static inline uint quarry_word_of_hint(uint hint) { return hint >> 23u & 0xffu; }
static inline __global uint* quarry_hint(quarry_heap heap, uint id, uint place) {
  return quarry_words(heap) + heap->hints + id * (heap->place_mask + 1u) + place;
}
static inline __global uint* quarry_ticket(quarry_heap heap, uint id, uint place) {
  return quarry_words(heap) + heap->tickets + id * (heap->area_mask + 1u) + (place & heap->area_mask);
}
static inline __global uint* quarry_opener(quarry_heap heap, uint id, uint place) {
  return quarry_words(heap) + heap->openers + id * (heap->area_mask + 1u) + (place & heap->area_mask);
}

// A slot: its span and its index there. `span` is QUARRY_NONE if there is none.
typedef struct quarry_slot {
  uint span, slot;
} quarry_slot;

// Claims a slot of a word that may be full, and says so if it is.
static inline quarry_slot quarry_try_word(quarry_heap heap, uint id, uint span, uint word, uint seed) {
  uint const used = quarry_load_relaxed(quarry_slot_word(heap, span, word));
  quarry_slot const result = {span, quarry_claim_slot(heap, id, span, word, used, seed)};
  if (result.slot != QUARRY_NONE) return result;
  quarry_unlist_word(heap, id, span, word);
  quarry_slot const none = {QUARRY_NONE, QUARRY_NONE};
  return none;
}

// 1: claims a slot in the words that the area's ticket gives away.
static inline quarry_slot quarry_claim_by_ticket(quarry_heap heap, uint id, uint place, uint seed) {
  quarry_slot found = {QUARRY_NONE, QUARRY_NONE};
  __global uint* const ticket = quarry_ticket(heap, id, place);
  uint const words = quarry_word_count(quarry_slots_of_class(id, quarry_span_shift(heap)));
  for (uint next = quarry_load_relaxed(ticket); found.span == QUARRY_NONE; next = quarry_load_relaxed(ticket)) {
    if (quarry_span_of_hint(next) >= heap->spans || next >> 23u >= words) return found;
    next = quarry_add_relaxed(ticket, 1u << 23u);
    uint const span = quarry_span_of_hint(next), word = next >> 23u;
    if (span >= heap->spans || word >= words) return found;
    if (quarry_load_relaxed(quarry_span_class(heap, span)) != id + 1u) return found;
    found = quarry_try_word(heap, id, span, word, seed);
  }
  return found;
}

// 3: claims a slot in a listed word.
static inline quarry_slot quarry_claim_listed(quarry_heap heap, uint id, uint place, uint seed) {
  quarry_slot found = {QUARRY_NONE, QUARRY_NONE};
  __global uint* const tree = quarry_class_tree(heap, id);
  uint const mixed = place * 0x9e3779b1u;
  uint from = mixed % heap->spans;
  for (uint attempt = 0; attempt < QUARRY_TRIES_IN_TREE; ++attempt) {
    uint span = quarry_tree_next(tree, &heap->span_tree, from);
    if (span == QUARRY_NONE && from != 0u) span = quarry_tree_next(tree, &heap->span_tree, 0u);
    if (span == QUARRY_NONE) return found;
    if (quarry_load_relaxed(quarry_span_class(heap, span)) != id + 1u) {
      quarry_unlist_span(heap, id, span);
    } else {
      uint const words = heap->summary_words;
      for (uint turn = 0; turn < words; ++turn) {
        uint const part = (turn + (mixed >> 8u)) % words;
        uint listed = quarry_load_acquire(quarry_summary_word(heap, span, part * 32u));
        while (listed != 0u) {
          uint const turned = rotate(listed, (32u - (mixed >> 27u)) & 31u);
          uint const bit = (quarry_lowest_bit(turned) + (mixed >> 27u)) & 31u;
          found = quarry_try_word(heap, id, span, part * 32u + bit, seed);
          if (found.span != QUARRY_NONE) return found;
          listed &= ~(1u << bit);
        }
      }
      if (!quarry_has_listed_word(heap, span)) quarry_unlist_span(heap, id, span);
    }
    from = span + 1u;
  }
  return found;
}

// 2 and 4: opens a span, and claims its first word. Returns none if no span is free, or if another
// work-item opens one for this area, unless `insists`.
static inline quarry_slot quarry_claim_in_new_span(quarry_heap heap, uint id, uint place, uint seed, bool insists,
                                                   bool* is_full) {
  quarry_slot found = {QUARRY_NONE, QUARRY_NONE};
  __global uint* const opener = quarry_opener(heap, id, place);
  bool const is_first = quarry_load_relaxed(opener) == 0u && quarry_cas_acq_rel(opener, 0u, 1u) == 0u;
  if (!is_first && !insists) return found;
  uint const span = quarry_claim_span(heap, seed);
  if (span == QUARRY_NONE) {
    *is_full = true;
  } else {
    quarry_open_span(heap, id, span);
    quarry_store_relaxed(quarry_ticket(heap, id, place), quarry_hint_of(span, 1u));
    found = quarry_try_word(heap, id, span, 0u, seed);
  }
  if (is_first) quarry_store_release(opener, 0u);
  return found;
}

// Finds a word for the hint of a place, and claims a slot there. `is_full`: whether no span was free.
static inline quarry_slot quarry_find_slot(quarry_heap heap, uint id, uint place, uint seed, bool* is_full) {
  for (uint look = 0; look <= QUARRY_LOOKS_AT_TICKET; ++look) {
    bool const insists = look == QUARRY_LOOKS_AT_TICKET;
    bool const has_many = *is_full || quarry_load_relaxed(quarry_open_spans(heap, id)) >= heap->spans >> 4u;
    quarry_slot found = quarry_claim_by_ticket(heap, id, place, seed);
    if (found.span == QUARRY_NONE && has_many && (look == 0u || insists || *is_full))
      found = quarry_claim_listed(heap, id, place, seed);
    if (found.span == QUARRY_NONE && !*is_full)
      found = quarry_claim_in_new_span(heap, id, place, seed, insists, is_full);
    if (found.span != QUARRY_NONE || (*is_full && has_many)) return found;
  }
  quarry_slot const none = {QUARRY_NONE, QUARRY_NONE};
  return none;
}

// Claims a slot of class `id`. Returns none if no slot of the class and no span is free; `is_full`
// then says that no span was free.
static inline quarry_slot quarry_claim(quarry_heap heap, uint id, bool* is_full) {
  uint const seed = quarry_seed();
  uint const place = quarry_place_of_seed(heap, seed);
  __global uint* const at = quarry_hint(heap, id, place);
  uint hint = quarry_load_relaxed(at);
  for (uint look = 0; look <= QUARRY_LOOKS_AT_HINT; ++look) {
    uint const span = quarry_span_of_hint(hint), word = quarry_word_of_hint(hint);
    if (span < heap->spans && (hint & QUARRY_MOVING) == 0u) {
      bool const reads = heap->claims_unread == 0u || look != 0u;
      uint const used = reads ? quarry_load_relaxed(quarry_slot_word(heap, span, word)) : 0u;
      quarry_slot const found = {span, quarry_claim_slot(heap, id, span, word, used, seed)};
      if (found.slot != QUARRY_NONE) return found;
    }
    bool moves = look == QUARRY_LOOKS_AT_HINT;
    if ((hint & QUARRY_MOVING) == 0u) {
      uint const now = quarry_cas_acq_rel(at, hint, hint | QUARRY_MOVING);
      moves = moves || now == hint;
      if (moves && span < heap->spans) quarry_unlist_word(heap, id, span, word);
      hint = now;
    } else {
      hint = quarry_load_relaxed(at);
    }
    if (!moves) continue;
    quarry_slot const found = quarry_find_slot(heap, id, place, seed, is_full);
    quarry_store_relaxed(at, found.span == QUARRY_NONE ? 0u : quarry_hint_of(found.span, found.slot >> 5u));
    return found;
  }
  quarry_slot const none = {QUARRY_NONE, QUARRY_NONE};
  return none;
}

// Whether an empty span should stay open: the work-items of this place allocate from it, or it is the
// first of its class. A class that allocates and frees one slot in turn then opens no spans.
static inline bool quarry_keeps_span(quarry_heap heap, uint id, uint span) {
  uint const place = quarry_place_of_seed(heap, quarry_seed());
  return quarry_span_of_hint(quarry_load_relaxed(quarry_hint(heap, id, place))) == span ||
         quarry_span_of_hint(quarry_load_relaxed(quarry_ticket(heap, id, place))) == span ||
         quarry_tree_next(quarry_class_tree(heap, id), &heap->span_tree, 0u) == span;
}
