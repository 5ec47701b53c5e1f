// SPDX-License-Identifier: Apache-2.0
// The OpenCL C of the heap and its containers, compiled as C++. These are the kernels' functions on
// the host, over a heap that is mapped (mapped_heap) or lies in the host's memory.
//
// All names are the kernels' names, in the namespace `quarry::opencl_c`. Atomics are those of
// simt/. So tests run the same code as fibers, whose interleaving a seed decides, and as threads
// under ThreadSanitizer. A work-item is a lane, and its group is a thread block. Outside a launch
// there is one work-item.
#pragma once

#include "quarry/device/detail/orders.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::opencl_c {

using uint = std::uint32_t;
using ulong = std::uint64_t;
using uchar = unsigned char;
using std::max;
using std::min;
struct alignas(16) uint4 {
  uint x, y, z, w;
};

inline uint clz(uint value) { return static_cast<uint>(std::countl_zero(value)); }
inline uint popcount(uint value) { return static_cast<uint>(std::popcount(value)); }
inline uint rotate(uint value, uint count) { return std::rotl(value, static_cast<int>(count)); }
// Kernels have one dimension here. The other dimensions have one work-item.
inline std::size_t get_group_id(uint dimension) {
  return dimension == 0 ? simt::this_place().block : 0;
}
inline std::size_t get_num_groups(uint dimension) {
  return dimension == 0 ? simt::this_place().blocks : 1;
}
inline std::size_t get_local_id(uint dimension) {
  return dimension == 0 ? simt::this_place().thread : 0;
}
inline std::size_t get_local_size(uint dimension) {
  return dimension == 0 ? simt::this_place().threads : 1;
}
enum fences { CLK_LOCAL_MEM_FENCE, CLK_GLOBAL_MEM_FENCE };
inline void barrier(fences) { simt::block_barrier(); }

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
#undef QUARRY_RMW
#undef QUARRY_RMWS
inline uint quarry_load_constant(uint const* at) { return *at; }
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
inline uint quarry_cas_relaxed(uint* at, uint expected, uint value) {
  simt::atomic_ref<uint>{*at}.compare_exchange(expected, value, simt::relaxed);
  return expected;
}
inline uint quarry_cas_acq_rel(uint* at, uint expected, uint value) {
  for (;;) {
    uint found = expected;
    if (simt::atomic_ref<uint>{*at}.compare_exchange(found, value, simt::acq_rel)) return expected;
    found = quarry_load_acquire(at);  // a failed compare_exchange is relaxed
    if (found != expected) return found;
  }
}
inline void quarry_fence() {}
inline void quarry_store_fenced_release(uint* at, uint value) { quarry_store_release(at, value); }
inline uint quarry_cas_fenced_acq_rel(uint* at, uint expected, uint value) {
  return quarry_cas_acq_rel(at, expected, value);
}

#ifdef QUARRY_MUTANTS  // orders.cl has the labels
#define QUARRY_ATOMIC(operation, label)                                      \
  (detail::is_mutant("opencl-" #label) ? QUARRY_FUNCTION(operation, relaxed) \
                                       : QUARRY_ATOMIC_OF(operation, QUARRY_ORDER_##label))
#endif
#define QUARRY_AS_CPP
#define __global
#define __local
#define __kernel
#include "quarry_opencl/array_list.cl"
#include "quarry_opencl/graph.cl"
#include "quarry_opencl/ordered_map.cl"
#include "quarry_opencl/queue.cl"
#include "quarry_opencl/vector.cl"
#undef __global
#undef __local
#undef __kernel

}  // namespace quarry::inline QUARRY_ABI::opencl_c
