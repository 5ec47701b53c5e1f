// SPDX-License-Identifier: Apache-2.0
// Trailers, for debug heaps only: the last 16 bytes of each slot, and of the pages of each large
// allocation.
//
//   |requested bytes|gap|canary|number|work-item|bytes of the gap|
//
// The gap is filled with a pattern. The canary is a hash of the reference and of the trailer's
// other words. So a free, and the host's list of live allocations, find a write past the
// requested bytes. They find no write that skips the trailer or that writes the same bytes. A freed
// slot, and a slot that a reserve has not handed out, has a vacant trailer, with a different
// canary.
//
// The heap's flag turns trailers on. Only the host and programs with QUARRY_DEBUG read the flag. In
// a program without QUARRY_DEBUG these functions do nothing and cost nothing. Such a program may
// use a debug heap. Its frees check nothing, and its allocations have no trailer. A checked free of
// such an allocation reports an overrun, or refuses the free as a double free. No other allocation
// changes, because trailers decide nothing else.
//
// Memory order. A trailer and a gap belong to the slot's owner, as the requested bytes do. A free
// reads them before it frees the slot, and malloc writes them after it claims the slot. So (R) and
// (C), or (F) and (P), order the accesses of two owners. Race: two frees of one slot run at the
// same time. A compare-and-swap changes the canary to vacant, so one of the frees is reported.
// Work-items that pass a reference on must order its trailer as they order its bytes: by a release
// and an acquire, or by two kernels.
#pragma once

#include "places.cl"

#define QUARRY_TRAILER_BYTES 16u
#define QUARRY_GAP_BYTE 0xa5u

// The state of an allocation's trailer.
#define QUARRY_TRAILER_INTACT 0u
#define QUARRY_TRAILER_OVERRUN 1u
#define QUARRY_TRAILER_VACANT 2u

static inline bool quarry_has_trailers(quarry_heap heap) {
#if defined(QUARRY_AS_CPP) || (defined(QUARRY_DEBUG) && QUARRY_DEBUG)
  return QUARRY_LAYOUT(heap, has_trailers) != 0u;
#else
  (void)heap;
  return false;
#endif
}

// The bytes to claim for a request of `bytes` bytes.
static inline ulong quarry_padded(quarry_heap heap, ulong bytes) {
  bool const fits = bytes <= ~(ulong)0u - QUARRY_TRAILER_BYTES;
  return quarry_has_trailers(heap) && fits ? bytes + QUARRY_TRAILER_BYTES : bytes;
}

// The size of the slot, or of the pages, that begin at `reference`. Returns 0 if no open span
// contains `reference` and no large allocation begins there.
static inline ulong quarry_slot_bytes(quarry_heap heap, uint reference) {
  uint const offset = reference - QUARRY_LAYOUT(heap, first_unit);
  uint const page_shift = QUARRY_LAYOUT(heap, page_shift), page = offset >> page_shift;
  if (reference < QUARRY_LAYOUT(heap, first_unit) || page >= QUARRY_LAYOUT(heap, usable_pages))
    return 0u;
  uint const id = quarry_load_relaxed(quarry_span_class(heap, offset >> quarry_span_shift(heap)));
  if (id != 0u) return (ulong)quarry_units_of_class(id - 1u, quarry_span_shift(heap)) * QUARRY_UNIT;
  uint const pages =
      quarry_load_relaxed(quarry_words(heap) + QUARRY_LAYOUT(heap, large_pages) + page);
  return (ulong)pages * QUARRY_UNIT << page_shift;
}

static inline __global uint* quarry_trailer(quarry_heap heap, uint reference, ulong slot_bytes) {
  return quarry_words(heap) +
         ((ulong)reference * QUARRY_UNIT + slot_bytes - QUARRY_TRAILER_BYTES) / 4u;
}

static inline uint quarry_mix(uint hash, uint value) {
  hash = (hash ^ value) * 0x9e3779b1u;
  return hash ^ hash >> 15u;
}
// Computes the canary. Its lowest byte is not 0. So a text whose terminating 0 lies one byte behind
// the allocation is found.
static inline uint quarry_canary(uint reference, uint number, uint item, uint gap) {
  return quarry_mix(quarry_mix(quarry_mix(quarry_mix(0u, reference), number), item), gap) | 1u;
}
static inline uint quarry_vacant_canary(uint reference) {
  return quarry_canary(reference, 0u, 0u, QUARRY_NONE);
}

