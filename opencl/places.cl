// SPDX-License-Identifier: Apache-2.0
// Where a malloc looks for a free slot.
//
// A place is a sub-group of 32 neighbours, or several of them. For each class it has a hint: the
// word of slot bits where its work-items look first. So sub-groups meet at one word only if there
// are more of them than places. The work-item that fills a word moves the hint to the next word of
// its lease: a few words that no other place got. After the last one, the hint names nothing, and
// one work-item finds a new lease:
//
//   1. in the span that was opened last for its area, which is several places. A ticket counts the
//      leases of this span, so each goes to one place.
//   2. else in a span that it opens, if half of the heap is free: so places share leases only in
//      heaps that are used
//   3. else at a listed word of a listed span. Searches begin at different spans and words.
//   4. else in a span that it opens.
//
// A word that fills stays listed until a search of step 3 finds it full: to unlist it takes three
// steps in a row, and most kernels never search.
//
// All this is advice: only slot bits decide. A work-item that reads an old hint or ticket finds no
// free bit, or another class, and goes on. So these words are relaxed. No work-item waits: one that
// finds that another one looks for a lease reads the hint again, a bounded number of times, and then
// finds a lease for itself.
#pragma once

#include "spans.cl"

#define QUARRY_MOVING 0x80000000u   // a hint
#define QUARRY_LOOKS_AT_HINT 128u   // while another work-item looks for a lease
#define QUARRY_LOOKS_AT_TICKET 64u  // while another work-item opens a span
#define QUARRY_CLAIMS 64u           // of a malloc; each that fails means that others claimed

// Spreads work-items over slots: neighbours get neighbouring bits.
static inline uint quarry_seed(void) {
  return (uint)(get_group_id(0) * get_local_size(0) + get_local_id(0));
}
static inline uint quarry_place_of_seed(quarry_heap heap, uint seed) {
  return (seed >> 5u) & QUARRY_LAYOUT(heap, place_mask);
}

// A hint is a span and 1, in 23 bits, and a word, in 8 bits. 0 names nothing, and QUARRY_MOVING says
// that a work-item looks for a lease. A ticket is the same, with the first word of the next lease in
// its uppermost bits, where it wraps to 0: only advice.
static inline uint quarry_hint_of(uint span, uint word) { return (span + 1u) | word << 23u; }
static inline uint quarry_span_of_hint(uint hint) { return (hint & 0x7fffffu) - 1u; }
static inline uint quarry_word_of_hint(uint hint) { return hint >> 23u & 0xffu; }
static inline __global uint* quarry_hint(quarry_heap heap, uint id, uint place) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, hints) + id * (QUARRY_LAYOUT(heap, place_mask) + 1u) + place;
}
static inline __global uint* quarry_ticket(quarry_heap heap, uint id, uint area) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, tickets) + id * (QUARRY_LAYOUT(heap, area_mask) + 1u) + area;
}
static inline __global uint* quarry_opener(quarry_heap heap, uint id, uint area) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, openers) + id * (QUARRY_LAYOUT(heap, area_mask) + 1u) + area;
}

// A work-item that looks for up to `count` slots.
typedef struct quarry_search {
  uint id;     // class
  uint words;  // of slot bits in a span of the class
  uint count;
  uint seed;
  uint place, area;
  bool is_full;  // no span was free
} quarry_search;
static inline quarry_search quarry_search_of(quarry_heap heap, uint id, uint count) {
  quarry_search search;
  search.id = id;
  search.words = quarry_word_count(quarry_slots_of_class(id, quarry_span_shift(heap)));
  search.count = count;
  search.seed = quarry_seed();
  search.place = quarry_place_of_seed(heap, search.seed);
  search.area = search.place & QUARRY_LAYOUT(heap, area_mask);
  search.is_full = false;
  return search;
}

// Slots of one word: at least one, or none if `bits` is 0. `used`: what the word was last seen to be.
typedef struct quarry_slots {
  uint span, word, bits, used;
} quarry_slots;
static inline quarry_slots quarry_no_slots(void) {
  quarry_slots const none = {0u, 0u, 0u, 0u};
  return none;
}

// Claims up to `count` slots of a word, after a look at it unless the device claims unread.
static inline quarry_slots quarry_claim_in_word(quarry_heap heap, uint id, uint span, uint word, uint count,
                                                uint seed) {
  uint used = QUARRY_LAYOUT(heap, claims_unread) != 0u ? 0u : quarry_load_relaxed(quarry_slot_word(heap, span, word));
  uint const bits = quarry_claim_bits(heap, id, span, word, &used, count, seed);
  quarry_slots const found = {span, word, bits, used};
  return found;
}

// The hint for the word behind `word` in its lease; 0 if the lease ends, or `word` is no word.
static inline uint quarry_next_hint(quarry_heap heap, uint words, uint span, uint word) {
  bool const has_next = span < QUARRY_LAYOUT(heap, spans) && (word + 1u) % QUARRY_LAYOUT(heap, lease_words) != 0u &&
                        word + 1u < words;
  return has_next ? quarry_hint_of(span, word + 1u) : 0u;
}

