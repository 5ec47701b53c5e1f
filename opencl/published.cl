// SPDX-License-Identifier: Apache-2.0
// Memory that work-items need at the same time, and that one of them allocates. A word says where it
// is: 0, or QUARRY_ALLOCATING while a work-item allocates, or its reference, which stays.
//
// No work-item waits: the others look at the word a bounded number of times, and then allocate, too.
// The one that publishes second frees its memory again.
#pragma once

#include "heap.cl"

#define QUARRY_ALLOCATING 1u  // lies in the unused first bytes, so it is no allocation
#define QUARRY_LOOKS_AT_ALLOCATION 1024u  // at least

// The reference, or null.
static inline quarry_ref quarry_published(__global uint* at) {
  quarry_ref const found = quarry_load_acquire(at);
  return found > QUARRY_ALLOCATING ? found : 0u;
}

// Returns the reference; or null, and then the caller allocates, and publishes or cancels.
// `is_first`: whether the others look for the caller's memory meanwhile. `looks`: how often to look, if more
// than usual, because the first one writes much memory before it publishes.
static inline quarry_ref quarry_await_published(__global uint* at, uint looks, bool* is_first) {
  quarry_ref found = quarry_load_acquire(at);
  *is_first = found == 0u && quarry_cas_relaxed(at, 0u, QUARRY_ALLOCATING) == 0u;
  looks = max(looks, QUARRY_LOOKS_AT_ALLOCATION);
  for (uint look = 0; !*is_first && look < looks; ++look) {
    found = quarry_load_acquire(at);
    if (found != QUARRY_ALLOCATING) break;  // 0: the first one found no memory
  }
  return found > QUARRY_ALLOCATING ? found : 0u;
}

// Publishes `fresh`. Returns false if other memory was published: then the caller frees `fresh`.
static inline bool quarry_publish(__global uint* at, quarry_ref fresh) {
  for (quarry_ref found = quarry_load_acquire(at); found <= QUARRY_ALLOCATING;) {
    quarry_ref const now = quarry_cas_acq_rel(at, found, fresh);
    if (now == found) return true;
    found = now;
  }
  return false;
}

// Says that the caller found no memory. Returns what is published by now, or null.
static inline quarry_ref quarry_cancel(__global uint* at, bool is_first) {
  if (is_first) (void)quarry_cas_relaxed(at, QUARRY_ALLOCATING, 0u);
  return quarry_published(at);
}
