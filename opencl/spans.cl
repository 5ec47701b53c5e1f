// SPDX-License-Identifier: Apache-2.0
// Spans: slots of one size class in 16 pages, with a bit for each slot.
//
// Memory order. A slot's bytes are plain memory, and two owners access them one after the other.
// While a span is open, its words of slot bits change only by RMWs. So (C) synchronizes with (R),
// also if other bits changed in between.
//
//   label  statement                                  partner  guarantee
//   (R)    a free clears the slot's bit, release      (C)      the owner's accesses happen before
//   (C)    a claim sets the slot's bit, acquire       (R)      the next owner's accesses
//   (O)    opening stores the words after the class   (C)      a claim reads the span's class after
//                                                              its bit, so it reads this class
//
// Race: a work-item may know a span from an earlier use. It may claim a slot or try to close the
// span after the span was closed and opened for another class. Re-check: the work-item first takes
// a bit, or all bits of a word, and then reads the class. While it holds a bit, no other work-item
// can close the span, so the class cannot change. If the class is another one, the work-item puts
// the bits back.
//
// Lists of free slots. Two bits lead to a free slot's word: the word's bit in the span's summary,
// and the span's bit in the class's tree. A work-item that makes a full word not full sets both
// bits. A work-item that finds a listed word full clears them, and looks again (see tree.cl). Each
// change may be late, when the span already has another class. So the work-item that finds the
// summary 0 sets the span's bit in the tree of the class that the span has at that time. A
// work-item that finds the summary not 0 relies on that.
//
// Empty spans. A free that empties a word looks at the other words. If all words are empty, it
// closes the span, or keeps it open and adds it to the tree of empty spans. A work-item that puts
// bits back may have hidden that a word was empty. So it also adds the span to this tree. A span in
// the tree stays open until a work-item that needs memory closes it. Frees in such a span look at
// the tree and need not close the span.
//
// Race: two frees empty the last two words of a span at the same time. Re-check: each free looks at
// the other word after its own RMW. On devices that perform RMWs in the order in which a work-item
// needs their results, one of the frees sees both words empty. Price: on other devices the span may
// stay open, and only its class can use it.
#pragma once

#include "pages.cl"

static inline uint quarry_span_shift(quarry_heap heap) {
  return QUARRY_LAYOUT(heap, page_shift) + 4u;
}
static inline __global uint* quarry_span_class(quarry_heap heap, uint span) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, span_classes) + span;
}
static inline __global uint* quarry_slot_word(quarry_heap heap, uint span, uint word) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, slot_bits) +
         span * QUARRY_LAYOUT(heap, slot_words) + word;
}
// The reference of the span's first unit.
static inline uint quarry_base_of_span(quarry_heap heap, uint span) {
  return QUARRY_LAYOUT(heap, first_unit) + (span << quarry_span_shift(heap));
}

// The base of the word offsets of a class's tree. `span_tree` has the shape of the tree.
static inline __global uint* quarry_class_tree(quarry_heap heap, uint id) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, class_trees) +
         id * QUARRY_LAYOUT(heap, class_tree_words);
}
static inline void quarry_list_span(quarry_heap heap, uint id, uint span) {
  quarry_tree_insert(quarry_class_tree(heap, id), &heap->span_tree, span);
}

