// SPDX-License-Identifier: Apache-2.0
// A cache in local memory: slots that a work-group claimed ahead for its work-items. A malloc then
// takes two atomics of local memory, and the heap is asked once for up to 256 slots.
//
//   __local quarry_cache cache;
//   quarry_cache_init(&cache);                                 // all work-items of the group
//   quarry_ref r = quarry_cache_malloc(heap, &cache, bytes);   // any of them, at any time
//   quarry_cache_return(heap, &cache);                         // all of them, before the kernel ends
//
// Allocations are those of quarry_malloc, and any work-item of any group may free them by quarry_free.
// A free goes to the heap, not to the cache, so it is checked as usual. A kernel that does not call
// quarry_cache_return leaves unused slots allocated.
//
// The cache serves sizes up to 256 bytes, of the first two classes that the group asks for; other
// requests go to the heap. Devices whose local memory is a part of global memory have no use for a
// cache: there QUARRY_GROUP_CACHE is 0, quarry_cache_malloc is quarry_malloc, and the rest does
// nothing.
//
// Memory order. Each entry of a list has a bit in `empty`, in `full`, or in neither of them. A
// work-item clears the bit of an entry, then has the entry for itself, and sets the bit in the other
// word. These RMWs are acquire and release within the group, so an entry passes from its writer to
// its reader, and back. No work-item waits for another one.
#pragma once

#include "heap.cl"
#include "local_atomics.cl"

#ifndef QUARRY_GROUP_CACHE  // the host defines it for the device
#define QUARRY_GROUP_CACHE 0
#endif

#if QUARRY_GROUP_CACHE

#define QUARRY_CACHE_CLASSES 2
#define QUARRY_CACHE_PARTS 8            // of 32 entries each
#define QUARRY_CACHE_UNITS 16u          // larger slots are not cached

typedef struct quarry_cache_list {
  uint class_and_one;  // 0: none yet
  uint full[QUARRY_CACHE_PARTS];
  uint empty[QUARRY_CACHE_PARTS];
  quarry_ref entries[QUARRY_CACHE_PARTS * 32];
} quarry_cache_list;

typedef struct quarry_cache {
  quarry_cache_list lists[QUARRY_CACHE_CLASSES];
} quarry_cache;

