// SPDX-License-Identifier: Apache-2.0
// A hash map from 32-bit keys to 32-bit values: a table of buckets, each the first entry of a
// chain. Work-items insert, find and erase at any time, and no work-item waits. A map is never
// full, but a search is O(entries of a bucket). If a map has more entries than buckets,
// quarry_map_move fills a larger table between kernels.
//
// Race: two work-items insert the same key. An insertion writes its entry, and then stores the
// entry's reference behind the last entry of the chain. So all insertions of one key meet at that
// link, and one of them wins.
//
// Race: a work-item appends to an entry that another work-item erases. Erasing takes four steps.
// The work-item that takes the first step also takes the others:
//   1. `next` changes from 0. The key is erased now.
//   2. `next` becomes the entry behind, and `chain` becomes QUARRY_MAP_FROZEN. No work-item can
//      append to the entry now.
//   3. The bucket or the entry before gets that next entry. Any work-item may take this step for a
//      frozen entry.
//   4. `chain` becomes QUARRY_MAP_RETIRED, and `next` becomes the next one of the erased entries. A
//      work-item that is still at this entry begins again at the bucket, which no longer leads to
//      the entry.
// Price: an erased entry stays allocated until quarry_map_free_erased, because other work-items may
// still read it. So no reference is reused while a kernel runs, and a compare-and-swap cannot take
// a new entry for an old one.
#pragma once

#include "list.cl"

#define QUARRY_MAP_MAX_BUCKETS 0x80000000u

// Values that stand for references. They lie in the unused first bytes, so no allocation has these
// references.
#define QUARRY_MAP_FROZEN 1u   // `chain`: `next` is the entry behind
#define QUARRY_MAP_RETIRED 2u  // `chain`: the entry is in no chain
#define QUARRY_MAP_ERASED 1u   // `next`: step 1
#define QUARRY_MAP_END 2u      // `next`: the last entry

typedef struct quarry_map_entry {
  quarry_ref next;  // 0 unless erased
  uint key;
  uint value;
  quarry_ref chain;  // the entry behind this one
} quarry_map_entry;

// All fields are atomics while kernels run. A map whose fields are 0 has no table and no entries,
// and insertions fail.
typedef struct quarry_map {
  quarry_ref table;
  uint mask;  // the table's buckets - 1
  uint size;  // the number of entries
  quarry_ref erased;
} quarry_map;

static inline __global quarry_map_entry* quarry_map_entry_at(quarry_heap heap, quarry_ref entry) {
  return (__global quarry_map_entry*)quarry_at(heap, entry);
}
static inline __global uint* quarry_map_value(quarry_heap heap, quarry_ref entry) {
  return &quarry_map_entry_at(heap, entry)->value;
}
static inline __global uint* quarry_map_bucket(quarry_heap heap, __global quarry_map* map,
                                               uint bucket) {
  return (__global uint*)quarry_at(heap, map->table) + (bucket & map->mask);
}
// The number of the table's buckets; 0 without a table.
static inline ulong quarry_map_buckets(__global quarry_map* map) {
  return map->table == 0u ? 0u : (ulong)map->mask + 1u;
}
static inline uint quarry_map_hash(uint key) {
  key = (key ^ (key >> 16u)) * 0x7feb352du;
  key = (key ^ (key >> 15u)) * 0x846ca68bu;
  return key ^ (key >> 16u);
}

// Makes `map`, whose bytes may have any value, a map with a table of `buckets` buckets, rounded up
// to a power of two. A good number is twice the expected number of entries. Returns false and makes
// a map without a table if `buckets` is 0 or above 2^31, or if there is no memory. Afterwards all
// work-items of a separate kernel must call quarry_map_empty.
static inline bool quarry_map_init(quarry_heap heap, __global quarry_map* map, uint buckets) {
  map->table = map->mask = map->size = map->erased = 0u;
  if (buckets == 0u || buckets > QUARRY_MAP_MAX_BUCKETS) return false;
  uint const mask = buckets == 1u ? 0u : ~0u >> clz(buckets - 1u);
  map->table = quarry_malloc(heap, ((ulong)mask + 1u) * 4u);
  if (map->table != 0u) map->mask = mask;
  return map->table != 0u;
}
// Empties the buckets `item`, `item` + `items`, and so on. Returns false if the map has no table.
static inline bool quarry_map_empty(quarry_heap heap, __global quarry_map* map, uint item,
                                    uint items) {
  ulong const buckets = quarry_map_buckets(map);
  for (ulong bucket = item; bucket < buckets; bucket += items)
    *quarry_map_bucket(heap, map, (uint)bucket) = 0u;
  return buckets != 0u;
}

