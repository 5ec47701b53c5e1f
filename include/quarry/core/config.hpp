// SPDX-License-Identifier: Apache-2.0
// Macros for the differences between compilers, and the heap's layout version, which must be the
// same in the host's code and in kernels.
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

/// Keeps a function out of line, so that its body does not take part in the caller's register
/// allocation; see simt/indirect_call.hpp.
#define QUARRY_SLOW QUARRY_HD QUARRY_NOINLINE

/// Keeps a loop of a slow path small. The loop's code and registers cost every kernel that contains
/// the slow path.
#ifdef __CUDA_ARCH__
#define QUARRY_NO_UNROLL _Pragma("unroll 1")
#else
#define QUARRY_NO_UNROLL
#endif

/// Unrolls a loop whose values must stay in registers.
#ifdef __CUDA_ARCH__
#define QUARRY_UNROLL _Pragma("unroll")
#else
#define QUARRY_UNROLL
#endif

/// Lets four loads of a slow path's loop be in flight at once, at the cost of their registers.
#ifdef __CUDA_ARCH__
#define QUARRY_UNROLL_4 _Pragma("unroll 4")
#else
#define QUARRY_UNROLL_4
#endif

namespace quarry::inline QUARRY_ABI {

/// The version of the layout of the in-kernel heap's shared state. A kernel refuses a heap of
/// another version (heap_build).
inline constexpr std::uint32_t layout_version = 9;

}  // namespace quarry::inline QUARRY_ABI