// Empties the cache. All work-items of the group must call.
static inline void quarry_cache_init(__local quarry_cache* cache) {
  for (uint i = (uint)get_local_id(0); i < QUARRY_CACHE_CLASSES * QUARRY_CACHE_PARTS; i += (uint)get_local_size(0)) {
    __local quarry_cache_list* const list = &cache->lists[i / QUARRY_CACHE_PARTS];
    list->class_and_one = 0u;
    list->full[i % QUARRY_CACHE_PARTS] = 0u;
    list->empty[i % QUARRY_CACHE_PARTS] = ~0u;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// The list of class `id`; a null pointer if all lists have other classes.
static inline __local quarry_cache_list* quarry_cache_list_of(__local quarry_cache* cache, uint id) {
  for (uint i = 0; i < QUARRY_CACHE_CLASSES; ++i) {
    __local quarry_cache_list* const list = &cache->lists[i];
    uint seen = quarry_local_load(&list->class_and_one);
    if (seen == 0u) seen = quarry_local_cas(&list->class_and_one, 0u, id + 1u);
    if (seen == 0u || seen == id + 1u) return list;
  }
  return 0;
}

// Puts slots into the list, and those for which it has no entry back into the heap.
static inline void quarry_cache_put(quarry_heap heap, __local quarry_cache_list* list, uint id, quarry_slots slots) {
  uint const units = quarry_units_of_class(id, quarry_span_shift(heap));
  uint const base = quarry_base_of_span(heap, slots.span) + slots.word * 32u * units;
  for (uint part = 0; part < QUARRY_CACHE_PARTS && slots.bits != 0u; ++part) {
    uint const empty = quarry_local_load(&list->empty[part]);
    if (empty == 0u) continue;
    uint const wanted = quarry_pick_bits(empty, popcount(slots.bits), 0u);
    uint const taken = quarry_local_and(&list->empty[part], ~wanted) & wanted;
    for (uint rest = taken; rest != 0u; rest &= rest - 1u) {
      list->entries[part * 32u + quarry_lowest_bit(rest)] = base + quarry_lowest_bit(slots.bits) * units;
      slots.bits &= slots.bits - 1u;
    }
    if (taken != 0u) (void)quarry_local_or(&list->full[part], taken);
  }
  if (slots.bits != 0u) quarry_undo_claim(heap, slots.span, slots.word, slots.bits);
}

// Claims slots for the list: all of a lease, a word for each member of the team, or, if the area's
// ticket gives none, up to 32 as a malloc does. Returns false if the leader found no slot that way.
QUARRY_OUT_OF_LINE static bool quarry_cache_refill(quarry_heap heap, __local quarry_cache_list* list, uint id,
                                                   quarry_team team) {
  uint const size = quarry_team_size(team), lease = QUARRY_LAYOUT(heap, lease_words);
  uint const words = max(size / 4u / lease, 1u) * lease;
  quarry_search const search = quarry_search_of(heap, id);
  quarry_slots found = {0u, 0u, 0u};
  uint first = 0u;  // a hint
  if (quarry_leads(team) && words <= QUARRY_CACHE_PARTS) first = quarry_lease_by_ticket(heap, &search, words);
  first = quarry_from_leader(team, first);
  if (first == 0u) {
    if (quarry_leads(team)) found = quarry_claim_or_reclaim(heap, id, 32u);
    if (found.bits != 0u) quarry_cache_put(heap, list, id, found);
    return quarry_from_leader(team, found.bits) != 0u;
  }
  found.span = quarry_span_of_hint(first);
  uint const begin = quarry_word_of_hint(first), end = min(begin + words, search.words);
  for (found.word = begin + quarry_rank_in(team); found.word < end; found.word += size) {
    uint used = 0u;
    found.bits = quarry_claim_bits(heap, id, found.span, found.word, &used, 32u, 0u);
    if (found.bits != 0u) quarry_cache_put(heap, list, id, found);
  }
  quarry_team_meet(team);
  return true;
}

// Takes a slot of the list for each member of the team, as long as one part of the list has slots.
// Returns 0 to the other members. `is_empty`: no member got a slot.
static inline quarry_ref quarry_cache_take(__local quarry_cache_list* list, quarry_team team, bool* is_empty) {
  uint taken = 0u, part = 0u;
  if (quarry_leads(team)) {
    for (; part < QUARRY_CACHE_PARTS && taken == 0u; ++part) {
      uint const full = quarry_local_load(&list->full[part]);
      if (full == 0u) continue;
      uint const wanted = quarry_pick_bits(full, quarry_team_size(team), 0u);
      taken = quarry_local_and(&list->full[part], ~wanted) & wanted;
    }
    --part;
  }
  taken = quarry_from_leader(team, taken);
  part = quarry_from_leader(team, part);
  *is_empty = taken == 0u;
  if (taken == 0u) return 0u;
  uint bits = taken;
  quarry_ref result = 0u;
  if (quarry_rank_in(team) < popcount(taken)) {
    for (uint i = quarry_rank_in(team); i != 0u; --i) bits &= bits - 1u;
    result = list->entries[part * 32u + quarry_lowest_bit(bits)];
  }
  quarry_team_meet(team);  // all have read their entries
  if (quarry_leads(team)) (void)quarry_local_or(&list->empty[part], taken);
  return result;
}

// Allocates `bytes` bytes as quarry_malloc does. `cache` may be a null pointer: then from the heap.
static inline quarry_ref quarry_cache_malloc(quarry_heap heap, __local quarry_cache* cache, ulong bytes) {
  __local quarry_cache_list* list = 0;
  uint id = 0u;
  if (cache != 0 && bytes <= QUARRY_CACHE_UNITS * QUARRY_UNIT) {
    id = quarry_class_of(quarry_units_of(bytes), quarry_span_shift(heap));
    list = quarry_cache_list_of(cache, id);
  }
  for (uint refills = 0; list != 0 && refills < QUARRY_ROUNDS;) {
    quarry_team const team = quarry_team_of(id);
    bool is_empty;
    quarry_ref const result = quarry_cache_take(list, team, &is_empty);
    if (result != 0u) return result;
    if (!is_empty) continue;
    if (!quarry_cache_refill(heap, list, id, team)) break;
    ++refills;
  }
  return quarry_malloc(heap, bytes);
}

// Frees the slots that the cache has. All work-items of the group must call.
static inline void quarry_cache_return(quarry_heap heap, __local quarry_cache* cache) {
  barrier(CLK_LOCAL_MEM_FENCE);
  uint const entries = QUARRY_CACHE_PARTS * 32u;
  for (uint i = (uint)get_local_id(0); i < QUARRY_CACHE_CLASSES * entries; i += (uint)get_local_size(0)) {
    __local quarry_cache_list* const list = &cache->lists[i / entries];
    uint const entry = i % entries, bit = 1u << (entry & 31u);
    if ((quarry_local_and(&list->full[entry >> 5u], ~bit) & bit) == 0u) continue;
    (void)quarry_free(heap, list->entries[entry]);
    (void)quarry_local_or(&list->empty[entry >> 5u], bit);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

#else

typedef struct quarry_cache {
  uint unused;
} quarry_cache;
static inline void quarry_cache_init(__local quarry_cache* cache) { (void)cache; }
static inline quarry_ref quarry_cache_malloc(quarry_heap heap, __local quarry_cache* cache, ulong bytes) {
  (void)cache;
  return quarry_malloc(heap, bytes);
}
static inline void quarry_cache_return(quarry_heap heap, __local quarry_cache* cache) {
  (void)heap;
  (void)cache;
}

#endif
