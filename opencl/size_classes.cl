// SPDX-License-Identifier: Apache-2.0
// Size classes of slots, in units of 16 bytes. The classes are 1 to 8 units, then eight classes to
// each doubling up to an eighth of a span, then slots of which a span has 7, 6, 5 and 4. If all
// requests have one size above 8 units, at least 80 % of a full span is requested bytes, rounded up
// to units.
#pragma once

#include "heap_layout.cl"

// The index of the highest bit that is set. Requires a value above 0.
static inline uint quarry_highest_bit(uint value) { return 31u - clz(value); }
static inline uint quarry_lowest_bit(uint value) {
  return quarry_highest_bit(value & (0u - value));
}

// `span_shift`: log2 of a span's units.
static inline uint quarry_class_of(uint units, uint span_shift) {
  if (units <= 8u) return units - 1u;
  uint const limit = 1u << (span_shift - 3u);
  if (units > limit) return (span_shift - 5u) * 8u + 7u - (1u << span_shift) / units;
  uint const doubling = quarry_highest_bit(units - 1u);
  return (doubling - 3u) * 8u + ((units - 1u) >> (doubling - 3u));
}
static inline uint quarry_units_of_class(uint id, uint span_shift) {
  if (id < 8u) return id + 1u;
  uint const last = (span_shift - 5u) * 8u;
  if (id >= last) return (1u << span_shift) / (7u - (id - last));
  uint const doubling = (id >> 3u) + 2u;
  return ((id & 7u) + 9u) << (doubling - 3u);
}
static inline uint quarry_class_count(uint span_shift) { return (span_shift - 5u) * 8u + 4u; }
static inline uint quarry_slots_of_class(uint id, uint span_shift) {
  return (1u << span_shift) / quarry_units_of_class(id, span_shift);
}
