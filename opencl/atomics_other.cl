// SPDX-License-Identifier: Apache-2.0
// Tier 3 of atomics.cl: each atomic of OpenCL C 1.2 stands between all fences of OpenCL C 1.2.
// Loads and stores are RMWs, because a cache that other work-groups do not share may serve a plain
// access.
#pragma once

#include "atomics.cl"

#if !defined(QUARRY_AS_CPP) && QUARRY_TIER == 3

#define QUARRY_SHARED(at) ((volatile __global uint*)(at))
static inline void quarry_fence(void) {
  read_mem_fence(CLK_GLOBAL_MEM_FENCE);
  write_mem_fence(CLK_GLOBAL_MEM_FENCE);
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}
#define QUARRY_BEFORE_relaxed
#define QUARRY_AFTER_relaxed
#define QUARRY_BEFORE_acquire
#define QUARRY_AFTER_acquire quarry_fence()
#define QUARRY_BEFORE_release quarry_fence()
#define QUARRY_AFTER_release
#define QUARRY_BEFORE_acq_rel quarry_fence()
#define QUARRY_AFTER_acq_rel quarry_fence()
#define QUARRY_RMW(name, function, order)                                     \
  static inline uint quarry_##name##_##order(__global uint* at, uint value) { \
    QUARRY_BEFORE_##order;                                                    \
    uint const before = function(QUARRY_SHARED(at), value);                   \
    QUARRY_AFTER_##order;                                                     \
    return before;                                                            \
  }
#define QUARRY_RMWS(order)           \
  QUARRY_RMW(or, atomic_or, order)   \
  QUARRY_RMW(and, atomic_and, order) \
  QUARRY_RMW(add, atomic_add, order) \
  QUARRY_RMW(exchange, atomic_xchg, order)
QUARRY_RMWS(relaxed)
QUARRY_RMWS(acquire)
QUARRY_RMWS(release)
QUARRY_RMWS(acq_rel)

static inline uint quarry_load_constant(__global uint const* at) { return *at; }
static inline uint quarry_load_relaxed(__global uint* at) { return quarry_or_relaxed(at, 0u); }
static inline uint quarry_load_acquire(__global uint* at) { return quarry_or_acquire(at, 0u); }
static inline void quarry_store_relaxed(__global uint* at, uint value) {
  (void)quarry_exchange_relaxed(at, value);
}
static inline void quarry_store_release(__global uint* at, uint value) {
  (void)quarry_exchange_release(at, value);
}
static inline void quarry_store_fenced_release(__global uint* at, uint value) {
  quarry_store_relaxed(at, value);
}
static inline uint quarry_cas_relaxed(__global uint* at, uint expected, uint value) {
  return atomic_cmpxchg(QUARRY_SHARED(at), expected, value);
}
static inline uint quarry_cas_fenced_acq_rel(__global uint* at, uint expected, uint value) {
  return quarry_cas_relaxed(at, expected, value);
}
static inline uint quarry_cas_acq_rel(__global uint* at, uint expected, uint value) {
  quarry_fence();
  uint const before = quarry_cas_relaxed(at, expected, value);
  quarry_fence();
  return before;
}

#endif
