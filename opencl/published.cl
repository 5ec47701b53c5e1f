// SPDX-License-Identifier: Apache-2.0
// Memory that several work-items need at the same time, and that one of them allocates. A word
// names this memory. The word is 0, or QUARRY_ALLOCATING while a work-item allocates, or the
// reference, which does not change again.
//
// No work-item waits. The other work-items look at the word a bounded number of times, and then
// allocate, too. A work-item that publishes second frees its own memory.
#pragma once

#include "heap.cl"

#define QUARRY_ALLOCATING 1u  // lies in the unused first bytes, so no allocation has this reference
#define QUARRY_LOOKS_AT_ALLOCATION 1024u  // minimum number of looks

// The published reference, or null.
static inline quarry_ref quarry_published(__global uint* at) {
  quarry_ref const found = quarry_load_acquire(at);
  return found > QUARRY_ALLOCATING ? found : 0u;
}

// Returns the published reference. Returns null if the caller must allocate, and then publish or
// cancel. `is_first`: whether other work-items look for the caller's memory. `looks`: a larger
// number of looks, for a first work-item that writes much memory before it publishes.
static inline quarry_ref quarry_await_published(__global uint* at, uint looks, bool* is_first) {
  quarry_ref found = quarry_load_acquire(at);
  *is_first = found == 0u && quarry_cas_relaxed(at, 0u, QUARRY_ALLOCATING) == 0u;
  looks = max(looks, QUARRY_LOOKS_AT_ALLOCATION);
  for (uint look = 0; !*is_first && look < looks; ++look) {
    found = quarry_load_acquire(at);
    if (found != QUARRY_ALLOCATING) break;  // 0: the first work-item found no memory
  }
  return found > QUARRY_ALLOCATING ? found : 0u;
}

// Publishes `fresh`. Returns false if another work-item published its memory first; the caller then
// frees `fresh`.
static inline bool quarry_publish(__global uint* at, quarry_ref fresh) {
  for (quarry_ref found = quarry_load_acquire(at); found <= QUARRY_ALLOCATING;) {
    quarry_ref const now = quarry_cas_acq_rel(at, found, fresh);
    if (now == found) return true;
    found = now;
  }
  return false;
}

// Records that the caller found no memory. Returns the reference that is published now, or null.
static inline quarry_ref quarry_cancel(__global uint* at, bool is_first) {
  if (is_first) (void)quarry_cas_relaxed(at, QUARRY_ALLOCATING, 0u);
  return quarry_published(at);
}
