// SPDX-License-Identifier: Apache-2.0
// Where a malloc looks for a free slot.
//
// A place is a sub-group of 32 neighbours, or several of them. For each class a place has a hint:
// the word of slot bits where its work-items look first. So sub-groups meet at one word only if
// there are more sub-groups than places. The work-item that fills a word moves the hint to the next
// word of its lease. A lease is a few words that no other place has. After the last word of the
// lease, the hint is empty, and one work-item finds a new lease:
//
//   1. in the span that was opened last for the place's area, which is several places. A ticket
//      counts the leases of this span, so each lease goes to one place.
//   2. else in a span that the work-item opens, if half of the heap is free. So places share leases
//      only in heaps that are more than half full.
//   3. else at a listed word of a listed span. Searches begin at different spans and words.
//   4. else in a span that the work-item opens. A malloc also opens a span after other work-items
//      claimed a few listed words before it. In a kernel that only allocates, few words have free
//      slots, and all searches would meet at these words.
//
// A word that fills stays listed until a search of step 3 finds it full. Unlisting a word takes
// three dependent steps, and most kernels never search.
//
// All these words are advice, and only slot bits decide. A work-item that reads an old hint or
// ticket finds no free bit, or another class, and goes on. So the accesses to these words are
// relaxed. No work-item waits. If another work-item looks for a lease, the caller reads the hint
// again a bounded number of times, and then finds a lease for itself.
#pragma once

#include "spans.cl"
#include "work_items.cl"

#define QUARRY_MOVING 0x80000000u  // a hint: a work-item looks for a lease
#define QUARRY_LOOKS_AT_HINT 128u  // maximum, while another work-item looks for a lease
// Maximum, while another work-item opens a span. If all work-items opened spans, none would remain.
#define QUARRY_LOOKS_AT_TICKET 64u
#define QUARRY_CLAIMS 256u          // of a malloc; each claim that fails means that others claimed
#define QUARRY_LEASES_OF_LISTED 4u  // maximum that a malloc tries before it opens a span

// Distributes work-items over slots: neighbours get neighbouring bits.
static inline uint quarry_seed(void) {
  return quarry_group() * quarry_local_items() + quarry_local_item();
}
static inline uint quarry_place_of_seed(quarry_heap heap, uint seed) {
  return (seed >> 5u) & QUARRY_LAYOUT(heap, place_mask);
}

// A hint consists of a span plus 1 in 23 bits, and a word in 8 bits. Hint 0 names no word.
// QUARRY_MOVING says that a work-item looks for a lease. A ticket has the same fields, and the
// first word of the next lease in its 9 uppermost bits. It changes by compare-and-swap. Additions
// by 100 work-items after the last lease would wrap the ticket, and it would then hand out full
// words.
static inline uint quarry_hint_of(uint span, uint word) { return (span + 1u) | word << 23u; }
static inline uint quarry_span_of_hint(uint hint) { return (hint & 0x7fffffu) - 1u; }
static inline uint quarry_word_of_hint(uint hint) { return hint >> 23u & 0xffu; }
static inline __global uint* quarry_hint(quarry_heap heap, uint id, uint place) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, hints) +
         id * (QUARRY_LAYOUT(heap, place_mask) + 1u) + place;
}
static inline __global uint* quarry_ticket(quarry_heap heap, uint id, uint area) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, tickets) +
         id * (QUARRY_LAYOUT(heap, area_mask) + 1u) + area;
}
static inline __global uint* quarry_openers(quarry_heap heap, uint id, uint area) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, openers) +
         id * (QUARRY_LAYOUT(heap, area_mask) + 1u) + area;
}

// A work-item that looks for slots.
typedef struct quarry_search {
  uint id;     // class
  uint words;  // of slot bits in a span of the class
  uint place, area;
} quarry_search;
static inline quarry_search quarry_search_of(quarry_heap heap, uint id) {
  quarry_search search;
  search.id = id;
  search.words = quarry_word_count(quarry_slots_of_class(id, quarry_span_shift(heap)));
  search.place = quarry_place_of_seed(heap, quarry_seed());
  search.area = search.place & QUARRY_LAYOUT(heap, area_mask);
  return search;
}

// Slots of one word: at least one, or none if `bits` is 0.
typedef struct quarry_slots {
  uint span, word, bits;
} quarry_slots;

// The hint for the next word of a lease. Returns 0 if the lease ends or `hint` names no word. In a
// class with fewer words the hint may name a word that no slot has; such a word looks full.
static inline uint quarry_next_hint(quarry_heap heap, uint hint) {
  uint const next = quarry_word_of_hint(hint) + 1u;
  return hint == 0u || (next & (QUARRY_LAYOUT(heap, lease_words) - 1u)) == 0u
             ? 0u
             : quarry_hint_of(quarry_span_of_hint(hint), next);
}

// Each of the steps below returns a hint, the first word of a lease, or 0.