// 1: claims slots in the leases that the area's ticket gives away.
static inline quarry_slots quarry_claim_by_ticket(quarry_heap heap, quarry_search const* search) {
  __global uint* const ticket = quarry_ticket(heap, search->id, search->area);
  uint const spans = QUARRY_LAYOUT(heap, spans), lease = QUARRY_LAYOUT(heap, lease_words);
  for (uint next = quarry_load_relaxed(ticket);; next = quarry_load_relaxed(ticket)) {
    if (quarry_span_of_hint(next) >= spans || next >> 23u >= search->words) return quarry_no_slots();
    next = quarry_add_relaxed(ticket, lease << 23u);
    uint const span = quarry_span_of_hint(next), first = next >> 23u;
    if (span >= spans) return quarry_no_slots();
    for (uint word = first; word < min(first + lease, search->words); ++word) {
      quarry_slots const found = quarry_claim_in_word(heap, search->id, span, word, search->count, search->seed);
      if (found.bits != 0u) return found;
    }
    if (quarry_load_relaxed(quarry_span_class(heap, span)) != search->id + 1u) return quarry_no_slots();
  }
}

// Claims slots in a word that the span lists. Unlists the words that it finds full.
static inline quarry_slots quarry_claim_in_listed_span(quarry_heap heap, quarry_search const* search, uint span,
                                                       uint mixed) {
  quarry_slots found = quarry_no_slots();
  uint const parts = QUARRY_LAYOUT(heap, summary_words);
  for (uint turn = 0; turn < parts && found.bits == 0u; ++turn) {
    uint const part = (turn + (mixed >> 8u)) % parts;
    uint listed = quarry_load_relaxed(quarry_summary_word(heap, span, part * 32u)), full = 0u;
    while (listed != 0u && found.bits == 0u) {
      uint const bit = quarry_pick_bits(listed, 1u, mixed >> 27u);
      found.span = span;
      found.word = part * 32u + quarry_lowest_bit(bit);
      found.used = quarry_load_relaxed(quarry_slot_word(heap, span, found.word));
      found.bits =
          quarry_claim_bits(heap, search->id, span, found.word, &found.used, search->count, search->seed);
      if (found.bits == 0u) full |= bit;
      listed &= ~bit;
    }
    if (full != 0u) quarry_unlist_words(heap, search->id, span, part, full);
  }
  return found;
}

// 3: claims slots in a listed word of a listed span. Looks at each span at most twice.
static inline quarry_slots quarry_claim_listed(quarry_heap heap, quarry_search const* search) {
  __global uint* const tree = quarry_class_tree(heap, search->id);
  uint const mixed = search->place * 0x9e3779b1u;
  uint const start = mixed % max(quarry_load_relaxed(&heap->top_span), 1u);
  for (uint pass = 0; pass < 2u; ++pass) {
    uint span = pass == 0u ? start : 0u;
    while ((span = quarry_tree_next(tree, &heap->span_tree, span)) != QUARRY_NONE) {
      if (quarry_load_relaxed(quarry_span_class(heap, span)) == search->id + 1u) {
        quarry_slots const found = quarry_claim_in_listed_span(heap, search, span, mixed);
        if (found.bits != 0u) return found;
      }
      if (quarry_load_relaxed(quarry_span_class(heap, span)) != search->id + 1u || !quarry_has_listed_word(heap, span))
        quarry_unlist_span(heap, search->id, span);
      ++span;
    }
  }
  return quarry_no_slots();
}

// 2 and 4: opens a span, and gets its first slots. Does nothing if another work-item opens one for
// this area, unless `insists`.
static inline quarry_slots quarry_claim_in_new_span(quarry_heap heap, quarry_search* search, bool insists) {
  __global uint* const opener = quarry_opener(heap, search->id, search->area);
  bool const is_first = quarry_load_relaxed(opener) == 0u && quarry_cas_relaxed(opener, 0u, 1u) == 0u;
  if (!is_first && !insists) return quarry_no_slots();
  uint const span = quarry_claim_span(heap, search->area);
  quarry_slots found = quarry_no_slots();
  if (span == QUARRY_NONE) {
    search->is_full = true;
  } else {
    uint const slots = quarry_slots_of_class(search->id, quarry_span_shift(heap));
    found.span = span;
    found.bits = quarry_pick_bits(~quarry_unused_bits(slots, 0u), search->count, 0u);
    found.used = quarry_unused_bits(slots, 0u) | found.bits;
    quarry_open_span(heap, search->id, span, found.bits);
    quarry_store_relaxed(quarry_ticket(heap, search->id, search->area),
                         quarry_hint_of(span, QUARRY_LAYOUT(heap, lease_words)));
  }
  if (is_first) quarry_store_relaxed(opener, 0u);
  return found;
}

