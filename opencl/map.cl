// SPDX-License-Identifier: Apache-2.0
// A hash map from 32-bit keys to 32-bit values: a table of places, each the first entry of a chain.
// Work-items insert, find and erase at any time; nobody waits. A map is never full, but a search is
// O(entries of a place): with more entries than places, quarry_map_move fills a larger table between
// kernels.
//
// An insertion writes its entry, and then puts its reference behind the last entry of the chain. So all
// insertions of one key meet there, and one of them wins.
//
// Erasing is in four steps, and only the work-item that takes the first one takes the others:
//   1. `next` changes from 0. So the key is erased.
//   2. `next` becomes the entry behind, and `chain` becomes QUARRY_MAP_FROZEN: nobody can append to it.
//   3. The entry before, or the place, gets that next entry. Any work-item does that for a frozen entry.
//   4. `chain` becomes QUARRY_MAP_RETIRED, and `next` the next one of the erased entries. A work-item that
//      still is at this entry begins again at the place, where it is no more.
// An erased entry stays allocated until quarry_map_free_erased, because others may still read it. So no
// reference comes back while a kernel runs, and a compare-and-swap means what it says.
#pragma once

#include "list.cl"

#define QUARRY_MAP_MOST_PLACES 0x80000000u

// In place of references. These lie in the unused first bytes, so they are no allocations.
#define QUARRY_MAP_FROZEN 1u   // `chain`: `next` is the entry behind
#define QUARRY_MAP_RETIRED 2u  // `chain`: the entry is in no chain
#define QUARRY_MAP_ERASED 1u   // `next`: step 1
#define QUARRY_MAP_END 2u      // `next`: no entry behind

typedef struct quarry_map_entry {
  quarry_ref next;  // 0 unless erased
  uint key;
  uint value;
  quarry_ref chain;  // the entry behind it
} quarry_map_entry;

// The fields are atomics while kernels run. A map of zeros has no table: it has no entries, and gets none.
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
// How many places the table has; 0 without a table.
static inline ulong quarry_map_places(__global quarry_map* map) {
  return map->table == 0u ? 0u : (ulong)map->mask + 1u;
}
static inline uint quarry_map_hash(uint key) {
  key = (key ^ (key >> 16u)) * 0x7feb352du;
  key = (key ^ (key >> 15u)) * 0x846ca68bu;
  return key ^ (key >> 16u);
}

// Makes `map`, whose bytes may be anything, a map with a table of `places` places, rounded up to a power of
// two. Twice the expected number of entries is a good number. Returns false, and makes a map without
// a table, if `places` is 0 or above 2^31, or if there is no memory. Call quarry_map_empty next, by all
// work-items of a kernel of its own.
static inline bool quarry_map_init(quarry_heap heap, __global quarry_map* map, uint places) {
  map->table = map->mask = map->size = map->erased = 0u;
  if (places == 0u || places > QUARRY_MAP_MOST_PLACES) return false;
  uint const mask = places == 1u ? 0u : ~0u >> clz(places - 1u);
  map->table = quarry_malloc(heap, ((ulong)mask + 1u) * 4u);
  if (map->table != 0u) map->mask = mask;
  return map->table != 0u;
}
// Makes each `items`-th place empty, from `item` on. Returns false if the map has no table.
static inline bool quarry_map_empty(quarry_heap heap, __global quarry_map* map, uint item, uint items) {
  ulong const places = quarry_map_places(map);
  for (ulong place = item; place < places; place += items) *quarry_map_place(heap, map, (uint)place) = 0u;
  return places != 0u;
}

// The entry behind `entry`, or null. QUARRY_MAP_RETIRED if it is in no chain.
static inline quarry_ref quarry_map_next(__global quarry_map_entry* entry, bool* is_frozen) {
  quarry_ref next = quarry_load_acquire(&entry->chain);
  *is_frozen = next == QUARRY_MAP_FROZEN;
  if (!*is_frozen) return next;
  next = quarry_load_acquire(&entry->next);
  if (quarry_load_acquire(&entry->chain) != QUARRY_MAP_FROZEN) return QUARRY_MAP_RETIRED;  // step 4 changed `next`
  return next == QUARRY_MAP_END ? 0u : next;
}

// Returns the entry of `key`, or null; then `end` is the link behind the last entry. Takes frozen entries out
// of the chain. The map must have a table.
static inline quarry_ref quarry_map_search(quarry_heap heap, __global quarry_map* map, uint key, __global uint** end) {
  for (*end = 0;;) {
    __global uint* link = quarry_map_place(heap, map, quarry_map_hash(key));
    quarry_ref entry = quarry_load_acquire(link);
    while (entry > QUARRY_MAP_RETIRED) {
      __global quarry_map_entry* const at = quarry_map_entry_at(heap, entry);
      bool is_frozen;
      quarry_ref const next = quarry_map_next(at, &is_frozen);
      if (next == QUARRY_MAP_RETIRED) {
        entry = next;
      } else if (is_frozen) {
        entry = quarry_cas_acq_rel(link, entry, next) == entry ? next : QUARRY_MAP_RETIRED;
      } else {
        if (at->key == key && quarry_load_acquire(&at->next) == 0u) return entry;
        link = &at->chain;
        entry = next;
      }
    }
    *end = link;
    if (entry == 0u) return 0u;
  }
}