// Writes the trailer of an allocation that the caller hands out, and returns `reference`. Null has
// no effect.
static inline uint quarry_with_trailer(quarry_heap heap, uint reference, ulong bytes) {
  if (reference == 0u || !quarry_has_trailers(heap)) return reference;
  __global uint* const trailer =
      quarry_trailer(heap, reference, quarry_slot_bytes(heap, reference));
  __global uchar* const end = (__global uchar*)trailer;
  __global uchar* byte =
      (__global uchar*)(quarry_words(heap) + (ulong)reference * (QUARRY_UNIT / 4u)) + bytes;
  uint const gap = (uint)(end - byte), item = quarry_seed();
  while (byte != end) *byte++ = QUARRY_GAP_BYTE;  // handover: owner, atomics
  uint const number = quarry_add_relaxed(&heap->allocations_made, 1u) + 1u;
  quarry_store_relaxed(trailer + 1, number);
  quarry_store_relaxed(trailer + 2, item);
  quarry_store_relaxed(trailer + 3, gap);
  quarry_store_relaxed(trailer, quarry_canary(reference, number, item, gap));
  return reference;
}

// Makes the trailer of a claimed slot vacant.
static inline void quarry_write_vacant_trailer(quarry_heap heap, uint reference, ulong slot_bytes) {
  quarry_store_relaxed(quarry_trailer(heap, reference, slot_bytes),
                       quarry_vacant_canary(reference));
}

// Whether the gap of an allocation whose trailer is intact has its pattern.
static inline bool quarry_is_gap_intact(__global uint const* trailer, uint gap) {
  __global uchar const* const end = (__global uchar const*)trailer;
  uint wrong = 0u;
  // handover: owner, atomics
  for (uint i = 1u; i <= gap; ++i) wrong |= *(end - i) ^ QUARRY_GAP_BYTE;
  return wrong == 0u;
}

typedef struct quarry_trailer_view {
  uint state;
  uint canary;     // 0 if an overrun changed the trailer
  uint requested;  // bytes; QUARRY_NONE if 4 GiB or more, or if an overrun changed them
} quarry_trailer_view;

// Reads the trailer of an allocation whose slot or pages have `slot_bytes` bytes.
static inline quarry_trailer_view quarry_view_trailer(quarry_heap heap, uint reference,
                                                      ulong slot_bytes) {
  __global uint* const trailer = quarry_trailer(heap, reference, slot_bytes);
  uint const canary = quarry_load_relaxed(trailer), number = quarry_load_relaxed(trailer + 1);
  uint const item = quarry_load_relaxed(trailer + 2), gap = quarry_load_relaxed(trailer + 3);
  ulong const most = slot_bytes - QUARRY_TRAILER_BYTES;
  quarry_trailer_view view = {QUARRY_TRAILER_OVERRUN, 0u, QUARRY_NONE};
  if (gap <= most && most - gap < QUARRY_NONE) view.requested = (uint)(most - gap);
  if (canary == quarry_vacant_canary(reference)) {
    view.state = QUARRY_TRAILER_VACANT;
  } else if (gap <= most && canary == quarry_canary(reference, number, item, gap)) {
    view.canary = canary;
    if (quarry_is_gap_intact(trailer, gap)) view.state = QUARRY_TRAILER_INTACT;
  }
  return view;
}

// Reads the trailer of an allocation that the caller frees next. Makes a trailer with a canary
// vacant.
static inline quarry_trailer_view quarry_retire_trailer(quarry_heap heap, uint reference,
                                                        ulong slot_bytes) {
  quarry_trailer_view view = quarry_view_trailer(heap, reference, slot_bytes);
  if (view.canary == 0u) return view;
  uint const vacant = quarry_vacant_canary(reference);
  __global uint* const trailer = quarry_trailer(heap, reference, slot_bytes);
  if (quarry_cas_relaxed(trailer, view.canary, vacant) == vacant)
    view.state = QUARRY_TRAILER_VACANT;
  return view;
}
