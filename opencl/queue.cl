// SPDX-License-Identifier: Apache-2.0
// A queue of 32-bit values, references for one. Any work-items push and pop at once; nobody waits. A
// pop may report «empty» while a push is not complete.
//
// A queue is a list of rings. Pushes use the last ring, and pops the first one. A ring is used again
// and again; only if a push finds it full, a ring of twice as many places follows it. Then the full ring
// is closed, pops empty it, and it stays allocated, because a slow work-item may still look at it, until
// quarry_queue_trim or quarry_queue_clear. So a queue has memory for about four times its highest
// number of values. If the heap has no memory for a larger ring, a smaller one follows, down to a quarter
// of the largest one: closed rings keep their memory, so the queue then has as few places even after it
// becomes empty, until a quarry_queue_trim.
//
// A push first counts itself, and gives this back if the ring has no place or is closed. The counts that
// remain never exceed the pops by more than the ring's places. So the position that the push takes next,
// from another counter, is in a place whose value was popped. It writes the value, and then says that it is
// ready in this lap. A pop reads the value at the lowest position, and then moves this position by a
// compare-and-swap. If that succeeds, nobody had popped the value, so nobody had overwritten it.
#pragma once

#include "published.cl"

#define QUARRY_QUEUE_SHIFT 6u        // log2 of the first ring's places
#define QUARRY_QUEUE_MAX_SHIFT 27u    // 1 GiB; the counts have 31 bits
#define QUARRY_QUEUE_LESS_SHIFT 2u    // a ring has at least a quarter of the largest ring's places
#define QUARRY_QUEUE_PLACES_OF_LOOK 64u  // that a work-item empties while another one looks once
#define QUARRY_QUEUE_CLOSED 1u
#define QUARRY_QUEUE_COUNTS 0x7fffffffu

// The fields are atomics while kernels run. Behind it lie the places' values, and then for each place the
// lap in which its value is ready: laps count from 1.
typedef struct quarry_queue_ring {
  quarry_ref next;
  uint shift;       // log2 of its places
  uint pushes;      // twice the pushes that have a place or try to get one; plus QUARRY_QUEUE_CLOSED
  uint tail;        // positions given to pushes
  uint largest;     // log2 of the places of the largest ring up to this one
  uint unused[11];  // pops use another cache line
  uint head;        // positions that were popped
  uint more_unused[15];
} quarry_queue_ring;

// The fields are atomics while kernels run. A queue of zeros is empty.
typedef struct quarry_queue {
  quarry_ref oldest;  // all rings that are allocated
  quarry_ref first;   // where pops look
  quarry_ref last;    // where pushes look; may be behind
} quarry_queue;

static inline __global quarry_queue_ring* quarry_queue_ring_at(quarry_heap heap, quarry_ref ring) {
  return (__global quarry_queue_ring*)quarry_at(heap, ring);
}
static inline __global uint* quarry_queue_value(__global quarry_queue_ring* ring, uint position) {
  return (__global uint*)(ring + 1) + (position & ((1u << ring->shift) - 1u));
}
static inline __global uint* quarry_queue_lap(__global quarry_queue_ring* ring, uint position) {
  return quarry_queue_value(ring, position) + (1u << ring->shift);
}
static inline uint quarry_queue_lap_of(__global quarry_queue_ring* ring, uint position) {
  return (position >> ring->shift) + 1u;
}
// Whether a ring that has counted `pushes`, and is popped up to `head`, has no place for another push.
static inline bool quarry_queue_is_full(__global quarry_queue_ring* ring, uint pushes, uint head) {
  return (((pushes >> 1u) - head) & QUARRY_QUEUE_COUNTS) >= 1u << ring->shift;
}

// log2 of the places of the smallest ring that may follow. `largest`: that of the ring before, or 0.
static inline uint quarry_queue_least_shift(uint largest) {
  return max(largest, QUARRY_QUEUE_SHIFT + QUARRY_QUEUE_LESS_SHIFT) - QUARRY_QUEUE_LESS_SHIFT;
}
static inline ulong quarry_queue_ring_bytes(uint shift) { return sizeof(quarry_queue_ring) + ((ulong)8u << shift); }

// Allocates a ring with 1 << shift places, or with fewer if there is no memory. `largest`: that of the ring
// before. Returns null if there is not even memory for the smallest ring that may follow.
static inline quarry_ref quarry_queue_make_ring(quarry_heap heap, uint shift, uint largest) {
  uint const least = quarry_queue_least_shift(largest);
  quarry_ref fresh;
  for (;; --shift) {
    fresh = quarry_try_malloc(heap, quarry_queue_ring_bytes(shift));
    if (fresh != 0u || shift <= least) break;
  }
  if (fresh == 0u) return 0u;
  __global quarry_queue_ring* const ring = quarry_queue_ring_at(heap, fresh);
  ring->next = ring->pushes = ring->tail = ring->head = 0u;
  ring->shift = shift;
  ring->largest = max(largest, shift);
  __global uint* const laps = quarry_queue_lap(ring, 0u);
  for (uint i = 0; i < 1u << shift; ++i) laps[i] = 0u;
  return fresh;
}