// Returns the entry of `key`, or null.
static inline quarry_ref quarry_map_find(quarry_heap heap, __global quarry_map* map, uint key) {
  if (map->table == 0u) return 0u;
  for (;;) {
    quarry_ref entry = quarry_load_acquire(quarry_map_place(heap, map, quarry_map_hash(key)));
    while (entry > QUARRY_MAP_RETIRED) {
      __global quarry_map_entry* const at = quarry_map_entry_at(heap, entry);
      if (at->key == key && quarry_load_acquire(&at->next) == 0u) return entry;
      bool is_frozen;
      entry = quarry_map_next(at, &is_frozen);
    }
    if (entry == 0u) return 0u;
  }
}

// Returns the entry of `key`; if there is none, adds one with `value`. `is_new`: whether this call
// added it. Returns null, and adds nothing, if there is no memory, or the map has no table. `spare`: memory
// for an entry, or null. The call uses it, or allocates it, if the key seems to be new; what it leaves
// there belongs to the caller, for its next call.
static inline quarry_ref quarry_map_ensure_with(quarry_heap heap, __global quarry_map* map, uint key, uint value,
                                                quarry_ref* spare, bool* is_new) {
  *is_new = false;
  if (map->table == 0u) return 0u;
  for (;;) {
    __global uint* end;
    quarry_ref const found = quarry_map_search(heap, map, key, &end);
    if (found != 0u) return found;
    if (*spare == 0u) *spare = quarry_malloc(heap, sizeof(quarry_map_entry));
    if (*spare == 0u) return 0u;
    quarry_ref const fresh = *spare;
    __global quarry_map_entry* const at = quarry_map_entry_at(heap, fresh);
    at->key = key;
    at->value = value;
    at->next = at->chain = 0u;
    if (quarry_cas_acq_rel(end, 0u, fresh) != 0u) continue;  // another entry is there, or the last one was erased
    *spare = 0u;
    *is_new = true;
    (void)quarry_add_relaxed(&map->size, 1u);
    return fresh;
  }
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
  quarry_ref const entry = quarry_map_find(heap, map, key);
  if (entry == 0u) return false;
  __global quarry_map_entry* const at = quarry_map_entry_at(heap, entry);
  if (quarry_cas_acq_rel(&at->next, 0u, QUARRY_MAP_ERASED) != 0u) return false;  // step 1
  (void)quarry_add_relaxed(&map->size, 0u - 1u);
  quarry_ref behind = quarry_load_acquire(&at->chain);
  for (;;) {  // step 2
    quarry_store_relaxed(&at->next, behind == 0u ? QUARRY_MAP_END : behind);
    quarry_ref const found = quarry_cas_acq_rel(&at->chain, behind, QUARRY_MAP_FROZEN);
    if (found == behind) break;
    behind = found;
  }
  __global uint* end;
  (void)quarry_map_search(heap, map, key, &end);  // step 3
  quarry_store_release(&at->chain, QUARRY_MAP_RETIRED);  // step 4
  quarry_ref first = quarry_load_relaxed(&map->erased);
  for (;;) {
    quarry_store_release(&at->next, first == 0u ? QUARRY_MAP_END : first);
    quarry_ref const found = quarry_cas_acq_rel(&map->erased, first, entry);
    if (found == first) return true;
    first = found;
  }
}

// Frees erased entries, and returns how many they were. No other work-item may use the map meanwhile.
static inline uint quarry_map_free_erased(quarry_heap heap, __global quarry_map* map) {
  uint count = 0u;
  quarry_ref entry = quarry_exchange_acq_rel(&map->erased, 0u);
  for (; entry > QUARRY_MAP_END; ++count) {
    quarry_ref const next = quarry_map_entry_at(heap, entry)->next;
    (void)quarry_free(heap, entry);
    entry = next;
  }
  return count;
}

// Moves the entries of each `items`-th place of `map`, from `item` on, to `target`. Returns false if some of them
// stay: `target` has no table, or has their keys. Nobody else may use the maps. When all work-items have
// returned true, `map` is empty: free its erased entries, and its table.
static inline bool quarry_map_move(quarry_heap heap, __global quarry_map* map, __global quarry_map* target, uint item,
                                   uint items) {
  if (target->table == 0u) return map->table == 0u;
  ulong const places = quarry_map_places(map);
  uint moved = 0u;
  bool has_moved_all = true;
  for (ulong place = item; place < places; place += items) {
    __global uint* link = quarry_map_place(heap, map, (uint)place);
    for (quarry_ref entry = *link; entry != 0u;) {
      __global quarry_map_entry* const at = quarry_map_entry_at(heap, entry);
      quarry_ref const next = at->chain;
      quarry_ref spare = entry;
      bool is_new;
      (void)quarry_map_ensure_with(heap, target, at->key, at->value, &spare, &is_new);
      if (is_new) {
        *link = next;
        ++moved;
      } else {
        at->chain = next;
        link = &at->chain;
        has_moved_all = false;
      }
      entry = next;
    }
  }
  if (moved != 0u) (void)quarry_add_relaxed(&map->size, 0u - moved);
  return has_moved_all;
}

// Removes and frees the entries of each `items`-th place, from `item` on, and returns how many there were. Nobody
// else may use these places. When all work-items have returned, free `table`, or use the empty map. Erased
// entries stay for quarry_map_free_erased.
static inline uint quarry_map_clear(quarry_heap heap, __global quarry_map* map, uint item, uint items) {
  ulong const places = quarry_map_places(map);
  uint count = 0u;
  for (ulong place = item; place < places; place += items) {
    __global uint* const at = quarry_map_place(heap, map, (uint)place);
    for (quarry_ref entry = *at; entry != 0u; ++count) {
      quarry_ref const next = quarry_map_entry_at(heap, entry)->chain;
      (void)quarry_free(heap, entry);
      entry = next;
    }
    *at = 0u;
  }
  if (count != 0u) (void)quarry_add_relaxed(&map->size, 0u - count);
  return count;
}
