// SPDX-License-Identifier: Apache-2.0
// OpenCL C as C++: the heap's sources, compiled by the host's compiler, and run as fibers or
// threads.
//
// Everything lies in `quarry::opencl_c`. Atomics are simt's, so that a seed decides interleavings
// and ThreadSanitizer sees them. A work-item is a lane; its group is a thread block.
#pragma once

#include "opencl/heap_plan.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace quarry::opencl_c {

using namespace opencl;
using ulong = std::uint64_t;
using std::max;
using std::min;
struct alignas(16) uint4 {
  uint x, y, z, w;
};

inline uint popcount(uint value) { return static_cast<uint>(std::popcount(value)); }
inline uint rotate(uint value, uint count) { return std::rotl(value, static_cast<int>(count)); }

// A warp of fibers is one group of 32 work-items; each thread is a group of one.
inline std::size_t get_group_id(uint) { return simt::this_place().block; }
inline std::size_t get_local_id(uint) { return simt::this_place().thread; }
inline std::size_t get_local_size(uint) { return simt::this_place().threads; }

#define QUARRY_RMW(name, function, order)                            \
  inline uint quarry_##name##_##order(uint* at, uint value) {        \
    return simt::atomic_ref<uint>{*at}.function(value, simt::order); \
  }
#define QUARRY_RMWS(order)          \
  QUARRY_RMW(or, fetch_or, order)   \
  QUARRY_RMW(and, fetch_and, order) \
  QUARRY_RMW(add, fetch_add, order) \
  QUARRY_RMW(exchange, exchange, order)
QUARRY_RMWS(relaxed)
QUARRY_RMWS(acquire)
QUARRY_RMWS(release)
QUARRY_RMWS(acq_rel)
inline uint quarry_load_relaxed(uint* at) {
  return simt::atomic_ref<uint>{*at}.load(simt::relaxed);
}
inline uint quarry_load_acquire(uint* at) {
  return simt::atomic_ref<uint>{*at}.load(simt::acquire);
}
inline void quarry_store_relaxed(uint* at, uint value) {
  simt::atomic_ref<uint>{*at}.store(value, simt::relaxed);
}
inline void quarry_store_release(uint* at, uint value) {
  simt::atomic_ref<uint>{*at}.store(value, simt::release);
}
inline void quarry_fence() {}
inline void quarry_store_fenced_release(uint* at, uint value) { quarry_store_release(at, value); }
inline uint quarry_cas_relaxed(uint* at, uint expected, uint value) {
  simt::atomic_ref<uint>{*at}.compare_exchange(expected, value, simt::relaxed);
  return expected;
}
inline uint quarry_cas_acq_rel(uint* at, uint expected, uint value) {
  simt::atomic_ref<uint>{*at}.compare_exchange(expected, value, simt::acq_rel);
  return expected;
}
inline uint quarry_cas_fenced_acq_rel(uint* at, uint expected, uint value) {
  return quarry_cas_acq_rel(at, expected, value);
}
#undef QUARRY_RMW
#undef QUARRY_RMWS

#define QUARRY_AS_CPP
#define __global
#define __local
#define __kernel
#include "heap.cl"
#undef __global
#undef __local
#undef __kernel

}  // namespace quarry::opencl_c
