// SPDX-License-Identifier: Apache-2.0
// Spans: slots of one size class in 16 pages, with a bit for each slot.
//
// Memory order. (R) clears a slot's bit after the last access of its owner; (C) sets it before the
// first access of the next owner. A word of slot bits changes only by RMWs while its span is open,
// so (C) synchronizes with (R) also if other bits changed in between. (O) stores the words of a
// span that opens, after its class; (C) reads one of these values or a later RMW, and then reads
// that class.
//
// A work-item may know a span from an earlier life: it may claim a slot, or try to close the span,
// after the span was closed and opened for another class. So each of them first takes a bit, or all
// bits of a word, and then reads the class. While it holds a bit, nobody else can close the span,
// so the class cannot change. If it is another class, the work-item puts the bits back.
#pragma once

#include "pages.cl"

static inline uint quarry_span_shift(quarry_heap heap) { return heap->page_shift + 4u; }
static inline __global uint* quarry_span_class(quarry_heap heap, uint span) {
  return quarry_words(heap) + heap->span_classes + span;
}
static inline __global uint* quarry_slot_word(quarry_heap heap, uint span, uint word) {
  return quarry_words(heap) + heap->slot_bits + span * heap->slot_words + word;
}
// The reference of the first unit of a span.
static inline uint quarry_base_of_span(quarry_heap heap, uint span) {
  return heap->first_unit + (span << quarry_span_shift(heap));
}

// Base of the word offsets of a class's tree; its shape is `span_tree`.
static inline __global uint* quarry_class_tree(quarry_heap heap, uint id) {
  return quarry_words(heap) + heap->class_trees + id * heap->class_tree_words;
}
static inline void quarry_list_span(quarry_heap heap, uint id, uint span) {
  quarry_tree_insert(quarry_class_tree(heap, id), &heap->span_tree, span);
}

static inline uint quarry_word_count(uint slots) { return (slots + 31u) >> 5u; }
// The bits of a word that no slot has.
static inline uint quarry_unused_bits(uint slots, uint word) {
  uint const left = slots - word * 32u;
  return left >= 32u ? 0u : ~0u << left;
}

// Clears bits of a word of slot bits, which the caller holds. Returns the word before.
static inline uint quarry_put_back(quarry_heap heap, uint span, uint word, uint bits) {
  uint const id = quarry_load_relaxed(quarry_span_class(heap, span));  // cannot change yet
  uint const before = QUARRY_ATOMIC(and, QUARRY_ORDER_R)(quarry_slot_word(heap, span, word), ~bits);  // (R)
  if (before == ~0u && id != 0u) quarry_list_span(heap, id - 1u, span);
  return before;
}

// Closes the span if it is open for class `id` and none of its slots is allocated. Returns true if
// this call closed it; the caller then has its pages.
static inline bool quarry_close_span(quarry_heap heap, uint id, uint span) {
  uint const slots = quarry_slots_of_class(id, quarry_span_shift(heap));
  uint const words = quarry_word_count(slots);
  for (uint word = 0; word < words; ++word)
    if (quarry_load_relaxed(quarry_slot_word(heap, span, word)) != quarry_unused_bits(slots, word)) return false;
  uint word = 0u;
  quarry_fence();
  for (; word < words; ++word) {
    uint const empty = quarry_unused_bits(slots, word);
    if (quarry_cas_fenced_acq_rel(quarry_slot_word(heap, span, word), empty, ~0u) != empty) break;
    if (word == 0u && quarry_load_relaxed(quarry_span_class(heap, span)) != id + 1u) {
      word = 1u;  // another class's: puts the first word back
      break;
    }
  }
  quarry_fence();
  if (word == words && quarry_load_relaxed(quarry_span_class(heap, span)) == id + 1u) {
    quarry_tree_remove(quarry_class_tree(heap, id), &heap->span_tree, span);
    quarry_store_relaxed(quarry_span_class(heap, span), 0u);
    return true;
  }
  while (word > 0u) {
    --word;
    (void)quarry_put_back(heap, span, word, ~quarry_unused_bits(slots, word));
  }
  return false;
}

// Closes the span if it is empty, and frees its pages.
static inline bool quarry_return_span(quarry_heap heap, uint id, uint span) {
  if (!quarry_close_span(heap, id, span)) return false;
  quarry_free_pages(heap, span * QUARRY_PAGES_PER_SPAN, QUARRY_PAGES_PER_SPAN);
  return true;
}

// Opens a span, whose pages the caller has, for class `id`.
static inline void quarry_open_span(quarry_heap heap, uint id, uint span) {
  uint const slots = quarry_slots_of_class(id, quarry_span_shift(heap));
  quarry_store_relaxed(quarry_span_class(heap, span), id + 1u);
  quarry_fence();
  for (uint word = 0; word < quarry_word_count(slots); ++word)
    QUARRY_ATOMIC(store, QUARRY_ORDER_O)(quarry_slot_word(heap, span, word), quarry_unused_bits(slots, word));  // (O)
  quarry_list_span(heap, id, span);
}

// Says that no slot of the span was free, unless one is free by now. If the span is not listed,
// another work-item has said so, and looks again.
static inline void quarry_unlist_span(quarry_heap heap, uint id, uint span) {
  uint const listed = quarry_load_relaxed(quarry_tree_word(quarry_class_tree(heap, id), &heap->span_tree, 0u, span >> 5u));
  if ((listed >> (span & 31u) & 1u) == 0u) return;
  quarry_tree_remove(quarry_class_tree(heap, id), &heap->span_tree, span);
  uint const words = quarry_word_count(quarry_slots_of_class(id, quarry_span_shift(heap)));
  for (uint word = 0; word < words; ++word) {
    if (quarry_look(quarry_slot_word(heap, span, word)) == ~0u) continue;
    if (quarry_load_relaxed(quarry_span_class(heap, span)) == id + 1u) quarry_list_span(heap, id, span);
    return;
  }
}

// Claims a slot. Returns its index; QUARRY_NONE if the span has no free slot or another class now.
// Looks at word `first` first, and at the bit that `seed` names: neighbours take different bits.
static inline uint quarry_claim_slot(quarry_heap heap, uint id, uint span, uint first, uint seed) {
  uint const words = quarry_word_count(quarry_slots_of_class(id, quarry_span_shift(heap)));
  uint word = first < words ? first : 0u;
  for (uint turn = 0; turn < words; ++turn) {
    __global uint* const at = quarry_slot_word(heap, span, word);
    uint used = quarry_load_relaxed(at);
    while (used != ~0u) {
      uint const turned = rotate(~used, (32u - (seed & 31u)) & 31u);
      uint const bit = (quarry_lowest_bit(turned) + seed) & 31u;
      used = QUARRY_ATOMIC(or, QUARRY_ORDER_C)(at, 1u << bit);  // (C)
      if ((used >> bit & 1u) == 0u) {
        if (quarry_load_relaxed(quarry_span_class(heap, span)) == id + 1u) return word * 32u + bit;
        (void)quarry_put_back(heap, span, word, 1u << bit);
        return QUARRY_NONE;
      }
    }
    if (++word == words) word = 0u;
  }
  return QUARRY_NONE;
}
