// SPDX-License-Identifier: Apache-2.0
// What the compiler at hand can do, and the version that host and kernels must agree on.
#pragma once

#include "quarry/core/abi.hpp"

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define QUARRY_HD __host__ __device__
#define QUARRY_NOINLINE __noinline__
#else
#define QUARRY_HD
#define QUARRY_NOINLINE [[gnu::noinline]]
#endif

/// Hides a call's body from the caller's register allocation; see heap_ref's slow paths.
#define QUARRY_SLOW QUARRY_HD QUARRY_NOINLINE

/// Keeps a loop of a slow path small: its code and its registers cost every kernel that contains
/// it.
#ifdef __CUDA_ARCH__
#define QUARRY_NO_UNROLL _Pragma("unroll 1")
#else
#define QUARRY_NO_UNROLL
#endif

/// Has four loads of a slow path's loop under way at once, at the cost of their registers.
#ifdef __CUDA_ARCH__
#define QUARRY_UNROLL_4 _Pragma("unroll 4")
#else
#define QUARRY_UNROLL_4
#endif

namespace quarry::inline QUARRY_ABI {

/// Layout of the in-kernel heap's shared state, below 8. A kernel refuses a heap of another one.
inline constexpr std::uint32_t layout_version = 4;

}  // namespace quarry::inline QUARRY_ABI
