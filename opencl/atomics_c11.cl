// SPDX-License-Identifier: Apache-2.0
// Tier 1 of atomics.cl: C11 atomics of device scope.
#pragma once

#include "atomics.cl"

#if !defined(QUARRY_AS_CPP) && QUARRY_TIER == 1

#define QUARRY_SHARED(at) ((volatile __global atomic_uint*)(at))
#define QUARRY_RMW(name, function, order)                                                 \
  static inline uint quarry_##name##_##order(__global uint* at, uint value) {             \
    return function(QUARRY_SHARED(at), value, memory_order_##order, memory_scope_device); \
  }
#define QUARRY_RMWS(order)                          \
  QUARRY_RMW(or, atomic_fetch_or_explicit, order)   \
  QUARRY_RMW(and, atomic_fetch_and_explicit, order) \
  QUARRY_RMW(add, atomic_fetch_add_explicit, order) \
  QUARRY_RMW(exchange, atomic_exchange_explicit, order)
QUARRY_RMWS(relaxed)
QUARRY_RMWS(acquire)
QUARRY_RMWS(release)
QUARRY_RMWS(acq_rel)

static inline uint quarry_load_constant(__global uint const* at) { return *at; }
static inline uint quarry_load_relaxed(__global uint* at) {
  return atomic_load_explicit(QUARRY_SHARED(at), memory_order_relaxed, memory_scope_device);
}
static inline uint quarry_load_acquire(__global uint* at) {
  return atomic_load_explicit(QUARRY_SHARED(at), memory_order_acquire, memory_scope_device);
}
static inline void quarry_store_relaxed(__global uint* at, uint value) {
  atomic_store_explicit(QUARRY_SHARED(at), value, memory_order_relaxed, memory_scope_device);
}
static inline void quarry_store_release(__global uint* at, uint value) {
  atomic_store_explicit(QUARRY_SHARED(at), value, memory_order_release, memory_scope_device);
}
// Stores `value` if the word is `expected`. Returns the previous word.
static inline uint quarry_cas_relaxed(__global uint* at, uint expected, uint value) {
  atomic_compare_exchange_strong_explicit(QUARRY_SHARED(at), &expected, value, memory_order_relaxed,
                                          memory_order_relaxed, memory_scope_device);
  return expected;
}
static inline uint quarry_cas_acq_rel(__global uint* at, uint expected, uint value) {
  atomic_compare_exchange_strong_explicit(QUARRY_SHARED(at), &expected, value, memory_order_acq_rel,
                                          memory_order_acquire, memory_scope_device);
  return expected;
}

static inline void quarry_fence(void) {}
static inline void quarry_store_fenced_release(__global uint* at, uint value) {
  quarry_store_release(at, value);
}
static inline uint quarry_cas_fenced_acq_rel(__global uint* at, uint expected, uint value) {
  return quarry_cas_acq_rel(at, expected, value);
}

#endif
