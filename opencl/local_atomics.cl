// SPDX-License-Identifier: Apache-2.0
// Atomics of local memory: RMWs are acquire and release within the work-group, loads are relaxed.
#pragma once

#include "atomics.cl"

#if !defined(QUARRY_AS_CPP)

static inline uint quarry_local_load(__local uint* at) { return *(volatile __local uint*)at; }

#if QUARRY_TIER == 1

#define QUARRY_LOCAL_RMW(name, function)                                                        \
  static inline uint quarry_local_##name(__local uint* at, uint value) {                        \
    return function((volatile __local atomic_uint*)at, value, memory_order_acq_rel,             \
                    memory_scope_work_group);                                                   \
  }
QUARRY_LOCAL_RMW(or, atomic_fetch_or_explicit)
QUARRY_LOCAL_RMW(and, atomic_fetch_and_explicit)
static inline uint quarry_local_cas(__local uint* at, uint expected, uint value) {
  atomic_compare_exchange_strong_explicit((volatile __local atomic_uint*)at, &expected, value, memory_order_acq_rel,
                                          memory_order_acquire, memory_scope_work_group);
  return expected;
}

#else

// OpenCL C 1.2's atomics are relaxed. PTX has a fence for this; mem_fence is a slower one of
// sequential consistency on NVIDIA's GPUs.
#if QUARRY_TIER == 2
static inline void quarry_local_fence(void) { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
#else
static inline void quarry_local_fence(void) { mem_fence(CLK_LOCAL_MEM_FENCE); }
#endif
#define QUARRY_LOCAL_RMW(name, function)                                 \
  static inline uint quarry_local_##name(__local uint* at, uint value) { \
    quarry_local_fence();                                                \
    uint const before = function((volatile __local uint*)at, value);     \
    quarry_local_fence();                                                \
    return before;                                                       \
  }
QUARRY_LOCAL_RMW(or, atomic_or)
QUARRY_LOCAL_RMW(and, atomic_and)
static inline uint quarry_local_cas(__local uint* at, uint expected, uint value) {
  quarry_local_fence();
  uint const before = atomic_cmpxchg((volatile __local uint*)at, expected, value);
  quarry_local_fence();
  return before;
}

#endif
#endif
