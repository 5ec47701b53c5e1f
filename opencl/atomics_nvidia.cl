// SPDX-License-Identifier: Apache-2.0
// Tier 2 of atomics.cl: PTX's atomics of device scope (PTX ISA 6.0, compute capability 7.0).
//
// NVIDIA's mem_fence is a fence of the work-group only. An atomic with an order is cheaper than an
// atomic beside a fence, because an acquire order waits for no store of the work-item.
#pragma once

#include "atomics.cl"

#if !defined(QUARRY_AS_CPP) && QUARRY_TIER == 2

#define QUARRY_RMW(name, ptx, order)                                          \
  static inline uint quarry_##name##_##order(__global uint* at, uint value) { \
    uint before;                                                              \
    asm volatile("atom." #order ".gpu.global." ptx " %0, [%1], %2;"           \
                 : "=r"(before)                                               \
                 : "l"(at), "r"(value)                                        \
                 : "memory");                                                 \
    return before;                                                            \
  }
#define QUARRY_RMWS(order)          \
  QUARRY_RMW(or, "or.b32", order)   \
  QUARRY_RMW(and, "and.b32", order) \
  QUARRY_RMW(add, "add.u32", order) \
  QUARRY_RMW(exchange, "exch.b32", order)
QUARRY_RMWS(relaxed)
QUARRY_RMWS(acquire)
QUARRY_RMWS(release)
QUARRY_RMWS(acq_rel)

// This asm is not volatile, so the compiler may keep the value across atomics. It does not keep the
// values of plain loads across atomics.
static inline uint quarry_load_constant(__global uint const* at) {
  uint value;
  asm("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(at));
  return value;
}
#define QUARRY_LOAD(order)                                                                     \
  static inline uint quarry_load_##order(__global uint* at) {                                  \
    uint value;                                                                                \
    asm volatile("ld." #order ".gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory"); \
    return value;                                                                              \
  }
QUARRY_LOAD(relaxed)
QUARRY_LOAD(acquire)
#define QUARRY_STORE(order)                                                                  \
  static inline void quarry_store_##order(__global uint* at, uint value) {                   \
    asm volatile("st." #order ".gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory"); \
  }
QUARRY_STORE(relaxed)
QUARRY_STORE(release)

#define QUARRY_CAS(order)                                                               \
  static inline uint quarry_cas_##order(__global uint* at, uint expected, uint value) { \
    uint before;                                                                        \
    asm volatile("atom." #order ".gpu.global.cas.b32 %0, [%1], %2, %3;"                 \
                 : "=r"(before)                                                         \
                 : "l"(at), "r"(expected), "r"(value)                                   \
                 : "memory");                                                           \
    return before;                                                                      \
  }
QUARRY_CAS(relaxed)
QUARRY_CAS(acq_rel)

static inline void quarry_fence(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
static inline void quarry_store_fenced_release(__global uint* at, uint value) {
  quarry_store_relaxed(at, value);
}
static inline uint quarry_cas_fenced_acq_rel(__global uint* at, uint expected, uint value) {
  return quarry_cas_relaxed(at, expected, value);
}

#endif
