// SPDX-License-Identifier: Apache-2.0
// A queue of 32-bit values, for example references. Any work-items push and pop at any time, and no
// work-item waits. A pop may report «empty» while a push is not complete.
//
// A queue is a list of rings, each an array of cells. Pushes use the last ring, and pops use the
// first ring. A ring is used again and again. If a push finds the last ring full, it closes this
// ring, and a ring with twice as many cells follows. Pops then empty the closed ring. A closed ring
// stays allocated until quarry_queue_trim or quarry_queue_clear, because a slow work-item may still
// look at it. So a queue reserves memory for about four times its peak number of values. If the
// heap has no memory for a larger ring, a smaller ring follows, at least a quarter of the largest
// ring. The queue then has fewer cells until a quarry_queue_trim, even after it becomes empty,
// because closed rings keep their memory.
//
// Race: a push must not overwrite a value before it is popped. A push first counts itself, and
// undoes this if the ring has no cell or is closed. So the counted pushes never exceed the pops by
// more than the ring's cells. The push then takes a position from another counter. The cell of this
// position is therefore empty: its last value was popped. The push writes its value, and then marks
// the cell as ready in this lap. A pop reads the value at the lowest position, and then moves this
// position by a compare-and-swap. If the compare-and-swap succeeds, no other pop took the value, so
// no push had overwritten it.
#pragma once

#include "published.cl"

#define QUARRY_QUEUE_SHIFT 6u           // log2 of the first ring's cells
#define QUARRY_QUEUE_MAX_SHIFT 27u      // 1 GiB; the counts have 31 bits
#define QUARRY_QUEUE_LESS_SHIFT 2u      // a ring has at least a quarter of the largest ring's cells
#define QUARRY_QUEUE_CELLS_OF_LOOK 64u  // cells that a work-item empties during one look
#define QUARRY_QUEUE_CLOSED 1u
#define QUARRY_QUEUE_COUNTS 0x7fffffffu

// All fields are atomics while kernels run. The values of the cells follow the ring. Then follows,
// for each cell, the lap in which its value is ready; laps count from 1.
typedef struct quarry_queue_ring {
  quarry_ref next;
  uint shift;       // log2 of its cells
  uint pushes;      // twice the pushes that have a cell or try to get one, plus QUARRY_QUEUE_CLOSED
  uint tail;        // the next position of a push
  uint largest;     // log2 of the cells of the largest ring up to this one
  uint unused[11];  // pops use another cache line
  uint head;        // the next position of a pop
  uint more_unused[15];
} quarry_queue_ring;

// All fields are atomics while kernels run. A queue whose fields are 0 is empty.
typedef struct quarry_queue {
  quarry_ref oldest;  // the list of all allocated rings
  quarry_ref first;   // the ring of pops
  quarry_ref last;    // the ring of pushes; may be out of date
} quarry_queue;

static inline __global quarry_queue_ring* quarry_queue_ring_at(quarry_heap heap, quarry_ref ring) {
  return (__global quarry_queue_ring*)quarry_at(heap, ring);
}
static inline __global uint* quarry_queue_value(__global quarry_queue_ring* ring, uint position) {
  return (__global uint*)(ring + 1) + (position & ((1u << ring->shift) - 1u));  // handover: reader
}
static inline __global uint* quarry_queue_lap(__global quarry_queue_ring* ring, uint position) {
  return quarry_queue_value(ring, position) + (1u << ring->shift);  // handover: reader
}
static inline uint quarry_queue_lap_of(__global quarry_queue_ring* ring, uint position) {
  return (position >> ring->shift) + 1u;  // handover: reader
}
// Whether a ring that counted `pushes`, and whose pops reached `head`, has no cell for another
// push.
static inline bool quarry_queue_is_full(__global quarry_queue_ring* ring, uint pushes, uint head) {
  return (((pushes >> 1u) - head) & QUARRY_QUEUE_COUNTS) >= 1u << ring->shift;  // handover: reader
}

// log2 of the cells of the smallest ring that may follow. `largest`: log2 of the largest ring so
// far, or 0.
static inline uint quarry_queue_min_shift(uint largest) {
  return max(largest, QUARRY_QUEUE_SHIFT + QUARRY_QUEUE_LESS_SHIFT) - QUARRY_QUEUE_LESS_SHIFT;
}
static inline ulong quarry_queue_ring_bytes(uint shift) {
  return sizeof(quarry_queue_ring) + ((ulong)8u << shift);
}

