// SPDX-License-Identifier: Apache-2.0
// The memory of an OpenCL heap: one buffer of 32-bit words. Kernels and the host compile this
// file.
//
//   |unused|heap state|trees|hints|tickets|page bits|large|span classes|summaries|slot bits|pages
//          |<------------------------------ metadata ------------------------------------>|
//
// A reference is the distance from the buffer's base in units of 16 bytes, so 32 bits name 64 GiB.
// A reference stays valid if the buffer moves. Reference 0 is null. The first 4 KiB are unused
// zeros: a kernel that does not check for null overwrites no data there, and an audit finds the
// overwritten zeros.
//
//   page   64 units (1 KiB) or 256 units (4 KiB), by the size of the heap
//   span   16 pages, aligned. A span has slots of one size class, or is free, or belongs to large
//          allocations
//   slot   a small allocation, up to a quarter of a span. A larger allocation is a run of pages
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
#define QUARRY_OPENCL_LAYOUT 5u

#define QUARRY_UNIT 16u            // bytes
#define QUARRY_UNUSED_BYTES 4096u  // at the null reference; a multiple of QUARRY_UNIT
#define QUARRY_PAGES_PER_SPAN 16u
#define QUARRY_MAX_CLASSES 64u
#define QUARRY_TREE_LEVELS 3
#define QUARRY_NONE 0xffffffffu
#define QUARRY_OUT_OF_LINE __attribute__((noinline, unused))
#ifdef __OPENCL_VERSION__
// PoCL inlines all functions, so code size is compile time.
#define QUARRY_NOT_UNROLLED _Pragma("unroll 1")
#else
#define QUARRY_NOT_UNROLLED
#endif

// The kinds of faults.
#define QUARRY_FAULT_OUT_OF_MEMORY 1u
#define QUARRY_FAULT_DOUBLE_FREE 2u
#define QUARRY_FAULT_INTERIOR_REFERENCE 3u
#define QUARRY_FAULT_FOREIGN_REFERENCE 4u
#define QUARRY_FAULT_OVERRUN 5u  // only in debug heaps
#define QUARRY_FAULT_KINDS 6u

// A set of numbers below `count`: bit i of level 0 is 1 if i is a member. A bit of level l + 1 says
// that a word of level l is not 0; it may be wrong for a moment.
typedef struct quarry_tree {
  unsigned int count;
  // Word offsets from the buffer's base, or from the tree's first word.
  unsigned int first[QUARRY_TREE_LEVELS];
  unsigned int words[QUARRY_TREE_LEVELS];
} quarry_tree;

typedef struct quarry_heap_state {
  unsigned int unused[QUARRY_UNUSED_BYTES / 4u];

  // No kernel writes the words from here to the trees, and the host knows them from its plan.
  unsigned int magic;
  unsigned int layout;
  unsigned int units;         // of the whole buffer, which may grow
  unsigned int page_shift;    // log2 of a page's units
  unsigned int pages;         // a multiple of QUARRY_PAGES_PER_SPAN
  unsigned int usable_pages;  // pages that the buffer has; the others are for its growth
  unsigned int spans;
  unsigned int first_unit;  // the first unit of page 0; a multiple of a page
  unsigned int classes;
  unsigned int place_mask;     // each class has place_mask + 1 hints; see places.cl
  unsigned int area_mask;      // each class has area_mask + 1 tickets
  unsigned int slot_words;     // words of slot bits of each span
  unsigned int summary_words;  // words of each span's summary: a bit for each word of slot bits
  unsigned int lease_words;    // a power of two up to 32; see places.cl
  unsigned int claims_unread;  // 1: malloc claims a bit before it reads the word
  unsigned int has_trailers;   // 1: a debug heap; see trailer.cl

  // Word offsets from the buffer's base.
  unsigned int class_trees;  // a tree of spans for each class; the levels of one class lie together
  unsigned int class_tree_words;
  unsigned int empty_tree;  // a tree of the spans that may be empty
  unsigned int hints;
  unsigned int tickets;
  unsigned int openers;  // for each ticket: work-items that open a span for its area
  unsigned int page_bits;
  unsigned int large_pages;   // for each page: of the large allocation that begins there; 0: none
  unsigned int span_classes;  // for each span: its class + 1, or 0 if it is not open
  unsigned int summaries;
  unsigned int slot_bits;
  unsigned int words;  // of all metadata

  quarry_tree page_tree;  // page words that are not full
  quarry_tree span_tree;  // the class trees and the empty tree, relative to their first words

  unsigned int top_span;    // an estimate of the number above all spans that were ever open
  unsigned int used_pages;  // an estimate: claims and frees change this count later
  unsigned int reclaiming;  // work-items that close empty spans now

  // The first fault, and the number of faults of each kind.
  unsigned int fault_kind;
  unsigned int fault_bytes;  // requested; QUARRY_NONE: 4 GiB or more
  unsigned int fault_reference;
  unsigned int fault_group;
  unsigned int fault_item;
  unsigned int fault_counts[QUARRY_FAULT_KINDS];

  unsigned int allocations_made;  // in debug heaps, modulo 2^32
} quarry_heap_state;
