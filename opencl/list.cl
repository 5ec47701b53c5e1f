// SPDX-License-Identifier: Apache-2.0
// A list: a reference to its newest node, initially 0. A node is an allocation that begins with the
// reference of the next node; the other bytes belong to the user. Any work-item may push at any
// time. Walk or clear a list in a later kernel, on the host, or while no other work-item changes
// it.
#pragma once

#include "heap.cl"

// Inserts `node` at the front. Returns false and changes nothing if `node` is null, since a null
// node would disconnect all other nodes. Lock-free: repeats only if another work-item pushed at the
// same time.
static inline bool quarry_list_push(quarry_heap heap, __global quarry_ref* list, quarry_ref node) {
  if (node == 0u) return false;
  __global quarry_ref* const next = (__global quarry_ref*)quarry_at(heap, node);
  quarry_ref first = quarry_load_relaxed(list);
  for (;;) {
    *next = first;  // handover: owner
    quarry_ref const found = quarry_cas_acq_rel(list, first, node);
    if (found == first) return true;
    first = found;
  }
}

// The node behind `node`, or 0.
static inline quarry_ref quarry_list_next(quarry_heap heap, quarry_ref node) {
  return *(__global quarry_ref*)quarry_at(heap, node);
}

// Frees all nodes and empties the list. Returns their number.
static inline uint quarry_list_clear(quarry_heap heap, __global quarry_ref* list) {
  uint count = 0u;
  quarry_ref node = quarry_exchange_acq_rel(list, 0u);
  while (node != 0u) {
    quarry_ref const next = quarry_list_next(heap, node);
    (void)quarry_free(heap, node);
    node = next;
    ++count;
  }
  return count;
}