// Allocates a ring with 1 << shift cells, or with fewer cells if there is not enough memory.
// `largest`: log2 of the largest ring so far. Returns null if there is no memory for the smallest
// ring that may follow.
static inline quarry_ref quarry_queue_make_ring(quarry_heap heap, uint shift, uint largest) {
  uint const least = quarry_queue_min_shift(largest);
  quarry_ref fresh;
  for (;; --shift) {
    fresh = quarry_try_malloc(heap, quarry_queue_ring_bytes(shift));
    if (fresh != 0u || shift <= least) break;
  }
  if (fresh == 0u) return 0u;
  __global quarry_queue_ring* const ring = quarry_queue_ring_at(heap, fresh);
  ring->next = ring->pushes = ring->tail = ring->head = 0u;  // handover: owner, atomics
  ring->shift = shift;                                       // handover: owner, atomics
  ring->largest = max(largest, shift);                       // handover: owner, atomics
  __global uint* const laps = quarry_queue_lap(ring, 0u);
  for (uint i = 0; i < 1u << shift; ++i) laps[i] = 0u;  // handover: owner, atomics
  return fresh;
}

// Closes `ring`, which is full or closed, and returns the next ring. Makes the next ring if there
// is none. Returns the first ring if `ring` is null. Returns null and closes no ring if there is no
// memory.
QUARRY_OUT_OF_LINE static quarry_ref quarry_queue_extend(quarry_heap heap,
                                                         __global quarry_queue* queue,
                                                         quarry_ref ring) {
  __global quarry_queue_ring* const at = quarry_queue_ring_at(heap, ring);
  __global uint* const link = ring == 0u ? &queue->oldest : &at->next;
  uint const shift = ring == 0u ? QUARRY_QUEUE_SHIFT : min(at->shift + 1u, QUARRY_QUEUE_MAX_SHIFT);
  bool is_first;
  quarry_ref next =
      quarry_await_published(link, (1u << shift) / QUARRY_QUEUE_CELLS_OF_LOOK, &is_first);
  if (next == 0u) {
    // handover: reader
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

// Adds a value to a ring. Returns false and undoes its change if the ring is full or closed.
static inline bool quarry_queue_push_in(__global quarry_queue_ring* ring, uint value) {
  for (;;) {
    // Read before the count: the head only grows, so the ring cannot look emptier than it is.
    uint const head = quarry_load_acquire(&ring->head);
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

// Adds a value. Returns false, changes nothing and records a fault if there is no memory.
static inline bool quarry_queue_push(quarry_heap heap, __global quarry_queue* queue, uint value) {
  quarry_ref ring = quarry_load_acquire(&queue->last);
  while (ring == 0u || !quarry_queue_push_in(quarry_queue_ring_at(heap, ring), value)) {
    // handover: reader
    uint const largest = ring == 0u ? 0u : quarry_queue_ring_at(heap, ring)->largest;
    ring = quarry_queue_extend(heap, queue, ring);
    if (ring != 0u) continue;
    quarry_record_out_of_memory(heap, quarry_queue_ring_bytes(quarry_queue_min_shift(largest)));
    return false;
  }
  return true;
}

// Removes the oldest value. Returns false and changes nothing if the queue is empty or the push of
// that value is not complete.
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
    if ((pushes & QUARRY_QUEUE_CLOSED) == 0u ||
        (((pushes >> 1u) - head) & QUARRY_QUEUE_COUNTS) != 0u)
      return false;
    quarry_ref const next = quarry_load_acquire(&at->next);
    quarry_ref const now = quarry_cas_acq_rel(&queue->first, ring, next);
    ring = now == ring ? next : now;
  }
  return false;
}

// Frees the oldest rings up to `end` and returns their number.
static inline uint quarry_queue_free_rings(quarry_heap heap, __global quarry_queue* queue,
                                           quarry_ref end) {
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

// Frees closed and empty rings, and returns their number. Requires that no other work-item uses the
// queue.
static inline uint quarry_queue_trim(quarry_heap heap, __global quarry_queue* queue) {
  return quarry_queue_free_rings(heap, queue, queue->first);
}

// Removes all values, frees all memory, and returns the number of the values. Requires that no
// other work-item uses the queue.
static inline uint quarry_queue_clear(quarry_heap heap, __global quarry_queue* queue) {
  uint count = 0u;
  for (quarry_ref ring = queue->first; ring != 0u; ring = quarry_queue_ring_at(heap, ring)->next)
    count += quarry_queue_ring_at(heap, ring)->tail - quarry_queue_ring_at(heap, ring)->head;
  (void)quarry_queue_free_rings(heap, queue, 0u);
  queue->first = queue->last = 0u;
  return count;
}
