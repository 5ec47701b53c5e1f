// SPDX-License-Identifier: Apache-2.0
// An array list: chunks of consecutive elements, as KMA's ArrayList has them. Growing the list is
// one allocation; finding an element is O(chunks). Use an array list if work-items produce runs of
// elements that a later kernel walks. Use a vector if kernels find elements by their index.
#pragma once

#include "group.cl"
#include "list.cl"

// A chunk header; the chunk's elements follow it.
typedef struct quarry_array_chunk {
  quarry_ref next;
  uint first, count;  // the index of the chunk's first element; the number of its elements
  uint unused;
} quarry_array_chunk;

// A list whose fields are 0, except for element_bytes, is empty.
typedef struct quarry_array_list {
  uint element_bytes;
  uint size;
  quarry_ref newest;  // the newest chunk, which begins a list of all chunks
} quarry_array_list;

static inline void quarry_array_list_init(__global quarry_array_list* list, uint element_bytes) {
  list->element_bytes = element_bytes;
  list->size = 0u;
  list->newest = 0u;
}
static inline __global quarry_array_chunk* quarry_array_chunk_at(quarry_heap heap,
                                                                 quarry_ref chunk) {
  return (__global quarry_array_chunk*)quarry_at(heap, chunk);
}
static inline __global uchar* quarry_array_elements(quarry_heap heap, quarry_ref chunk) {
  return (__global uchar*)quarry_at(heap, chunk) + sizeof(quarry_array_chunk);
}

// Takes `count` indices and returns the first. Returns QUARRY_NONE and takes no index if fewer than
// `count` are left.
static inline uint quarry_array_list_take(__global quarry_array_list* list, uint count) {
  uint first = quarry_load_relaxed(&list->size);
  while (count < QUARRY_NONE - first) {
    uint const found = quarry_cas_relaxed(&list->size, first, first + count);
    if (found == first) return first;
    first = found;
  }
  return QUARRY_NONE;
}

// Adds `count` consecutive elements, whose bytes are not set, and returns their chunk. Returns null
// and adds nothing if `count` is 0. Also returns null, adds nothing and records a fault if there is
// no memory or no index below 2^32 - 2.
static inline quarry_ref quarry_array_list_grow_chunk(quarry_heap heap,
                                                      __global quarry_array_list* list,
                                                      ulong count) {
  if (count == 0u) return 0u;
  if (count >= QUARRY_NONE) {
    quarry_record_out_of_memory(heap, ~(ulong)0u);
    return 0u;
  }
  ulong const bytes = sizeof(quarry_array_chunk) + count * list->element_bytes;
  quarry_ref const chunk = quarry_malloc(heap, bytes);
  if (chunk == 0u) return 0u;
  uint const first = quarry_array_list_take(list, (uint)count);
  if (first == QUARRY_NONE) {
    (void)quarry_free(heap, chunk);
    quarry_record_out_of_memory(heap, bytes);
    return 0u;
  }
  quarry_array_chunk_at(heap, chunk)->first = first;
  quarry_array_chunk_at(heap, chunk)->count = (uint)count;
  (void)quarry_list_push(heap, &list->newest, chunk);
  return chunk;
}

// Adds `count` consecutive elements. Returns the first element and writes its index. Returns null
// and adds nothing in the cases of quarry_array_list_grow_chunk.
static inline __global void* quarry_array_list_grow(quarry_heap heap,
                                                    __global quarry_array_list* list, uint count,
                                                    uint* index) {
  quarry_ref const chunk = quarry_array_list_grow_chunk(heap, list, count);
  if (chunk == 0u) return 0;
  *index = quarry_array_chunk_at(heap, chunk)->first;
  return quarry_array_elements(heap, chunk);
}

// Adds elements for all work-items of a group by one allocation. Each work-item passes its own
// count, which may be 0. Either all work-items get their elements, or none does. `scratch`:
// QUARRY_GROUP_WORDS words of local memory.
static inline __global void* quarry_array_list_grow_local(quarry_heap heap,
                                                          __global quarry_array_list* list,
                                                          uint count, uint* index,
                                                          __local uint* scratch) {
  uint const item = quarry_local_item(), items = quarry_local_items();
  scratch[item] = count;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0u) {
    quarry_ref const fresh =
        quarry_array_list_grow_chunk(heap, list, quarry_sum_before(scratch, items));
    scratch[items] = fresh;
    scratch[items + 1u] = fresh == 0u ? 0u : quarry_array_chunk_at(heap, fresh)->first;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  quarry_ref const chunk = scratch[items];
  uint const offset = scratch[item], first = scratch[items + 1u];
  barrier(CLK_LOCAL_MEM_FENCE);  // the next call writes the scratch
  if (chunk == 0u || count == 0u) return 0;
  *index = first + offset;
  return quarry_array_elements(heap, chunk) + (ulong)offset * list->element_bytes;
}

// Returns the element with this index, or null. O(chunks).
static inline __global void* quarry_array_list_get(quarry_heap heap,
                                                   __global quarry_array_list* list, uint index) {
  for (quarry_ref chunk = quarry_load_acquire(&list->newest); chunk != 0u;
       chunk = quarry_list_next(heap, chunk)) {
    __global quarry_array_chunk* const at = quarry_array_chunk_at(heap, chunk);
    if (index - at->first < at->count)
      return quarry_array_elements(heap, chunk) + (ulong)(index - at->first) * list->element_bytes;
  }
  return 0;
}

// Frees all elements and returns their number. Requires that no other work-item uses the list.
static inline uint quarry_array_list_clear(quarry_heap heap, __global quarry_array_list* list) {
  uint const size = list->size;
  (void)quarry_list_clear(heap, &list->newest);
  list->size = 0u;
  return size;
}
