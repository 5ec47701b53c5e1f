// SPDX-License-Identifier: Apache-2.0
// Pages: claims of spans and of runs of pages. A claim sets the bits of one word after the other, from
// the last word to the first. If another work-item has one of them, it clears those that it set, and
// looks behind the page that the other one has; so no work-item waits. Claims begin with the last
// word because runs that begin at one page then meet at their ends: the second claim looks behind the
// first one's last page, and leaves no gap.
//
// Memory order. (F) clears page bits after the last access of their owner; (P) sets them before the
// first access of the next one. The bits change only by RMWs, so (P) synchronizes with (F).
#pragma once

#include "heap_layout.cl"
#include "tree.cl"

typedef __global quarry_heap_state* quarry_heap;  // the buffer's base

// A field of the heap state that no kernel changes.
#define QUARRY_LAYOUT(heap, field) quarry_load_constant(&(heap)->field)

static inline __global uint* quarry_words(quarry_heap heap) { return (__global uint*)heap; }
static inline __global uint* quarry_page_word(quarry_heap heap, uint word) {
  return quarry_words(heap) + QUARRY_LAYOUT(heap, page_bits) + word;
}
static inline uint quarry_page_words(quarry_heap heap) { return QUARRY_LAYOUT(heap, page_tree.count); }

// Clears page bits of one word.
static inline void quarry_free_page_bits(quarry_heap heap, uint word, uint bits) {
  if (QUARRY_ATOMIC(and, QUARRY_ORDER_F)(quarry_page_word(heap, word), ~bits) == ~0u)  // (F)
    quarry_tree_insert(quarry_words(heap), &heap->page_tree, word);
}

// Sets page bits of one word. Returns 0; or those of them that were set before, and then changes
// nothing for longer than a moment.
static inline uint quarry_claim_page_bits(quarry_heap heap, uint word, uint bits) {
  __global uint* const at = quarry_page_word(heap, word);
  uint const before = QUARRY_ATOMIC(or, QUARRY_ORDER_P)(at, bits);  // (P)
  if ((before & bits) != 0u) {
    if ((before & bits) != bits) quarry_free_page_bits(heap, word, bits & ~before);
    return before & bits;
  }
  if ((before | bits) == ~0u) {
    quarry_tree_remove(quarry_words(heap), &heap->page_tree, word);
    if (quarry_load_relaxed(at) != ~0u)  // a page was freed before the removal
      quarry_tree_insert(quarry_words(heap), &heap->page_tree, word);
  }
  return 0u;
}

// The bits of pages [first, first + count) in `word`.
static inline uint quarry_bits_in_word(uint first, uint count, uint word) {
  uint const low = first > word * 32u ? first - word * 32u : 0u;
  uint const end = min(first + count - word * 32u, 32u);
  return (end - low == 32u ? ~0u : (1u << (end - low)) - 1u) << low;
}

static inline void quarry_free_run(quarry_heap heap, uint first, uint count) {
  for (uint word = first >> 5u; word <= (first + count - 1u) >> 5u; ++word)
    quarry_free_page_bits(heap, word, quarry_bits_in_word(first, count, word));
}

// Frees pages that quarry_claim_span or quarry_claim_pages returned.
static inline void quarry_free_pages(quarry_heap heap, uint first, uint count) {
  (void)quarry_add_relaxed(&heap->used_pages, 0u - count);
  quarry_free_run(heap, first, count);
}

// Claims pages [first, first + count). Returns QUARRY_NONE; or, with nothing claimed, the last page
// that another work-item has.
static inline uint quarry_claim_run(quarry_heap heap, uint first, uint count) {
  uint const end = first + count;
  for (uint word = (end - 1u) >> 5u;; --word) {
    uint const taken = quarry_claim_page_bits(heap, word, quarry_bits_in_word(first, count, word));
    if (taken != 0u) {
      uint const behind = word * 32u + 32u;
      if (behind < end) quarry_free_run(heap, behind, end - behind);
      return word * 32u + quarry_highest_bit(taken);
    }
    if (word == first >> 5u) return QUARRY_NONE;
  }
}

// Claims a span: the lowest one that is free, or for areas above 0 one not far above it, so that
// several areas open spans without meeting. Returns QUARRY_NONE if no 16 pages of one span are free.
static inline uint quarry_claim_span(quarry_heap heap, uint area) {
  uint const words = quarry_page_words(heap);
  uint const lowest = quarry_tree_next(quarry_words(heap), &heap->page_tree, 0u);
  if (lowest >= words) return QUARRY_NONE;
  for (uint pass = 0; pass < 2u; ++pass) {
    uint word = pass == 0u ? lowest + area : lowest;
    while ((word = quarry_tree_next(quarry_words(heap), &heap->page_tree, word)) < words) {
      uint const used = quarry_load_relaxed(quarry_page_word(heap, word));
      for (uint side = 0; side < 2u; ++side) {
        uint const bits = 0xffffu << (side * 16u);
        if ((used & bits) != 0u || quarry_claim_page_bits(heap, word, bits) != 0u) continue;
        (void)quarry_add_relaxed(&heap->used_pages, QUARRY_PAGES_PER_SPAN);
        return word * 2u + side;
      }
      ++word;
    }
    if (area == 0u) break;
  }
  return QUARRY_NONE;
}

// Claims `count` consecutive pages: the first run that is long enough. Returns QUARRY_NONE if there
// is none. A run that another work-item claims meanwhile is skipped, and `met` becomes true.
static inline uint quarry_claim_pages(quarry_heap heap, uint count, bool* met) {
  uint const words = quarry_page_words(heap);
  uint start = 0u, length = 0u;  // of the free run that ends before `page`
  uint page = 0u;
  while (page < words * 32u) {
    uint const word = page >> 5u;
    if (length == 0u && (page & 31u) == 0u) {  // skips words that are full
      uint const next = quarry_tree_next(quarry_words(heap), &heap->page_tree, word);
      if (next >= words) return QUARRY_NONE;
      if (next != word) {
        page = next * 32u;
        continue;
      }
    }
    uint const used = quarry_load_relaxed(quarry_page_word(heap, word)) >> (page & 31u);
    if ((used & 1u) != 0u) {  // to the next free page of this word, or to the next word
      uint const others = ~used;
      uint const left = 32u - (page & 31u);
      uint const skip = others == 0u ? 32u : quarry_lowest_bit(others);
      page += min(skip, left);
      length = 0u;
      continue;
    }
    uint const left = 32u - (page & 31u);
    uint const free = used == 0u ? left : min(quarry_lowest_bit(used), left);
    if (length == 0u) start = page;
    length += free;
    page += free;
    if (length < count) continue;
    uint const taken = quarry_claim_run(heap, start, count);
    if (taken == QUARRY_NONE) {
      (void)quarry_add_relaxed(&heap->used_pages, count);
      return start;
    }
    *met = true;
    page = taken + 1u;
    length = 0u;
  }
  return QUARRY_NONE;
}
