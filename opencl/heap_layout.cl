// SPDX-License-Identifier: Apache-2.0
// The memory of an OpenCL heap: one buffer, in 32-bit words. Kernels and the host compile this file.
//
//   |unused|heap state|trees|hints|tickets|page bits|large|span classes|summaries|slot bits| pages ...
//          |<------------------------------ metadata ------------------------------------>|
//
// A reference is the distance from the buffer's base in units of 16 bytes, so 32 bits name 64 GiB.
// It stays valid if the buffer moves. 0 is null. The first 4 KiB are unused, so a kernel that does not
// check for null overwrites nothing there. They are zeros, and an audit finds other values.
//
//   page   64 units (1 KiB) or 256 units (4 KiB), by the size of the heap
//   span   16 pages, aligned: slots of one size class, or free, or part of large allocations
//   slot   one small allocation; up to a quarter of a span. Larger allocations are runs of pages
//
// Invariants:
//   1. A page bit is 1 exactly while a span or a large allocation has the page, a work-item tries
//      to claim it, or the buffer does not have it.
//   2. The slot bits of a span are all 1 unless the span is open. In an open span, bit i of its
//      class's slots is 1 exactly while slot i is allocated or a work-item tries to claim it; all
//      other bits of the words in use are 1.
//   3. The class of a span changes only while one work-item holds all of its slot bits.
//   4. If an open span has a free slot, then its summary has the bit of the slot's word, and the
//      class's tree has the bit of the span, or a work-item is about to set them.
//   5. If an open span has no allocated slot, then the tree of empty spans has its bit, or a
//      work-item is about to set it or to close the span. The tree may have other spans, too.
#pragma once

#define QUARRY_OPENCL_MAGIC 0x51435241u
#define QUARRY_OPENCL_LAYOUT 4u

#define QUARRY_UNIT 16u           // bytes
#define QUARRY_UNUSED_BYTES 4096u // behind the null reference; a multiple of QUARRY_UNIT
#define QUARRY_PAGES_PER_SPAN 16u
#define QUARRY_MAX_CLASSES 64u
#define QUARRY_TREE_LEVELS 3
#define QUARRY_NONE 0xffffffffu
#define QUARRY_OUT_OF_LINE __attribute__((noinline, unused))
#ifdef __OPENCL_VERSION__
#define QUARRY_NOT_UNROLLED _Pragma("unroll 1")  // PoCL inlines all functions, so code size is compile time
#else
#define QUARRY_NOT_UNROLLED
#endif

// What a fault record can say.
#define QUARRY_FAULT_OUT_OF_MEMORY 1u
#define QUARRY_FAULT_DOUBLE_FREE 2u
#define QUARRY_FAULT_INTERIOR_REFERENCE 3u
#define QUARRY_FAULT_FOREIGN_REFERENCE 4u
#define QUARRY_FAULT_STALLED 5u
#define QUARRY_FAULT_OVERRUN 6u  // in debug heaps
#define QUARRY_FAULT_KINDS 7u

// A set of numbers below `count`: bit i of level 0 is 1 for each member i. A bit of level l + 1 says
// that a word of level l is not 0, except for a moment.
typedef struct quarry_tree {
  unsigned int count;
  unsigned int first[QUARRY_TREE_LEVELS];  // word offsets from the buffer's base, or from the tree's first word
  unsigned int words[QUARRY_TREE_LEVELS];
} quarry_tree;

typedef struct quarry_heap_state {
  unsigned int unused[QUARRY_UNUSED_BYTES / 4u];

  // From here to the trees no kernel writes: the host knows these words from its plan.
  unsigned int magic;
  unsigned int layout;
  unsigned int units;           // of the whole buffer, which may grow
  unsigned int page_shift;      // log2 of a page's units
  unsigned int pages;           // a multiple of QUARRY_PAGES_PER_SPAN
  unsigned int usable_pages;    // the buffer has these; the others lie where it may grow to
  unsigned int spans;
  unsigned int first_unit;      // of page 0; a multiple of a page
  unsigned int classes;
  unsigned int place_mask;      // each class has place_mask + 1 hints; see places.cl
  unsigned int area_mask;       // and area_mask + 1 tickets
  unsigned int slot_words;      // words of slot bits of each span
  unsigned int summary_words;   // words of its summary: a bit for each word of slot bits
  unsigned int lease_words;     // a power of two up to 32; see places.cl
  unsigned int claims_unread;   // 1: malloc claims a bit before it reads the word
  unsigned int has_trailers;    // 1: a debug heap; see trailer.cl

  // Word offsets from the buffer's base.
  unsigned int class_trees;     // a tree of spans for each class; the levels of one class lie together
  unsigned int class_tree_words;
  unsigned int empty_tree;      // another one: the spans that may be empty
  unsigned int hints;
  unsigned int tickets;
  unsigned int openers;         // work-items that open a span for that area
  unsigned int page_bits;
  unsigned int large_pages;     // at the first page of a large allocation: its pages. Else 0
  unsigned int span_classes;    // class + 1; 0: not open
  unsigned int summaries;
  unsigned int slot_bits;
  unsigned int words;           // of all metadata

  quarry_tree page_tree;        // page words that are not full
  quarry_tree span_tree;        // the shape of these trees, relative to their first words

  unsigned int top_span;        // above all spans that were ever open, or a few below that
  unsigned int used_pages;      // an estimate: claims and frees change it a moment later
  unsigned int reclaiming;      // work-items that close empty spans now

  // The first fault, and how many there were of each kind.
  unsigned int fault_kind;
  unsigned int fault_bytes;     // requested; QUARRY_NONE: 4 GiB or more
  unsigned int fault_reference;
  unsigned int fault_group;
  unsigned int fault_item;
  unsigned int fault_counts[QUARRY_FAULT_KINDS];

  unsigned int allocations_made;  // of debug heaps, modulo 2^32
} quarry_heap_state;