// Step 1: takes `words` words, a multiple of a lease, from the area's ticket. Each try that fails
// means that another work-item got a lease. So after as many tries as a span has words, the span
// has no lease left.
static inline uint quarry_lease_by_ticket(quarry_heap heap, quarry_search const* search,
                                          uint words) {
  __global uint* const ticket = quarry_ticket(heap, search->id, search->area);
  uint next = quarry_load_relaxed(ticket), seen = ~next;
  for (uint attempt = 0; attempt < search->words && seen != next; ++attempt) {
    if (attempt != 0u) next = seen;
    if (quarry_span_of_hint(next) >= QUARRY_LAYOUT(heap, spans) || next >> 23u >= search->words)
      return 0u;
    seen = quarry_cas_relaxed(ticket, next, next + (words << 23u));
  }
  uint const span = quarry_span_of_hint(next);
  bool const has_class =
      seen == next && quarry_load_relaxed(quarry_span_class(heap, span)) == search->id + 1u;
  return has_class ? quarry_hint_of(span, next >> 23u) : 0u;
}

// Returns a listed word of a span that is not full. Unlists words that are full.
static inline uint quarry_find_in_span(quarry_heap heap, quarry_search const* search, uint span,
                                       uint mixed) {
  uint const parts = QUARRY_LAYOUT(heap, summary_words);
  for (uint turn = 0; turn < parts; ++turn) {
    uint const part = (turn + (mixed >> 8u)) % parts;
    uint listed = quarry_load_relaxed(quarry_summary_word(heap, span, part * 32u)), full = 0u,
         found = 0u;
    while (listed != 0u && found == 0u) {
      uint const bit = quarry_pick_bits(listed, 1u, mixed >> 27u);
      uint const word = part * 32u + quarry_lowest_bit(bit);
      if (quarry_load_relaxed(quarry_slot_word(heap, span, word)) == ~0u)
        full |= bit;
      else
        found = quarry_hint_of(span, word);
      listed &= ~bit;
    }
    if (full != 0u) quarry_unlist_words(heap, search->id, span, part, full);
    if (found != 0u) return found;
  }
  return 0u;
}

// Step 3: returns a listed word of a listed span. Looks at each span at most twice.
static inline uint quarry_find_listed(quarry_heap heap, quarry_search const* search) {
  __global uint* const tree = quarry_class_tree(heap, search->id);
  uint const mixed = search->place * 0x9e3779b1u;
  uint const start = mixed % max(quarry_load_relaxed(&heap->top_span), 1u);
  uint pass = 0u, span = start;
  for (;;) {
    span = quarry_tree_next(tree, &heap->span_tree, span);
    if (span == QUARRY_NONE) {
      if (++pass == 2u) return 0u;
      span = 0u;
      continue;
    }
    bool const has_class = quarry_load_relaxed(quarry_span_class(heap, span)) == search->id + 1u;
    uint const found = has_class ? quarry_find_in_span(heap, search, span, mixed) : 0u;
    if (found != 0u) return found;
    if (!has_class || !quarry_has_listed_word(heap, span))
      quarry_unlist_span(heap, search->id, span);
    ++span;
  }
}

// Steps 2 and 4: returns the first lease of a span that this work-item opens. Returns 0 and opens
// no span if `limit` work-items open spans for this area now. Returns QUARRY_NONE if no span is
// free.
static inline uint quarry_lease_in_new_span(quarry_heap heap, quarry_search const* search,
                                            uint limit) {
  __global uint* const openers = quarry_openers(heap, search->id, search->area);
  if (quarry_load_relaxed(openers) >= limit) return 0u;
  uint span = QUARRY_NONE;
  bool const may_open = quarry_add_relaxed(openers, 1u) < limit;
  if (may_open) span = quarry_claim_span(heap, search->area);
  if (span != QUARRY_NONE) {
    quarry_open_span(heap, search->id, span);
    quarry_store_relaxed(quarry_ticket(heap, search->id, search->area),
                         quarry_hint_of(span, QUARRY_LAYOUT(heap, lease_words)));
  }
  (void)quarry_add_relaxed(openers, ~0u);
  if (!may_open) return 0u;
  return span == QUARRY_NONE ? QUARRY_NONE : quarry_hint_of(span, 0u);
}

// Returns a new lease, or 0 if no span is free and no word is listed. `prefers_spans`: opens a span
// although half of the heap is used. While one work-item opens a span, the others look for its
// leases. After a while three more work-items may open a span, and in the end any work-item may. So
// a slow work-item does not make the others use up the heap.
static inline uint quarry_find_lease(quarry_heap heap, quarry_search const* search,
                                     bool prefers_spans) {
  for (uint look = 0; look <= 8u * QUARRY_LOOKS_AT_TICKET; ++look) {
    uint lease = quarry_lease_by_ticket(heap, search, QUARRY_LAYOUT(heap, lease_words));
    if (lease != 0u) return lease;
    bool const saves = !prefers_spans && quarry_load_relaxed(&heap->used_pages) >=
                                             QUARRY_LAYOUT(heap, usable_pages) >> 1u;
    bool const searches = (saves && look == 0u) || look == QUARRY_LOOKS_AT_TICKET;
    uint const limit = look < QUARRY_LOOKS_AT_TICKET        ? 1u
                       : look < 8u * QUARRY_LOOKS_AT_TICKET ? 4u
                                                            : QUARRY_NONE;
    if (!searches) lease = quarry_lease_in_new_span(heap, search, limit);
    bool const is_full = lease == QUARRY_NONE;
    if (searches || is_full) lease = quarry_find_listed(heap, search);
    if (lease != 0u || is_full) return lease;
  }
  return 0u;
}

