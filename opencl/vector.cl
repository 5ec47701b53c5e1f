// SPDX-License-Identifier: Apache-2.0
// A vector: elements of one size, in segments that double. An element never moves, and is found from
// its index at once. Work-items push at any time; read an element that another work-item pushed in a
// later kernel, or after a synchronisation of your own.
#pragma once

#include "group.cl"

#define QUARRY_VECTOR_SEGMENTS 27u  // segment k has 32 << k elements
#define QUARRY_ALLOCATING 1u  // in place of a segment; lies in the heap state, so it is no allocation
#define QUARRY_LOOKS_AT_SEGMENT 1024u

// The fields are atomics while kernels run. A vector of zeros, but for element_bytes, is empty.
typedef struct quarry_vector {
  uint element_bytes;
  uint size;  // indices given away
  uint lost;  // of these, pushes that found no memory
  quarry_ref segments[QUARRY_VECTOR_SEGMENTS];
} quarry_vector;

static inline void quarry_vector_init(__global quarry_vector* vector, uint element_bytes) {
  vector->element_bytes = element_bytes;
  vector->size = 0u;
  vector->lost = 0u;
  for (uint i = 0; i < QUARRY_VECTOR_SEGMENTS; ++i) vector->segments[i] = 0u;
}
static inline uint quarry_segment_of(uint index) { return quarry_highest_bit((index >> 5u) + 1u); }
static inline uint quarry_first_of_segment(uint segment) { return ((1u << segment) - 1u) << 5u; }

// The segment, allocated if it is not there. Returns null if there is no memory. One work-item
// allocates; the others look for its result a bounded number of times, and then allocate, too. Who
// comes second frees its memory again.
static inline quarry_ref quarry_vector_ensure_segment(quarry_heap heap, __global quarry_vector* vector, uint segment) {
  __global uint* const at = vector->segments + segment;
  quarry_ref found = quarry_load_acquire(at);
  if (found > QUARRY_ALLOCATING) return found;
  bool const is_first = found == 0u && quarry_cas_relaxed(at, 0u, QUARRY_ALLOCATING) == 0u;
  for (uint look = 0; !is_first && look < QUARRY_LOOKS_AT_SEGMENT; ++look) {
    found = quarry_load_acquire(at);
    if (found > QUARRY_ALLOCATING) return found;
    if (found == 0u) break;  // the first one found no memory
  }
  quarry_ref const fresh = quarry_malloc(heap, ((ulong)vector->element_bytes << 5u) << segment);
  if (fresh == 0u) {
    if (is_first) (void)quarry_cas_relaxed(at, QUARRY_ALLOCATING, 0u);
    found = quarry_load_acquire(at);
    return found > QUARRY_ALLOCATING ? found : 0u;
  }
  for (found = quarry_load_acquire(at); found <= QUARRY_ALLOCATING;) {
    quarry_ref const now = quarry_cas_acq_rel(at, found, fresh);
    if (now == found) return fresh;
    found = now;
  }
  (void)quarry_free(heap, fresh);
  return found;
}

// The element, or a null pointer if the index was not pushed or its push found no memory.
static inline __global void* quarry_vector_at(quarry_heap heap, __global quarry_vector* vector, uint index) {
  if (index >= quarry_load_relaxed(&vector->size)) return 0;
  uint const segment = quarry_segment_of(index);
  quarry_ref const found = quarry_load_acquire(vector->segments + segment);
  if (found <= QUARRY_ALLOCATING) return 0;
  return (__global uchar*)quarry_at(heap, found) +
         (ulong)(index - quarry_first_of_segment(segment)) * vector->element_bytes;
}

// Makes the memory of elements [first, first + count) available. Returns false if there is not
// enough. The work-item in the middle of a segment allocates the next one, so that few need it at once.
static inline bool quarry_vector_provide(quarry_heap heap, __global quarry_vector* vector, uint first, uint count) {
  for (uint segment = quarry_segment_of(first); segment <= quarry_segment_of(first + count - 1u); ++segment) {
    uint const begin = quarry_first_of_segment(segment), middle = begin + (16u << segment);
    if (first <= middle && middle < first + count && segment + 1u < QUARRY_VECTOR_SEGMENTS)
      (void)quarry_vector_ensure_segment(heap, vector, segment + 1u);
    if (quarry_vector_ensure_segment(heap, vector, segment) == 0u) return false;
  }
  return true;
}

// Adds `count` elements, whose bytes are not set. Returns the index of the first; QUARRY_NONE if there
// is no memory: then these indices stay without elements, and `lost` counts them.
static inline uint quarry_vector_push(quarry_heap heap, __global quarry_vector* vector, uint count) {
  if (count == 0u) return QUARRY_NONE;
  uint const first = quarry_add_relaxed(&vector->size, count);
  if (quarry_vector_provide(heap, vector, first, count)) return first;
  (void)quarry_add_relaxed(&vector->lost, count);
  return QUARRY_NONE;
}

// The same for all work-items of a group at once, each with a count of its own, 0 included.
// `scratch`: QUARRY_GROUP_WORDS words of local memory.
static inline uint quarry_vector_push_group(quarry_heap heap, __global quarry_vector* vector, uint count,
                                            __local uint* scratch) {
  uint const item = (uint)get_local_id(0), items = (uint)get_local_size(0);
  scratch[item] = count;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0u) {
    uint total = 0u;
    for (uint i = 0; i < items; ++i) {
      uint const one = scratch[i];
      scratch[i] = total;
      total += one;
    }
    scratch[items] = quarry_vector_push(heap, vector, total);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  uint const first = scratch[items], offset = scratch[item];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next call writes the scratch
  return first == QUARRY_NONE || count == 0u ? QUARRY_NONE : first + offset;
}

// Frees all elements. No other work-item may use the vector meanwhile.
static inline void quarry_vector_clear(quarry_heap heap, __global quarry_vector* vector) {
  for (uint i = 0; i < QUARRY_VECTOR_SEGMENTS; ++i) (void)quarry_free(heap, vector->segments[i]);
  quarry_vector_init(vector, vector->element_bytes);
}