// The ring behind `ring`, which is full or closed, made if there is none; the first one if `ring` is null. Closes
// `ring`. Returns null, and closes nothing, if there is no memory.
QUARRY_OUT_OF_LINE static quarry_ref quarry_queue_extend(quarry_heap heap, __global quarry_queue* queue,
                                                         quarry_ref ring) {
  __global quarry_queue_ring* const at = quarry_queue_ring_at(heap, ring);
  __global uint* const link = ring == 0u ? &queue->oldest : &at->next;
  uint const shift = ring == 0u ? QUARRY_QUEUE_SHIFT : min(at->shift + 1u, QUARRY_QUEUE_MAX_SHIFT);
  bool is_first;
  quarry_ref next = quarry_await_published(link, (1u << shift) / QUARRY_QUEUE_PLACES_OF_LOOK, &is_first);
  if (next == 0u) {
    quarry_ref const fresh = quarry_queue_make_ring(heap, shift, ring == 0u ? 0u : at->largest);
    if (fresh != 0u && !quarry_publish(link, fresh)) (void)quarry_free(heap, fresh);
    next = fresh == 0u ? quarry_cancel(link, is_first) : quarry_published(link);
    if (next == 0u) return 0u;
  }
  if (ring != 0u) (void)quarry_or_acq_rel(&at->pushes, QUARRY_QUEUE_CLOSED);
  (void)quarry_cas_acq_rel(&queue->last, ring, next);
  if (ring == 0u) (void)quarry_cas_acq_rel(&queue->first, 0u, next);
  return next;
}

// Adds a value to a ring. Returns false, and changes nothing for longer than a moment, if it is full or closed.
static inline bool quarry_queue_push_in(__global quarry_queue_ring* ring, uint value) {
  for (;;) {
    uint const head = quarry_load_acquire(&ring->head);  // before the count: it only grows
    uint pushes = quarry_load_relaxed(&ring->pushes);
    if ((pushes & QUARRY_QUEUE_CLOSED) != 0u) return false;
    if (quarry_queue_is_full(ring, pushes, head)) {
      if (quarry_load_relaxed(&ring->head) == head) return false;
      continue;
    }
    pushes = quarry_add_acq_rel(&ring->pushes, 2u);
    if ((pushes & QUARRY_QUEUE_CLOSED) == 0u && !quarry_queue_is_full(ring, pushes, head)) break;
    (void)quarry_add_relaxed(&ring->pushes, 0u - 2u);
  }
  uint const position = quarry_add_acq_rel(&ring->tail, 1u);
  quarry_store_relaxed(quarry_queue_value(ring, position), value);
  quarry_store_release(quarry_queue_lap(ring, position), quarry_queue_lap_of(ring, position));
  return true;
}

// Adds a value. Returns false, and records a fault, if there is no memory; then nothing changes.
static inline bool quarry_queue_push(quarry_heap heap, __global quarry_queue* queue, uint value) {
  quarry_ref ring = quarry_load_acquire(&queue->last);
  while (ring == 0u || !quarry_queue_push_in(quarry_queue_ring_at(heap, ring), value)) {
    uint const largest = ring == 0u ? 0u : quarry_queue_ring_at(heap, ring)->largest;
    ring = quarry_queue_extend(heap, queue, ring);
    if (ring != 0u) continue;
    quarry_record_out_of_memory(heap, quarry_queue_ring_bytes(quarry_queue_least_shift(largest)));
    return false;
  }
  return true;
}

// Removes the oldest value. Returns false, and changes nothing, if there is none, or if a push is not complete.
static inline bool quarry_queue_pop(quarry_heap heap, __global quarry_queue* queue, uint* value) {
  quarry_ref ring = quarry_load_acquire(&queue->first);
  while (ring != 0u) {
    __global quarry_queue_ring* const at = quarry_queue_ring_at(heap, ring);
    uint head = quarry_load_acquire(&at->head);
    for (;;) {
      uint now;
      if (quarry_load_acquire(quarry_queue_lap(at, head)) == quarry_queue_lap_of(at, head)) {
        uint const oldest = quarry_load_relaxed(quarry_queue_value(at, head));
        now = quarry_cas_acq_rel(&at->head, head, head + 1u);
        if (now == head) {
          *value = oldest;
          return true;
        }
      } else {
        now = quarry_load_acquire(&at->head);
        if (now == head) break;
      }
      head = now;
    }
    uint const pushes = quarry_load_acquire(&at->pushes);
    if ((pushes & QUARRY_QUEUE_CLOSED) == 0u || (((pushes >> 1u) - head) & QUARRY_QUEUE_COUNTS) != 0u) return false;
    quarry_ref const next = quarry_load_acquire(&at->next);
    quarry_ref const now = quarry_cas_acq_rel(&queue->first, ring, next);
    ring = now == ring ? next : now;
  }
  return false;
}

// Frees the oldest rings up to `end`, and returns how many they were.
static inline uint quarry_queue_free_rings(quarry_heap heap, __global quarry_queue* queue, quarry_ref end) {
  uint count = 0u;
  while (queue->oldest != end) {
    quarry_ref const next = quarry_queue_ring_at(heap, queue->oldest)->next;
    if (queue->last == queue->oldest) queue->last = next;
    (void)quarry_free(heap, queue->oldest);
    queue->oldest = next;
    ++count;
  }
  return count;
}

// Frees rings that are used up, and returns how many they were. No other work-item may use the queue meanwhile.
static inline uint quarry_queue_trim(quarry_heap heap, __global quarry_queue* queue) {
  return quarry_queue_free_rings(heap, queue, queue->first);
}

// Removes all values, and returns how many there were; frees all memory. No other work-item may use the queue
// meanwhile.
static inline uint quarry_queue_clear(quarry_heap heap, __global quarry_queue* queue) {
  uint count = 0u;
  for (quarry_ref ring = queue->first; ring != 0u; ring = quarry_queue_ring_at(heap, ring)->next)
    count += quarry_queue_ring_at(heap, ring)->tail - quarry_queue_ring_at(heap, ring)->head;
  (void)quarry_queue_free_rings(heap, queue, 0u);
  queue->first = queue->last = 0u;
  return count;
}