// Returns the entry behind `entry`, or null. Returns QUARRY_MAP_RETIRED if `entry` is in no chain.
static inline quarry_ref quarry_map_next(__global quarry_map_entry* entry, bool* is_frozen) {
  quarry_ref next = quarry_load_acquire(&entry->chain);
  *is_frozen = next == QUARRY_MAP_FROZEN;
  if (!*is_frozen) return next;
  next = quarry_load_acquire(&entry->next);
  if (quarry_load_acquire(&entry->chain) != QUARRY_MAP_FROZEN)
    return QUARRY_MAP_RETIRED;  // step 4 changed `next`
  return next == QUARRY_MAP_END ? 0u : next;
}

// Returns the entry of `key`. If there is none, returns null, and `end` is the link behind the last
// entry. Takes frozen entries out of the chain. Requires that the map has a table.
static inline quarry_ref quarry_map_search(quarry_heap heap, __global quarry_map* map, uint key,
                                           __global uint** end) {
  for (*end = 0;;) {
    __global uint* link = quarry_map_bucket(heap, map, quarry_map_hash(key));
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
        // handover: reader
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
    quarry_ref entry = quarry_load_acquire(quarry_map_bucket(heap, map, quarry_map_hash(key)));
    while (entry > QUARRY_MAP_RETIRED) {
      __global quarry_map_entry* const at = quarry_map_entry_at(heap, entry);
      if (at->key == key && quarry_load_acquire(&at->next) == 0u) return entry;  // handover: reader
      bool is_frozen;
      entry = quarry_map_next(at, &is_frozen);
    }
    if (entry == 0u) return 0u;
  }
}

// Returns the entry of `key`. If there is no such entry, adds one with `value` and sets `is_new`.
// Returns null and adds nothing if there is no memory or the map has no table. `spare`: memory for
// an entry, or null. If the key seems to be new, the call uses this memory, or allocates it. Memory
// that remains in `spare` belongs to the caller, for its next call.
static inline quarry_ref quarry_map_ensure_with(quarry_heap heap, __global quarry_map* map,
                                                uint key, uint value, quarry_ref* spare,
                                                bool* is_new) {
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
    at->key = key;              // handover: owner, atomics
    at->value = value;          // handover: owner, atomics
    at->next = at->chain = 0u;  // handover: owner, atomics
    if (quarry_cas_acq_rel(end, 0u, fresh) != 0u)
      continue;  // another work-item appended an entry, or the last entry was erased
    *spare = 0u;
    *is_new = true;
    (void)quarry_add_relaxed(&map->size, 1u);
    return fresh;
  }
}
static inline quarry_ref quarry_map_ensure(quarry_heap heap, __global quarry_map* map, uint key,
                                           uint value, bool* is_new) {
  quarry_ref spare = 0u;
  quarry_ref const found = quarry_map_ensure_with(heap, map, key, value, &spare, is_new);
  (void)quarry_free(heap, spare);
  return found;
}

// Removes the entry of `key`. Returns whether this call removed it. quarry_map_free_erased frees
// the entry's memory.
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
  (void)quarry_map_search(heap, map, key, &end);         // step 3
  quarry_store_release(&at->chain, QUARRY_MAP_RETIRED);  // step 4
  quarry_ref first = quarry_load_relaxed(&map->erased);
  for (;;) {
    quarry_store_release(&at->next, first == 0u ? QUARRY_MAP_END : first);
    quarry_ref const found = quarry_cas_acq_rel(&map->erased, first, entry);
    if (found == first) return true;
    first = found;
  }
}

// Frees erased entries and returns their number. Requires that no other work-item uses the map.
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

// Moves the entries of the buckets `item`, `item` + `items`, and so on, of `map` to `target`.
// Returns false if some entries stay, because `target` has no table or has their keys. Requires
// that no other work-item uses the maps, except for those that run this function. When all
// work-items have returned true, `map` is empty: free its erased entries and its table.
static inline bool quarry_map_move(quarry_heap heap, __global quarry_map* map,
                                   __global quarry_map* target, uint item, uint items) {
  if (target->table == 0u) return map->table == 0u;
  ulong const buckets = quarry_map_buckets(map);
  uint moved = 0u;
  bool has_moved_all = true;
  for (ulong bucket = item; bucket < buckets; bucket += items) {
    __global uint* link = quarry_map_bucket(heap, map, (uint)bucket);
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

// Removes and frees the entries of the buckets `item`, `item` + `items`, and so on. Returns the
// number of these entries. Requires that no other work-item uses these buckets. When all work-items
// have returned, free `table` or use the empty map. Erased entries stay until
// quarry_map_free_erased.
static inline uint quarry_map_clear(quarry_heap heap, __global quarry_map* map, uint item,
                                    uint items) {
  ulong const buckets = quarry_map_buckets(map);
  uint count = 0u;
  for (ulong bucket = item; bucket < buckets; bucket += items) {
    __global uint* const at = quarry_map_bucket(heap, map, (uint)bucket);
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