static inline __global uint* quarry_summary_word(quarry_heap heap, uint span, uint word) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, summaries) +
         span * QUARRY_LAYOUT(heap, summary_words) + (word >> 5u);
}
// Lists words of slot bits that have free slots: the words whose bits are in `bits`, in one word of
// the summary. Reads the class after the summary, because quarry_open_span stores them in that
// order and lists the span itself.
QUARRY_OUT_OF_LINE static void quarry_list_words(quarry_heap heap, uint span,
                                                 __global uint* summary, uint bits) {
  if (quarry_or_acq_rel(summary, bits) != 0u) return;
  uint const class_and_one = quarry_load_relaxed(quarry_span_class(heap, span));
  if (class_and_one != 0u) quarry_list_span(heap, class_and_one - 1u, span);
}
static inline bool quarry_has_listed_word(quarry_heap heap, uint span) {
  for (uint i = 0; i < QUARRY_LAYOUT(heap, summary_words); ++i)
    if (quarry_load_relaxed(quarry_summary_word(heap, span, i * 32u)) != 0u) return true;
  return false;
}
// Unlists a span that has no free slot or has another class. Lists it again if that is no longer
// true.
static inline void quarry_unlist_span(quarry_heap heap, uint id, uint span) {
  quarry_tree_remove(quarry_class_tree(heap, id), &heap->span_tree, span);
  if (quarry_load_relaxed(quarry_span_class(heap, span)) == id + 1u &&
      quarry_has_listed_word(heap, span))
    quarry_list_span(heap, id, span);
}
// Unlists full words of slot bits. `full` has their bits in word `part` of the summary. Lists a
// word again if it is no longer full.
static inline void quarry_unlist_words(quarry_heap heap, uint id, uint span, uint part, uint full) {
  __global uint* const summary = quarry_summary_word(heap, span, part * 32u);
  uint const left = quarry_and_acquire(summary, ~full) & ~full;
  uint free = 0u;
  for (uint rest = full; rest != 0u; rest &= rest - 1u) {
    uint const bit = quarry_lowest_bit(rest);
    if (quarry_load_relaxed(quarry_slot_word(heap, span, part * 32u + bit)) != ~0u)
      free |= 1u << bit;
  }
  if (free != 0u)
    quarry_list_words(heap, span, summary, free);
  else if (left == 0u && !quarry_has_listed_word(heap, span))
    quarry_unlist_span(heap, id, span);
}

static inline __global uint* quarry_empty_tree(quarry_heap heap) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, empty_tree);
}
static inline bool quarry_is_listed_as_empty(quarry_heap heap, uint span) {
  __global uint* const words =
      quarry_tree_word(quarry_empty_tree(heap), &heap->span_tree, 0u, span >> 5u);
  return (quarry_load_relaxed(words) >> (span & 31u) & 1u) != 0u;
}
// Lists an open span as possibly empty.
static inline void quarry_list_empty(quarry_heap heap, uint span) {
  if (!quarry_is_listed_as_empty(heap, span))
    quarry_tree_insert(quarry_empty_tree(heap), &heap->span_tree, span);
}

static inline uint quarry_word_count(uint slots) { return (slots + 31u) >> 5u; }
// The bits of a word that belong to no slot.
static inline uint quarry_unused_bits(uint slots, uint word) {
  uint const left = slots - word * 32u;
  return left >= 32u ? 0u : ~0u << left;
}
// Whether a word whose bits are `bits` has no allocated slot.
static inline bool quarry_is_empty_word(quarry_heap heap, uint id, uint word, uint bits) {
  uint const shift = quarry_span_shift(heap);
  if ((word + 1u) * 32u * quarry_units_of_class(id, shift) <= 1u << shift) return bits == 0u;
  return bits == quarry_unused_bits(quarry_slots_of_class(id, shift), word);
}

// Clears bits of a word of slot bits, which the caller holds. Returns the previous word.
static inline uint quarry_put_back(quarry_heap heap, uint span, uint word, uint bits) {
  uint const before = QUARRY_ATOMIC(and, R)(quarry_slot_word(heap, span, word), ~bits);  // (R)
  if (before == ~0u)
    quarry_list_words(heap, span, quarry_summary_word(heap, span, word), 1u << (word & 31u));
  return before;
}
// Puts back bits that the caller should not hold, and lists the span as possibly empty.
QUARRY_OUT_OF_LINE static void quarry_undo_claim(quarry_heap heap, uint span, uint word,
                                                 uint bits) {
  (void)quarry_put_back(heap, span, word, bits);
  quarry_list_empty(heap, span);
}

