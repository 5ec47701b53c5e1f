// SPDX-License-Identifier: Apache-2.0
// An array list: chunks of consecutive elements. (Seed: KMA's ArrayList.) Growing it is one
// allocation; finding an element is O(chunks). Use it where work-items produce runs of elements that
// a later kernel walks; use a vector where elements are found from their index.
#pragma once

#include "group.cl"
#include "list.cl"

// A chunk's elements follow it.
typedef struct quarry_array_chunk {
  quarry_ref next;
  uint first, count;  // indices of its elements
  uint unused;
} quarry_array_chunk;

// A list of zeros, but for element_bytes, is empty.
typedef struct quarry_array_list {
  uint element_bytes;
  uint size;
  quarry_ref newest;  // a list of chunks
} quarry_array_list;

static inline void quarry_array_list_init(__global quarry_array_list* list, uint element_bytes) {
  list->element_bytes = element_bytes;
  list->size = 0u;
  list->newest = 0u;
}
static inline __global quarry_array_chunk* quarry_array_chunk_at(quarry_heap heap, quarry_ref chunk) {
  return (__global quarry_array_chunk*)quarry_at(heap, chunk);
}
static inline __global uchar* quarry_array_elements(quarry_heap heap, quarry_ref chunk) {
  return (__global uchar*)quarry_at(heap, chunk) + sizeof(quarry_array_chunk);
}

// Adds `count` consecutive elements, whose bytes are not set. Returns the first, and writes its index;
// a null pointer if `count` is 0 or there is no memory: then nothing changes.
static inline __global void* quarry_array_list_grow(quarry_heap heap, __global quarry_array_list* list, uint count,
                                                    uint* index) {
  if (count == 0u) return 0;
  quarry_ref const chunk = quarry_malloc(heap, sizeof(quarry_array_chunk) + (ulong)count * list->element_bytes);
  if (chunk == 0u) return 0;
  *index = quarry_add_relaxed(&list->size, count);
  quarry_array_chunk_at(heap, chunk)->first = *index;
  quarry_array_chunk_at(heap, chunk)->count = count;
  quarry_list_push(heap, &list->newest, chunk);
  return quarry_array_elements(heap, chunk);
}

// The same for all work-items of a group by one allocation, each with a count of its own, 0 included.
// `scratch`: QUARRY_GROUP_WORDS words of local memory.
static inline __global void* quarry_array_list_grow_local(quarry_heap heap, __global quarry_array_list* list,
                                                          uint count, uint* index, __local uint* scratch) {
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
    uint first = 0u;
    __global uchar* const elements = (__global uchar*)quarry_array_list_grow(heap, list, total, &first);
    scratch[items] = first;
    scratch[items + 1u] = elements == 0 ? 0u : (uint)((elements - (__global uchar*)heap) / QUARRY_UNIT);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  uint const offset = scratch[item], first = scratch[items];
  quarry_ref const elements = scratch[items + 1u];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next call writes the scratch
  if (elements == 0u || count == 0u) return 0;
  *index = first + offset;
  return (__global uchar*)quarry_at(heap, elements) + (ulong)offset * list->element_bytes;
}

// The element, or a null pointer. O(chunks).
static inline __global void* quarry_array_list_get(quarry_heap heap, __global quarry_array_list* list, uint index) {
  for (quarry_ref chunk = quarry_load_acquire(&list->newest); chunk != 0u; chunk = quarry_list_next(heap, chunk)) {
    __global quarry_array_chunk* const at = quarry_array_chunk_at(heap, chunk);
    if (index - at->first < at->count)
      return quarry_array_elements(heap, chunk) + (ulong)(index - at->first) * list->element_bytes;
  }
  return 0;
}

// Frees all elements. No other work-item may use the list meanwhile.
static inline void quarry_array_list_clear(quarry_heap heap, __global quarry_array_list* list) {
  (void)quarry_list_clear(heap, &list->newest);
  list->size = 0u;
}
