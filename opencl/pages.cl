// SPDX-License-Identifier: Apache-2.0
// Pages: claims of spans and of runs of pages.
//
// Race: two claims may want the same page. A claim sets the bits of one word after the other, from
// the last word to the first. If another work-item has a page of the run, the claim clears its own
// bits, and searches behind that page. So no work-item waits. Claims begin with the last word,
// because two runs that begin at one page then meet at their ends. The second claim continues
// behind the last page of the first one, so no gap remains between them.
//
// Memory order. Page bits change only by RMWs.
//
//   label  statement                        partner  guarantee
//   (F)    a free clears the bits, release  (P)      the owner's accesses happen before
//   (P)    a claim sets the bits, acquire   (F)      the next owner's accesses
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
static inline uint quarry_page_words(quarry_heap heap) {
  return QUARRY_LAYOUT(heap, page_tree.count);
}

// Clears page bits of one word.
static inline void quarry_free_page_bits(quarry_heap heap, uint word, uint bits) {
  if (QUARRY_ATOMIC(and, F)(quarry_page_word(heap, word), ~bits) == ~0u)  // (F)
    quarry_tree_insert(quarry_words(heap), &heap->page_tree, word);
}

// Sets page bits of one word. Returns 0 if all these bits were clear. Otherwise returns the bits
// that were set before, and undoes its own change.
static inline uint quarry_claim_page_bits(quarry_heap heap, uint word, uint bits) {
  __global uint* const at = quarry_page_word(heap, word);
  uint const before = QUARRY_ATOMIC(or, P)(at, bits);  // (P)
  if ((before & bits) != 0u) {
    if ((before & bits) != bits) quarry_free_page_bits(heap, word, bits & ~before);
    return before & bits;
  }
  if ((before | bits) == ~0u) {
    quarry_tree_remove(quarry_words(heap), &heap->page_tree, word);
    if (quarry_load_relaxed(at) != ~0u)  // a page was freed before this work-item removed the word
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

// Frees pages that quarry_claim_span or quarry_claim_pages claimed.
static inline void quarry_free_pages(quarry_heap heap, uint first, uint count) {
  (void)quarry_add_relaxed(&heap->used_pages, 0u - count);
  quarry_free_run(heap, first, count);
}

// Claims the pages [first, first + count). Returns QUARRY_NONE if it claimed them. Otherwise claims
// nothing and returns the last page that another work-item has.
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

// Claims the lowest free span. For areas above 0, claims a span not far above it, so that several
// areas open spans without a conflict. Returns QUARRY_NONE if no span has 16 free pages.
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

// Claims the first run of `count` consecutive free pages. Returns QUARRY_NONE if there is no such
// run. Skips a run that another work-item claims at the same time, and then sets `met`.
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
