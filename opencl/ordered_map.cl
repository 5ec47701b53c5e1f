// SPDX-License-Identifier: Apache-2.0
// An ordered map from 32-bit keys to 32-bit values: a skip list. Work-items add entries and walk
// them in the order of their keys at any time. No work-item waits. Single entries cannot be
// removed. (Seed: KMA's tree, whose depth is the number of keys if the keys come sorted. Here the
// height of an entry is a hash of its key, so a search takes O(log n) steps on average for any
// order of insertion.)
#pragma once

#include "heap.cl"

// Enough for 16 million entries, since a level has a quarter of the entries of the level below.
#define QUARRY_SKIP_LEVELS 12u

// The other `height` - 1 links follow the entry.
typedef struct quarry_skip_entry {
  uint key;
  uint value;
  uint height;
  quarry_ref next[1];
} quarry_skip_entry;

// All fields are atomics while kernels run. A map whose fields are 0 is empty.
typedef struct quarry_ordered_map {
  uint size;
  quarry_ref first[QUARRY_SKIP_LEVELS];
} quarry_ordered_map;

static inline __global quarry_skip_entry* quarry_skip_entry_at(quarry_heap heap, quarry_ref entry) {
  return (__global quarry_skip_entry*)quarry_at(heap, entry);
}
// The link of a level behind `entry`, or the first link of this level if `entry` is null.
static inline __global uint* quarry_skip_link(quarry_heap heap, __global quarry_ordered_map* map,
                                              quarry_ref entry, uint level) {
  return entry == 0u ? map->first + level : quarry_skip_entry_at(heap, entry)->next + level;
}
static inline uint quarry_skip_height(uint key) {
  key = (key ^ (key >> 16u)) * 0x7feb352du;
  key = (key ^ (key >> 15u)) * 0x846ca68bu;
  key ^= key >> 16u;
  uint const height = 1u + (31u - quarry_highest_bit(key | 1u)) / 2u;
  return min(height, QUARRY_SKIP_LEVELS);
}

// Returns the last entry of `level` whose key is less than `key`, and writes the entry behind it.
// Null means that there is no entry before, or none behind. Begins the search behind `entry`.
static inline quarry_ref quarry_skip_search(quarry_heap heap, __global quarry_ordered_map* map,
                                            quarry_ref entry, uint level, uint key,
                                            quarry_ref* next) {
  for (;;) {
    *next = quarry_load_acquire(quarry_skip_link(heap, map, entry, level));
    // handover: reader
    if (*next == 0u || quarry_skip_entry_at(heap, *next)->key >= key) return entry;
    entry = *next;
  }
}

// Returns the entry with the smallest key that is not less than `key`, or null.
static inline quarry_ref quarry_ordered_map_lower_bound(quarry_heap heap,
                                                        __global quarry_ordered_map* map,
                                                        uint key) {
  quarry_ref entry = 0u, next = 0u;
  for (uint level = QUARRY_SKIP_LEVELS; level-- > 0u;)
    entry = quarry_skip_search(heap, map, entry, level, key, &next);
  return next;
}
static inline quarry_ref quarry_ordered_map_find(quarry_heap heap, __global quarry_ordered_map* map,
                                                 uint key) {
  quarry_ref const found = quarry_ordered_map_lower_bound(heap, map, key);
  return found != 0u && quarry_skip_entry_at(heap, found)->key == key ? found : 0u;
}
// Returns the entry with the next larger key, or null.
static inline quarry_ref quarry_ordered_map_next(quarry_heap heap, quarry_ref entry) {
  return quarry_load_acquire(quarry_skip_entry_at(heap, entry)->next);
}

// Returns the entry of `key`. If there is no such entry, adds one with `value` and sets `is_new`.
// Returns null and adds nothing if there is no memory.
static inline quarry_ref quarry_ordered_map_ensure(quarry_heap heap,
                                                   __global quarry_ordered_map* map, uint key,
                                                   uint value, bool* is_new) {
  quarry_ref before[QUARRY_SKIP_LEVELS];
  quarry_ref entry = 0u, next = 0u;
  *is_new = false;
  for (uint level = QUARRY_SKIP_LEVELS; level-- > 0u;)
    before[level] = entry = quarry_skip_search(heap, map, entry, level, key, &next);
  if (next != 0u && quarry_skip_entry_at(heap, next)->key == key) return next;

  uint const height = quarry_skip_height(key);
  quarry_ref const fresh =
      quarry_malloc(heap, sizeof(quarry_skip_entry) + (ulong)(height - 1u) * 4u);
  if (fresh == 0u) return 0u;
  __global quarry_skip_entry* const at = quarry_skip_entry_at(heap, fresh);
  at->key = key;        // handover: owner
  at->value = value;    // handover: owner
  at->height = height;  // handover: owner
  for (;;) {            // level 0 decides
    quarry_store_relaxed(at->next, next);
    if (quarry_cas_acq_rel(quarry_skip_link(heap, map, before[0], 0u), next, fresh) == next) break;
    before[0] = quarry_skip_search(heap, map, before[0], 0u, key, &next);
    if (next == 0u || quarry_skip_entry_at(heap, next)->key != key) continue;
    (void)quarry_free(heap, fresh);  // another work-item added the key
    return next;
  }
  for (uint level = 1; level < height; ++level) {
    do {
      before[level] = quarry_skip_search(heap, map, before[level], level, key, &next);
      quarry_store_relaxed(at->next + level, next);
    } while (quarry_cas_acq_rel(quarry_skip_link(heap, map, before[level], level), next, fresh) !=
             next);
  }
  (void)quarry_add_relaxed(&map->size, 1u);
  *is_new = true;
  return fresh;
}

// Frees all entries and returns their number. Requires that no other work-item uses the map.
static inline uint quarry_ordered_map_clear(quarry_heap heap, __global quarry_ordered_map* map) {
  uint count = 0u;
  quarry_ref entry = map->first[0];
  for (; entry != 0u; ++count) {
    quarry_ref const next = quarry_skip_entry_at(heap, entry)->next[0];
    (void)quarry_free(heap, entry);
    entry = next;
  }
  for (uint level = 0; level < QUARRY_SKIP_LEVELS; ++level) map->first[level] = 0u;
  map->size = 0u;
  return count;
}