// Claims slots of a new lease. None: no span was free, and no slot listed.
static inline quarry_slots quarry_claim_elsewhere(quarry_heap heap, quarry_search* search) {
  search->is_full = false;
  for (uint look = 0; look <= QUARRY_LOOKS_AT_TICKET; ++look) {
    bool const insists = look == QUARRY_LOOKS_AT_TICKET;
    quarry_slots found = quarry_claim_by_ticket(heap, search);
    if (found.bits != 0u) return found;
    bool const saves = quarry_load_relaxed(&heap->used_pages) >= QUARRY_LAYOUT(heap, usable_pages) >> 1u;
    if (insists || (saves && look == 0u)) found = quarry_claim_listed(heap, search);
    if (found.bits == 0u) found = quarry_claim_in_new_span(heap, search, insists);
    if (found.bits == 0u && search->is_full) found = quarry_claim_listed(heap, search);
    if (found.bits != 0u || search->is_full) return found;
  }
  return quarry_no_slots();
}

// Claims up to `count` slots of class `id` if the hint of the place names no word with a free slot.
QUARRY_OUT_OF_LINE static quarry_slots quarry_claim_slow(quarry_heap heap, uint id, uint count, uint hint) {
  quarry_search search = quarry_search_of(heap, id, count);
  __global uint* const hint_word = quarry_hint(heap, id, search.place);
  uint claims = 0u;
  for (uint look = 0; claims < QUARRY_CLAIMS; ++look) {
    bool finds = look >= QUARRY_LOOKS_AT_HINT;
    if (hint == QUARRY_MOVING) {
      hint = quarry_load_relaxed(hint_word);
    } else {  // the word is full, or there is none
      uint next = quarry_next_hint(heap, search.words, quarry_span_of_hint(hint), quarry_word_of_hint(hint));
      if (next == 0u) next = QUARRY_MOVING;
      uint const seen = quarry_cas_relaxed(hint_word, hint, next);
      finds = finds || (seen == hint && next == QUARRY_MOVING);
      hint = seen == hint ? next : seen;
    }
    quarry_slots found = quarry_no_slots();
    if (finds) {
      ++claims;
      found = quarry_claim_elsewhere(heap, &search);
      hint = 0u;
      if (found.bits != 0u)
        hint = found.used == ~0u ? quarry_next_hint(heap, search.words, found.span, found.word)
                                 : quarry_hint_of(found.span, found.word);
      quarry_store_relaxed(hint_word, hint);
      if (search.is_full) return found;
    } else if (hint != 0u && hint != QUARRY_MOVING) {
      found = quarry_claim_in_word(heap, id, quarry_span_of_hint(hint), quarry_word_of_hint(hint), count, search.seed);
    }
    if (found.bits != 0u) return found;
  }
  return quarry_no_slots();
}

// Moves the hint of a place behind the word that it names, which is full.
QUARRY_OUT_OF_LINE static void quarry_advance_hint(quarry_heap heap, uint id, __global uint* hint_word, uint hint) {
  uint const words = quarry_word_count(quarry_slots_of_class(id, quarry_span_shift(heap)));
  uint const next = quarry_next_hint(heap, words, quarry_span_of_hint(hint), quarry_word_of_hint(hint));
  (void)quarry_cas_relaxed(hint_word, hint, next);
}

// Claims up to `count` slots of class `id`. None: the class has no free slot and no span is free.
static inline quarry_slots quarry_claim(quarry_heap heap, uint id, uint count) {
  uint const seed = quarry_seed();
  __global uint* const hint_word = quarry_hint(heap, id, quarry_place_of_seed(heap, seed));
  uint const hint = quarry_load_relaxed(hint_word);
  if (hint == 0u || hint == QUARRY_MOVING) return quarry_claim_slow(heap, id, count, hint);
  uint const span = quarry_span_of_hint(hint), word = quarry_word_of_hint(hint);
  quarry_slots const found = quarry_claim_in_word(heap, id, span, word, count, seed);
  if (found.bits == 0u) return quarry_claim_slow(heap, id, count, hint);
  if (found.used == ~0u) quarry_advance_hint(heap, id, hint_word, hint);
  return found;
}

// Whether an empty span should stay open: it is the one of this place, whose hint the caller has read,
// or of its area, or the first of its class. So a class that allocates and frees one slot in turn
// opens no spans.
static inline bool quarry_keeps_span(quarry_heap heap, uint id, uint span, uint hint) {
  uint const place = quarry_place_of_seed(heap, quarry_seed());
  return quarry_span_of_hint(hint) == span ||
         quarry_span_of_hint(quarry_load_relaxed(quarry_ticket(heap, id, place & QUARRY_LAYOUT(heap, area_mask)))) == span ||
         quarry_tree_next(quarry_class_tree(heap, id), &heap->span_tree, 0u) == span;
}

// Closes a span of which the caller emptied a word, unless the span has allocated slots, or should stay
// open: then lists it as empty.
QUARRY_OUT_OF_LINE static void quarry_close_or_keep_span(quarry_heap heap, uint id, uint span, uint hint) {
  if (quarry_keeps_span(heap, id, span, hint))
    quarry_list_empty(heap, span);
  else
    (void)quarry_return_span(heap, id, span);
}