// Returns the word to look at after `hint`, whose word had no free slot for the caller; 0 if there
// is no such word.
QUARRY_OUT_OF_LINE static uint quarry_find_word(quarry_heap heap, uint id, uint hint,
                                                bool prefers_spans) {
  quarry_search const search = quarry_search_of(heap, id);
  __global uint* const hint_word = quarry_hint(heap, id, search.place);
  for (uint look = 0; look < QUARRY_LOOKS_AT_HINT; ++look) {
    if (hint == QUARRY_MOVING) {
      hint = quarry_load_relaxed(hint_word);
    } else {
      uint next = quarry_next_hint(heap, hint);
      if (next == 0u) next = QUARRY_MOVING;
      uint const seen = quarry_cas_relaxed(hint_word, hint, next);
      if (seen == hint && next == QUARRY_MOVING) break;
      hint = seen == hint ? next : seen;
    }
    if (hint != 0u && hint != QUARRY_MOVING) return hint;
  }
  uint const lease = quarry_find_lease(heap, &search, prefers_spans);
  quarry_store_relaxed(hint_word, lease);
  return lease;
}

// Claims up to `count` slots of class `id`. Claims none if the class has no free slot and no span
// is free, or if other work-items claimed the slots of each word that this work-item found.
static inline quarry_slots quarry_claim(quarry_heap heap, uint id, uint count) {
  uint const seed = quarry_seed();
  __global uint* const hint_word = quarry_hint(heap, id, quarry_place_of_seed(heap, seed));
  uint hint = quarry_load_relaxed(hint_word);
  uint leases = 0u;  // leases that this malloc found, or that others found for its place
  quarry_slots found = {0u, 0u, 0u};
  for (uint claim = 0; claim < QUARRY_CLAIMS; ++claim) {
    if (hint != 0u && hint != QUARRY_MOVING) {
      found.span = quarry_span_of_hint(hint);
      found.word = quarry_word_of_hint(hint);
      uint used = 0u;
      if (QUARRY_LAYOUT(heap, claims_unread) == 0u)
        used = quarry_load_relaxed(quarry_slot_word(heap, found.span, found.word));
      found.bits = quarry_claim_bits(heap, id, found.span, found.word, &used, count, seed);
      if (found.bits != 0u) {
        if (used == ~0u) (void)quarry_cas_relaxed(hint_word, hint, quarry_next_hint(heap, hint));
        return found;
      }
    }
    if (claim + 1u == QUARRY_CLAIMS) break;  // a span that is opened now would stay empty
    uint const next_of_lease = hint == QUARRY_MOVING ? 0u : quarry_next_hint(heap, hint);
    hint = quarry_find_word(heap, id, hint, leases >= QUARRY_LEASES_OF_LISTED);
    if (hint == 0u) break;
    if (hint != next_of_lease) ++leases;
  }
  return found;
}

// If the hint of the caller's place names the next word, moves the hint back to the word in which
// the caller freed a slot. So sub-groups whose mallocs and frees alternate stay at one word.
static inline void quarry_restore_hint(quarry_heap heap, uint id, uint span, uint word) {
  __global uint* const hint_word = quarry_hint(heap, id, quarry_place_of_seed(heap, quarry_seed()));
  if (quarry_load_relaxed(hint_word) == quarry_hint_of(span, word + 1u))
    quarry_store_relaxed(hint_word, quarry_hint_of(span, word));
}

// Closes a span of which the caller emptied a word, if the span has no allocated slots. If the span
// is the one of the caller's place or area, or the first one of its class, keeps it open and lists
// it as possibly empty. So a class that allocates and frees one slot in turn opens no spans.
QUARRY_OUT_OF_LINE static void quarry_close_or_list_span(quarry_heap heap, uint id, uint span) {
  uint const place = quarry_place_of_seed(heap, quarry_seed()),
             area = place & QUARRY_LAYOUT(heap, area_mask);
  if (quarry_span_of_hint(quarry_load_relaxed(quarry_hint(heap, id, place))) == span ||
      quarry_span_of_hint(quarry_load_relaxed(quarry_ticket(heap, id, area))) == span ||
      quarry_tree_next(quarry_class_tree(heap, id), &heap->span_tree, 0u) == span)
    quarry_list_empty(heap, span);
  else
    (void)quarry_return_span(heap, id, span);
}
