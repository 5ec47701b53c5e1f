// SPDX-License-Identifier: Apache-2.0
// A vector: elements of one size, in segments that double. An element never moves, and its index
// leads to it in constant time. Work-items push at any time. Read an element that another work-item
// pushed in a later kernel, or after a synchronisation of your own.
//
// Race: a push must not return an index whose element has no memory. A push first claims as many
// elements as it needs by a counter, which cannot exceed the elements of the segments. It then
// takes indices from a second counter. Therefore the elements of these indices have memory. A push
// that finds no memory undoes its claim. Before that no other push received an index that depends
// on it.
//
// Segments are published in their order. So if the last segment of a range is published, all of its
// segments are.
#pragma once

#include "group.cl"
#include "published.cl"

#define QUARRY_VECTOR_SEGMENTS 26u     // segment k has 32 << k elements
#define QUARRY_VECTOR_MAX 0x7fffffe0u  // elements of all segments
// Larger pushes claim by compare-and-swap. So work-items that claim at the same time exceed the
// segments' elements by so little that the counter cannot wrap.
#define QUARRY_VECTOR_SMALL_PUSH 256u

// All fields are atomics while kernels run. A vector whose fields are 0, except for element_bytes,
// is empty.
typedef struct quarry_vector {
  uint element_bytes;
  uint size;     // elements 0 up to size - 1 have memory
  uint lost;     // pushes that found no memory: a statistic
  uint claimed;  // elements that pushes have claimed or try to claim
  quarry_ref segments[QUARRY_VECTOR_SEGMENTS];
} quarry_vector;

static inline void quarry_vector_init(__global quarry_vector* vector, uint element_bytes) {
  vector->element_bytes = element_bytes;
  vector->size = vector->lost = vector->claimed = 0u;
  for (uint i = 0; i < QUARRY_VECTOR_SEGMENTS; ++i) vector->segments[i] = 0u;
}
static inline uint quarry_segment_of(uint index) { return quarry_highest_bit((index >> 5u) + 1u); }
static inline uint quarry_first_of_segment(uint segment) { return ((1u << segment) - 1u) << 5u; }
static inline ulong quarry_bytes_of_segment(__global quarry_vector* vector, uint segment) {
  return ((ulong)vector->element_bytes << 5u) << segment;
}
// Whether elements [0, end) have memory. `end` is not 0.
static inline bool quarry_vector_has(__global quarry_vector* vector, uint end) {
  return quarry_published(vector->segments + quarry_segment_of(end - 1u)) != 0u;
}

// Publishes all missing segments up to `last`. Returns false and keeps no memory if there is not
// enough. Allocates the largest segment first, since it is the likeliest to fail.
QUARRY_OUT_OF_LINE static bool quarry_vector_extend(quarry_heap heap,
                                                    __global quarry_vector* vector, uint last) {
  for (uint first = 0u; first <= last;) {
    __global uint* const at = vector->segments + first;
    if (quarry_published(at) != 0u) {
      ++first;
      continue;
    }
    bool is_first;
    if (quarry_await_published(at, 0u, &is_first) != 0u) continue;
    quarry_ref fresh[QUARRY_VECTOR_SEGMENTS];
    uint segment = last + 1u;
    for (; segment > first; --segment) {
      fresh[segment - 1u] = quarry_try_malloc(heap, quarry_bytes_of_segment(vector, segment - 1u));
      if (fresh[segment - 1u] == 0u) break;
    }
    bool const has_all = segment == first;
    for (; segment <= last; ++segment) {
      if (!has_all || !quarry_publish(vector->segments + segment, fresh[segment]))
        (void)quarry_free(heap, fresh[segment]);
    }
    if (has_all) return true;
    if (quarry_cancel(at, is_first) == 0u) return false;
  }
  return true;
}

// Claims `count` elements. Returns false and undoes its change if the segments have fewer elements
// left.
static inline bool quarry_vector_claim(__global quarry_vector* vector, uint count) {
  uint claimed = quarry_load_relaxed(&vector->claimed);
  while (claimed <= QUARRY_VECTOR_MAX && count <= QUARRY_VECTOR_MAX - claimed &&
         quarry_vector_has(vector, claimed + count)) {
    if (count > QUARRY_VECTOR_SMALL_PUSH) {
      uint const found = quarry_cas_relaxed(&vector->claimed, claimed, claimed + count);
      if (found == claimed) return true;
      claimed = found;
      continue;
    }
    uint const before = quarry_add_relaxed(&vector->claimed, count);
    if (before <= QUARRY_VECTOR_MAX - count && quarry_vector_has(vector, before + count))
      return true;
    claimed = quarry_add_relaxed(&vector->claimed, 0u - count) - count;
  }
  return false;
}

