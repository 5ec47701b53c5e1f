// SPDX-License-Identifier: Apache-2.0
// Atomic access to words that work-items of a device share, in three tiers:
//
//   1  OpenCL C 2.0, or 3.0 with acquire-release and device scope: C11 atomics
//   2  NVIDIA: 1.2 atomics, which act at device scope, and PTX's fence.acq_rel.gpu; mem_fence is a
//      fence of the work-group only
//   3  all else: as 2 with both fences, and loads by RMW. Undocumented, so refused unless the
//      ordering self-test passes
//
// Functions are named quarry_OPERATION_ORDER. Their orders mean what they mean in C11. Several
// operations with `fenced` orders share the fences of tiers 2 and 3: quarry_fence() before them for
// fenced_release, before and after them for fenced_acq_rel. In tier 1 each has its own order.
#pragma once

#ifndef QUARRY_AS_CPP  // tests compile these files as C++ and bring their own
#ifndef QUARRY_TIER
#if __OPENCL_C_VERSION__ >= 200 && __OPENCL_C_VERSION__ < 300
#define QUARRY_TIER 1
#elif defined(__opencl_c_atomic_order_acq_rel) && defined(__opencl_c_atomic_scope_device)
#define QUARRY_TIER 1
#else
#define QUARRY_TIER 3
#endif
#endif

#if QUARRY_TIER == 1

#define QUARRY_SHARED(at) ((volatile __global atomic_uint*)(at))
#define QUARRY_RMW(name, function, order)                                              \
  static inline uint quarry_##name##_##order(__global uint* at, uint value) {          \
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
static inline void quarry_fence(void) {}
static inline void quarry_store_fenced_release(__global uint* at, uint value) {
  quarry_store_release(at, value);
}
// The word, for a work-item that must see what others did before it if they do not see what it did:
// each changes a word of its own, and then looks here. An RMW, so that the later one of two sees
// what the earlier one's work-item did.
static inline uint quarry_look(__global uint* at) { return quarry_or_acq_rel(at, 0u); }
// Stores `value` if the word is `expected`. Returns the previous word. Acquire-release.
static inline uint quarry_cas_acq_rel(__global uint* at, uint expected, uint value) {
  atomic_compare_exchange_strong_explicit(QUARRY_SHARED(at), &expected, value, memory_order_acq_rel,
                                          memory_order_acquire, memory_scope_device);
  return expected;
}
static inline uint quarry_cas_fenced_acq_rel(__global uint* at, uint expected, uint value) {
  return quarry_cas_acq_rel(at, expected, value);
}

#else

#if QUARRY_TIER == 2
#define QUARRY_FENCE asm volatile("fence.acq_rel.gpu;" ::: "memory")
#else
#define QUARRY_FENCE                     \
  read_mem_fence(CLK_GLOBAL_MEM_FENCE);  \
  write_mem_fence(CLK_GLOBAL_MEM_FENCE); \
  mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif
#define QUARRY_SHARED(at) ((volatile __global uint*)(at))
#define QUARRY_BEFORE_relaxed
#define QUARRY_AFTER_relaxed
#define QUARRY_BEFORE_acquire
#define QUARRY_AFTER_acquire QUARRY_FENCE
#define QUARRY_BEFORE_release QUARRY_FENCE
#define QUARRY_AFTER_release
#define QUARRY_BEFORE_acq_rel QUARRY_FENCE
#define QUARRY_AFTER_acq_rel QUARRY_FENCE
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

static inline uint quarry_load_relaxed(__global uint* at) {
#if QUARRY_TIER == 2
  return *QUARRY_SHARED(at);
#else
  return atomic_or(QUARRY_SHARED(at), 0u);
#endif
}
static inline uint quarry_load_acquire(__global uint* at) {
  uint const value = quarry_load_relaxed(at);
  QUARRY_FENCE;
  return value;
}
static inline void quarry_store_relaxed(__global uint* at, uint value) {
#if QUARRY_TIER == 2
  *QUARRY_SHARED(at) = value;
#else
  (void)quarry_exchange_relaxed(at, value);
#endif
}
static inline void quarry_fence(void) { QUARRY_FENCE; }
static inline void quarry_store_fenced_release(__global uint* at, uint value) {
  quarry_store_relaxed(at, value);
}
static inline void quarry_store_release(__global uint* at, uint value) {
  QUARRY_FENCE;
  quarry_store_relaxed(at, value);
}
static inline uint quarry_look(__global uint* at) {
#if QUARRY_TIER == 2  // the work-item has the result of its own RMW, which all see by then
  return quarry_load_relaxed(at);
#else
  return quarry_or_acq_rel(at, 0u);
#endif
}
static inline uint quarry_cas_acq_rel(__global uint* at, uint expected, uint value) {
  QUARRY_FENCE;
  uint const before = atomic_cmpxchg(QUARRY_SHARED(at), expected, value);
  QUARRY_FENCE;
  return before;
}
static inline uint quarry_cas_fenced_acq_rel(__global uint* at, uint expected, uint value) {
  return atomic_cmpxchg(QUARRY_SHARED(at), expected, value);
}

#endif
#endif