// Closes the span if it is open for class `id` and none of its slots is allocated. Returns true if
// this call closed the span; the caller then owns its pages.
static inline bool quarry_close_span(quarry_heap heap, uint id, uint span) {
  uint const slots = quarry_slots_of_class(id, quarry_span_shift(heap));
  uint const words = quarry_word_count(slots);
  for (uint word = 0; word < words; ++word)
    if (quarry_load_relaxed(quarry_slot_word(heap, span, word)) != quarry_unused_bits(slots, word))
      return false;
  uint word = 0u;
  quarry_fence();
  for (; word < words; ++word) {
    uint const empty = quarry_unused_bits(slots, word);
    if (quarry_cas_fenced_acq_rel(quarry_slot_word(heap, span, word), empty, ~0u) != empty) break;
    if (word == 0u && quarry_load_relaxed(quarry_span_class(heap, span)) != id + 1u) {
      word = 1u;  // the word of another class: puts the first word back
      break;
    }
  }
  quarry_fence();
  if (word == words && quarry_load_relaxed(quarry_span_class(heap, span)) == id + 1u) {
    quarry_tree_remove(quarry_class_tree(heap, id), &heap->span_tree, span);
    quarry_tree_remove(quarry_empty_tree(heap), &heap->span_tree, span);
    quarry_store_relaxed(quarry_span_class(heap, span), 0u);
    return true;
  }
  while (word > 0u) {
    --word;
    quarry_undo_claim(heap, span, word, ~quarry_unused_bits(slots, word));
  }
  return false;
}

// Closes the span if it is empty, and frees its pages.
static inline bool quarry_return_span(quarry_heap heap, uint id, uint span) {
  if (!quarry_close_span(heap, id, span)) return false;
  quarry_free_pages(heap, span * QUARRY_PAGES_PER_SPAN, QUARRY_PAGES_PER_SPAN);
  return true;
}

// Opens a span, whose pages the caller owns, for class `id`. Holds the span's first slot meanwhile.
// Otherwise other work-items could close the span and open it for another class, whose summary this
// call would overwrite. The caller then claims a slot or lists the span as empty.
static inline void quarry_open_span(quarry_heap heap, uint id, uint span) {
  uint const slots = quarry_slots_of_class(id, quarry_span_shift(heap));
  uint const words = quarry_word_count(slots);
  quarry_store_relaxed(quarry_span_class(heap, span), id + 1u);
  if (quarry_load_relaxed(&heap->top_span) <= span)
    quarry_store_relaxed(&heap->top_span, span + 1u);
  quarry_fence();
  for (uint word = 0; word < words; ++word)
    QUARRY_ATOMIC(store, O)(quarry_slot_word(heap, span, word),
                            quarry_unused_bits(slots, word) | (word == 0u ? 1u : 0u));  // (O)
  quarry_fence();  // a work-item that sees the summary also sees the words
  for (uint word = 0; word < words; word += 32u)
    quarry_store_fenced_release(quarry_summary_word(heap, span, word),
                                ~quarry_unused_bits(words, word >> 5u));
  quarry_list_span(heap, id, span);
  (void)quarry_put_back(heap, span, 0u, 1u);
}

#define QUARRY_TRIES_AT_WORD 32u

// Returns the lowest `count` bits of `bits`, or all bits if there are fewer. Returns at least one
// bit. Prefers bits from `start` on.
static inline uint quarry_pick_bits(uint bits, uint count, uint start) {
  uint turned = rotate(bits, (32u - (start & 31u)) & 31u);
  uint picked = turned;
  if (count < popcount(turned)) {
    picked = 0u;
    for (; count != 0u; --count) {
      picked |= turned & (0u - turned);
      turned &= turned - 1u;
    }
  }
  return rotate(picked, start & 31u);
}

// Claims up to `count` slots of a word and returns their bits. Returns 0 if the word is full or the
// span has another class now. `used`: the word as the caller knows it; afterwards the word as this
// call last saw it. `seed` selects the bit to look at first, so that neighbours take different
// bits. A try fails if other work-items claim its bits first. After 32 failed tries the word counts
// as full.
static inline uint quarry_claim_bits(quarry_heap heap, uint id, uint span, uint word, uint* used,
                                     uint count, uint seed) {
  __global uint* const bits = quarry_slot_word(heap, span, word);
  __global uint* const class_of_span = quarry_span_class(heap, span);
  for (uint attempt = 0; *used != ~0u && attempt < QUARRY_TRIES_AT_WORD; ++attempt) {
    uint const wanted = quarry_pick_bits(~*used, count, seed);
    uint const before = QUARRY_ATOMIC(or, C)(bits, wanted);  // (C)
    uint const claimed = wanted & ~before;
    *used = before | wanted;
    if (claimed == 0u) continue;
    if (quarry_load_relaxed(class_of_span) == id + 1u) return claimed;
    quarry_undo_claim(heap, span, word, claimed);
    return 0u;
  }
  return 0u;
}
