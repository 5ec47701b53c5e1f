// SPDX-License-Identifier: Apache-2.0
// A queue of 32-bit values, references for one. Any work-items push and pop at once; nobody waits. A
// pop may report «empty» while the oldest push is not complete.
//
// A queue is a list of chunks. A push takes the next place of the last chunk by a counter, writes the
// value and then says that it is ready. A pop moves the counter of the first chunk if the value there
// is ready. Chunks that are used up stay allocated, because a slow work-item may still look at
// them, until quarry_queue_trim or quarry_queue_clear.
#pragma once

#include "heap.cl"

#define QUARRY_QUEUE_PLACES 62u  // a chunk has 512 bytes

typedef struct quarry_queue_chunk {
  quarry_ref next;
  uint pushed;  // places taken; may exceed the number of places
  uint popped;
  uint number;  // of chunks before it
  uint values[QUARRY_QUEUE_PLACES];
  uint ready[QUARRY_QUEUE_PLACES];
} quarry_queue_chunk;

// The fields are atomics while kernels run. A queue of zeros is empty.
typedef struct quarry_queue {
  quarry_ref oldest;  // all chunks that are allocated
  quarry_ref first;   // where pops look
  quarry_ref last;    // where pushes look; may be behind
} quarry_queue;

static inline __global quarry_queue_chunk* quarry_queue_chunk_at(quarry_heap heap, quarry_ref chunk) {
  return (__global quarry_queue_chunk*)quarry_at(heap, chunk);
}

// The chunk behind `chunk`, allocated if there is none; the first one if `chunk` is null. Returns null
// if there is no memory.
static inline quarry_ref quarry_queue_extend(quarry_heap heap, __global quarry_queue* queue, quarry_ref chunk) {
  __global uint* const link = chunk == 0u ? &queue->oldest : &quarry_queue_chunk_at(heap, chunk)->next;
  quarry_ref next = quarry_load_acquire(link);
  if (next == 0u) {
    quarry_ref const fresh = quarry_malloc(heap, sizeof(quarry_queue_chunk));
    if (fresh == 0u) return quarry_load_acquire(link);
    __global quarry_queue_chunk* const at = quarry_queue_chunk_at(heap, fresh);
    at->next = at->pushed = at->popped = 0u;
    at->number = chunk == 0u ? 0u : quarry_queue_chunk_at(heap, chunk)->number + 1u;
    for (uint i = 0; i < QUARRY_QUEUE_PLACES; ++i) at->ready[i] = 0u;
    next = quarry_cas_acq_rel(link, 0u, fresh);
    if (next == 0u) next = fresh;
    else (void)quarry_free(heap, fresh);
  }
  (void)quarry_cas_acq_rel(&queue->last, chunk, next);
  if (chunk == 0u) (void)quarry_cas_acq_rel(&queue->first, 0u, next);
  return next;
}

// Adds a value. Returns false if there is no memory; then nothing changes.
static inline bool quarry_queue_push(quarry_heap heap, __global quarry_queue* queue, uint value) {
  quarry_ref chunk = quarry_load_acquire(&queue->last);
  for (;;) {
    if (chunk != 0u) {
      __global quarry_queue_chunk* const at = quarry_queue_chunk_at(heap, chunk);
      if (quarry_load_relaxed(&at->pushed) < QUARRY_QUEUE_PLACES) {
        uint const place = quarry_add_relaxed(&at->pushed, 1u);
        if (place < QUARRY_QUEUE_PLACES) {
          quarry_store_relaxed(&at->values[place], value);
          quarry_store_release(&at->ready[place], 1u);
          return true;
        }
      }
    }
    chunk = quarry_queue_extend(heap, queue, chunk);
    if (chunk == 0u) return false;
  }
}

// Removes the oldest value. Returns false if there is none, or if its push is not complete.
static inline bool quarry_queue_pop(quarry_heap heap, __global quarry_queue* queue, uint* value) {
  quarry_ref chunk = quarry_load_acquire(&queue->first);
  while (chunk != 0u) {
    __global quarry_queue_chunk* const at = quarry_queue_chunk_at(heap, chunk);
    uint place = quarry_load_relaxed(&at->popped);
    while (place < QUARRY_QUEUE_PLACES) {
      if (quarry_load_acquire(&at->ready[place]) == 0u) return false;
      uint const now = quarry_cas_relaxed(&at->popped, place, place + 1u);
      if (now == place) {
        *value = quarry_load_relaxed(&at->values[place]);
        return true;
      }
      place = now;
    }
    quarry_ref const next = quarry_load_acquire(&at->next);
    if (next == 0u) return false;
    quarry_ref const now = quarry_cas_acq_rel(&queue->first, chunk, next);
    chunk = now == chunk ? next : now;
  }
  return false;
}

// Frees chunks that are used up. No other work-item may use the queue meanwhile.
static inline void quarry_queue_trim(quarry_heap heap, __global quarry_queue* queue) {
  while (queue->oldest != queue->first) {
    quarry_ref const next = quarry_queue_chunk_at(heap, queue->oldest)->next;
    if (queue->last == queue->oldest) queue->last = next;
    (void)quarry_free(heap, queue->oldest);
    queue->oldest = next;
  }
}

// Frees all values. No other work-item may use the queue meanwhile.
static inline void quarry_queue_clear(quarry_heap heap, __global quarry_queue* queue) {
  while (queue->oldest != 0u) {
    quarry_ref const next = quarry_queue_chunk_at(heap, queue->oldest)->next;
    (void)quarry_free(heap, queue->oldest);
    queue->oldest = next;
  }
  queue->first = queue->last = 0u;
}
