// SPDX-License-Identifier: Apache-2.0
// A hash map from 32-bit keys to 32-bit values: a table of references to entries, with linear
// probing. Work-items insert, find and erase at any time; nobody waits. The table has a fixed number
// of places; quarry_map_move fills a larger one between kernels.
//
// An insertion writes its entry, and then puts its reference into the first empty place behind the
// key's hash. A place never becomes empty again: an erased one keeps a tombstone. So all insertions
// of one key meet at one place, and one of them wins. An erased entry stays allocated until
// quarry_map_free_erased, because another work-item may still read it.
#pragma once

#include "list.cl"

#define QUARRY_TOMBSTONE 1u  // lies in the heap state, so it is no allocation

typedef struct quarry_map_entry {
  quarry_ref next;  // in the list of erased entries
  uint key;
  uint value;
} quarry_map_entry;

// The fields are atomics while kernels run.
typedef struct quarry_map {
  quarry_ref table;
  uint mask;  // the table's places - 1
  uint size;  // entries
  quarry_ref erased;
} quarry_map;

static inline __global quarry_map_entry* quarry_map_entry_at(quarry_heap heap, quarry_ref entry) {
  return (__global quarry_map_entry*)quarry_at(heap, entry);
}
static inline __global uint* quarry_map_value(quarry_heap heap, quarry_ref entry) {
  return &quarry_map_entry_at(heap, entry)->value;
}
static inline __global uint* quarry_map_place(quarry_heap heap, __global quarry_map* map, uint place) {
  return (__global uint*)quarry_at(heap, map->table) + (place & map->mask);
}
static inline uint quarry_map_hash(uint key) {
  key = (key ^ (key >> 16u)) * 0x7feb352du;
  key = (key ^ (key >> 15u)) * 0x846ca68bu;
  return key ^ (key >> 16u);
}

// Allocates a table of `places` places, a power of two; at most three quarters of them should be
// used. Returns false if there is no memory. Call quarry_map_empty next, by all work-items of a
// kernel of its own.
static inline bool quarry_map_init(quarry_heap heap, __global quarry_map* map, uint places) {
  map->mask = places - 1u;
  map->size = 0u;
  map->erased = 0u;
  map->table = quarry_malloc(heap, (ulong)places * 4u);
  return map->table != 0u;
}
// Makes each `items`-th place empty, from `item` on.
static inline void quarry_map_empty(quarry_heap heap, __global quarry_map* map, uint item, uint items) {
  for (uint place = item; place <= map->mask; place += items) *quarry_map_place(heap, map, place) = 0u;
}

// Returns the entry of `key`, or null.
static inline quarry_ref quarry_map_find(quarry_heap heap, __global quarry_map* map, uint key) {
  uint place = quarry_map_hash(key);
  for (uint step = 0u; step <= map->mask; ++step, ++place) {
    quarry_ref const found = quarry_load_acquire(quarry_map_place(heap, map, place));
    if (found == 0u) return 0u;
    if (found != QUARRY_TOMBSTONE && quarry_map_entry_at(heap, found)->key == key) return found;
  }
  return 0u;
}

// Returns the entry of `key`; if there is none, adds one with `value`. `is_new`: whether this call
// added it. Returns null, and adds nothing, if there is no memory or no empty place. `spare`: memory
// for an entry, or null. The call uses it, or allocates it, if the key seems to be new; what it leaves
// there belongs to the caller, for its next call.
static inline quarry_ref quarry_map_ensure_with(quarry_heap heap, __global quarry_map* map, uint key, uint value,
                                                quarry_ref* spare, bool* is_new) {
  uint place = quarry_map_hash(key);
  *is_new = false;
  for (uint step = 0u; step <= map->mask; ++step, ++place) {
    __global uint* const at = quarry_map_place(heap, map, place);
    quarry_ref found = quarry_load_acquire(at);
    if (found == 0u) {
      if (*spare == 0u) *spare = quarry_malloc(heap, sizeof(quarry_map_entry));
      if (*spare == 0u) return 0u;
      quarry_map_entry_at(heap, *spare)->key = key;
      quarry_map_entry_at(heap, *spare)->value = value;
      found = quarry_cas_acq_rel(at, 0u, *spare);
      if (found == 0u) {
        found = *spare;
        *spare = 0u;
        *is_new = true;
        (void)quarry_add_relaxed(&map->size, 1u);
        return found;
      }
    }
    if (found != QUARRY_TOMBSTONE && quarry_map_entry_at(heap, found)->key == key) return found;
  }
  return 0u;
}
static inline quarry_ref quarry_map_ensure(quarry_heap heap, __global quarry_map* map, uint key, uint value,
                                           bool* is_new) {
  quarry_ref spare = 0u;
  quarry_ref const found = quarry_map_ensure_with(heap, map, key, value, &spare, is_new);
  (void)quarry_free(heap, spare);
  return found;
}

// Removes the entry of `key`. Returns whether this call removed it. Its memory comes back with
// quarry_map_free_erased.
static inline bool quarry_map_erase(quarry_heap heap, __global quarry_map* map, uint key) {
  uint place = quarry_map_hash(key);
  for (uint step = 0u; step <= map->mask; ++step, ++place) {
    __global uint* const at = quarry_map_place(heap, map, place);
    quarry_ref const found = quarry_load_acquire(at);
    if (found == 0u) return false;
    if (found == QUARRY_TOMBSTONE || quarry_map_entry_at(heap, found)->key != key) continue;
    if (quarry_cas_acq_rel(at, found, QUARRY_TOMBSTONE) != found) return false;
    (void)quarry_add_relaxed(&map->size, 0u - 1u);
    quarry_list_push(heap, &map->erased, found);
    return true;
  }
  return false;
}

// Frees erased entries. No other work-item may use the map meanwhile.
static inline void quarry_map_free_erased(quarry_heap heap, __global quarry_map* map) {
  (void)quarry_list_clear(heap, &map->erased);
}

// Puts the entries of each `items`-th place of `map`, from `item` on, into `target`, which is empty
// before. Then free the table of `map`; its entries belong to `target`. Nobody else may use the maps.
static inline void quarry_map_move(quarry_heap heap, __global quarry_map* map, __global quarry_map* target, uint item,
                                   uint items) {
  for (uint place = item; place <= map->mask; place += items) {
    quarry_ref entry = *quarry_map_place(heap, map, place);
    if (entry == 0u || entry == QUARRY_TOMBSTONE) continue;
    __global quarry_map_entry* const at = quarry_map_entry_at(heap, entry);
    bool is_new;
    (void)quarry_map_ensure_with(heap, target, at->key, at->value, &entry, &is_new);
  }
}

// Frees the entries of each `items`-th place, from `item` on. Then free `table`.
static inline void quarry_map_clear(quarry_heap heap, __global quarry_map* map, uint item, uint items) {
  for (uint place = item; place <= map->mask; place += items) {
    __global uint* const at = quarry_map_place(heap, map, place);
    if (*at != QUARRY_TOMBSTONE) (void)quarry_free(heap, *at);
    *at = 0u;
  }
}