// Returns the element, or null if no push returned this index.
static inline __global void* quarry_vector_at(quarry_heap heap, __global quarry_vector* vector,
                                              uint index) {
  if (index >= quarry_load_relaxed(&vector->size)) return 0;
  uint const segment = quarry_segment_of(index);
  quarry_ref const found = quarry_published(vector->segments + segment);
  if (found == 0u) return 0;
  return (__global uchar*)quarry_at(heap, found) +
         (ulong)(index - quarry_first_of_segment(segment)) * vector->element_bytes;
}

// The segment that a push of these elements publishes ahead, so that few work-items need it at the
// same time. It is the next segment if the push has the middle element of the last segment.
// Otherwise there is no such segment.
static inline uint quarry_vector_segment_ahead(uint first, uint count) {
  uint const last = first + count - 1u, segment = quarry_segment_of(last);
  uint const middle = quarry_first_of_segment(segment) + (16u << segment);
  return first <= middle && middle <= last ? segment + 1u : QUARRY_VECTOR_SEGMENTS;
}

// Adds `count` elements, whose bytes are not set, and returns the index of the first one. Returns
// QUARRY_NONE if `count` is 0. Also returns QUARRY_NONE, counts the push as lost and records a
// fault if there is no memory or no index below 2^31 - 32. May fail because another push, which
// then fails, claims elements for a moment.
static inline uint quarry_vector_push_many(quarry_heap heap, __global quarry_vector* vector,
                                           ulong count) {
  if (count == 0u) return QUARRY_NONE;
  uint first = QUARRY_NONE;
  for (uint round = 0; round < 2u && count <= QUARRY_VECTOR_MAX;) {
    uint segment = QUARRY_VECTOR_SEGMENTS;  // the segment to publish
    if (quarry_vector_claim(vector, (uint)count)) {
      first = quarry_add_relaxed(&vector->size, (uint)count);
      segment = quarry_vector_segment_ahead(first, (uint)count);
    } else {
      uint const claimed = quarry_load_relaxed(&vector->claimed);
      if (claimed <= QUARRY_VECTOR_MAX && (uint)count <= QUARRY_VECTOR_MAX - claimed)
        segment = quarry_segment_of(claimed + (uint)count - 1u);
    }
    bool const is_published =
        segment < QUARRY_VECTOR_SEGMENTS && quarry_vector_extend(heap, vector, segment);
    if (first != QUARRY_NONE) return first;
    if (!is_published) ++round;
  }
  (void)quarry_add_relaxed(&vector->lost, 1u);
  quarry_record_out_of_memory(
      heap, count > QUARRY_VECTOR_MAX ? ~(ulong)0u : count * vector->element_bytes);
  return QUARRY_NONE;
}
static inline uint quarry_vector_push(quarry_heap heap, __global quarry_vector* vector,
                                      uint count) {
  return quarry_vector_push_many(heap, vector, count);
}

// Adds elements for all work-items of a group at once. Each work-item passes its own count, which
// may be 0. Either all work-items get their elements, or none does. `scratch`: QUARRY_GROUP_WORDS
// words of local memory.
static inline uint quarry_vector_push_group(quarry_heap heap, __global quarry_vector* vector,
                                            uint count, __local uint* scratch) {
  uint const item = quarry_local_item(), items = quarry_local_items();
  scratch[item] = count;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0u)
    scratch[items] = quarry_vector_push_many(heap, vector, quarry_sum_before(scratch, items));
  barrier(CLK_LOCAL_MEM_FENCE);
  uint const first = scratch[items], offset = scratch[item];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next call writes the scratch
  return first == QUARRY_NONE || count == 0u ? QUARRY_NONE : first + offset;
}

// Frees all elements and returns their number. Requires that no other work-item uses the vector.
static inline uint quarry_vector_clear(quarry_heap heap, __global quarry_vector* vector) {
  uint const size = vector->size;
  for (uint i = 0; i < QUARRY_VECTOR_SEGMENTS; ++i) (void)quarry_free(heap, vector->segments[i]);
  quarry_vector_init(vector, vector->element_bytes);
  return size;
}
