// SPDX-License-Identifier: Apache-2.0
// Allocations of a whole work-group: one claim serves up to 32 work-items. Each work-item gets an
// allocation of its own, and any work-item may free it.
//
// All work-items of the group must call, the same number of times. They may pass different heaps.
// On GPUs whose sub-groups claim together, the group needs only the barrier, so that the work-items
// call at the same time. Elsewhere one work-item of 32 claims for those that pass the same heap,
// and the other work-items allocate alone.
//
// Pass the scratch memory as an argument of the kernel. PoCL 3.1 may give an array that a kernel
// declares as __local to two groups on two threads at the same time.
#pragma once

#include "heap.cl"

#define QUARRY_NOTHING 0xffffffffffffffffUL  // as a size: the work-item requests no memory

// The words of local memory that quarry_malloc_group needs for a group of `size` work-items.
#define QUARRY_GROUP_WORDS(size) (2u * (size) + 2u)

// Replaces each of `count` numbers by the sum of the numbers before it, modulo 2^32. Returns the
// sum of all numbers.
static inline ulong quarry_sum_before(__local uint* numbers, uint count) {
  ulong total = 0u;
  for (uint i = 0; i < count; ++i) {
    uint const one = numbers[i];
    numbers[i] = (uint)total;
    total += one;
  }
  return total;
}

#if !defined(QUARRY_AS_CPP) && QUARRY_TIER == 2

static inline quarry_ref quarry_malloc_group(quarry_heap heap, ulong bytes, __local uint* scratch) {
  (void)scratch;
  barrier(CLK_LOCAL_MEM_FENCE);
  return bytes == QUARRY_NOTHING ? 0u : quarry_malloc(heap, bytes);
}

#else

// A class is below 64. So its word has room for the lower half of the heap's address without the 6
// lowest bits; two heaps are never closer than 64 bytes. Before the claim, `references` has the
// upper half of the address.
static inline uint quarry_low_address(quarry_heap heap) {
  return (uint)(ulong)heap & ~(QUARRY_MAX_CLASSES - 1u);
}
static inline uint quarry_high_address(quarry_heap heap) { return (uint)((ulong)heap >> 32u); }

// Keeps the classes of those work-items in [first, end) that pass `heap`. Sets the class of each
// other work-item to QUARRY_NONE, and its reference, too, if it had a class.
static inline void quarry_select_heap(quarry_heap heap, uint first, uint end, __local uint* classes,
                                      __local uint* references) {
  uint const low = quarry_low_address(heap), high = quarry_high_address(heap);
  for (uint item = first; item < end; ++item) {
    uint const word = classes[item];
    if (word == QUARRY_NONE) continue;
    bool const is_same = references[item] == high && (word & ~(QUARRY_MAX_CLASSES - 1u)) == low;
    classes[item] = is_same ? word & (QUARRY_MAX_CLASSES - 1u) : QUARRY_NONE;
    if (!is_same) references[item] = QUARRY_NONE;
  }
}

// Claims slots for the work-items [first, end), whose classes, or QUARRY_NONE, are in `classes`.
// Writes their references; a reference is 0 if no memory was found.
static inline void quarry_claim_for(quarry_heap heap, uint first, uint end, __local uint* classes,
                                    __local uint* references) {
  uint const shift = quarry_span_shift(heap);
  for (uint item = first; item < end; ++item) {
    uint const id = classes[item];
    if (id == QUARRY_NONE) continue;
    uint wanted = 0u;
    for (uint other = item; other < end; ++other) wanted += classes[other] == id ? 1u : 0u;
    uint const units = quarry_units_of_class(id, shift);
    quarry_slots found = {0u, 0u, 0u};
    bool is_out = false;
    for (uint other = item; other < end; ++other) {
      if (classes[other] != id) continue;
      classes[other] = QUARRY_NONE;
      if (found.bits == 0u && !is_out) {
        found = quarry_claim_or_reclaim(heap, id, wanted);
        is_out = found.bits == 0u;
      }
      references[other] = 0u;
      --wanted;
      if (is_out) continue;
      references[other] = quarry_base_of_span(heap, found.span) +
                          (found.word * 32u + quarry_lowest_bit(found.bits)) * units;
      found.bits &= found.bits - 1u;
    }
  }
}

// Allocates `bytes` bytes for each work-item, as quarry_malloc does. For QUARRY_NOTHING it returns
// null and records no fault. `scratch`: QUARRY_GROUP_WORDS words of local memory.
static inline quarry_ref quarry_malloc_group(quarry_heap heap, ulong bytes, __local uint* scratch) {
  uint const item = quarry_local_item(), items = quarry_local_items();
  __local uint* const classes = scratch;
  __local uint* const references = scratch + items;
  ulong const padded = quarry_padded(heap, bytes);
  uint const units = padded > quarry_max_bytes(heap) ? 0u : quarry_units_of(padded);
  bool const is_small = units != 0u && units <= 1u << (quarry_span_shift(heap) - 2u);
  classes[item] = QUARRY_NONE;
  if (is_small)
    classes[item] = quarry_class_of(units, quarry_span_shift(heap)) | quarry_low_address(heap);
  references[item] = quarry_high_address(heap);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item % 32u == 0u) {
    uint const end = min(item + 32u, items);
    quarry_select_heap(heap, item, end, classes, references);
    quarry_claim_for(heap, item, end, classes, references);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  quarry_ref const result = references[item];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next call writes the scratch
  if (is_small && result != QUARRY_NONE) {
    if (result == 0u) quarry_record_out_of_memory(heap, bytes);
    return quarry_with_trailer(heap, result, bytes);
  }
  return bytes == QUARRY_NOTHING ? 0u : quarry_malloc(heap, bytes);
}

#endif
