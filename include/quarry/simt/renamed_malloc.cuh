// SPDX-License-Identifier: Apache-2.0
// Gives `malloc`, `free`, `new` and `delete` of this file's kernels other symbols, those of
// quarry_kernel_malloc and so on, which replace_malloc.cuh defines.
//
// How. nvcc compiles a file once for the host and once for each GPU. Where it compiles for a GPU,
// and there only, CUDA's functions are declared again here with a symbol (`__asm__`) of ours. To
// C++ nothing has changed: names, types, lookup, members called `free`, `std::malloc`, `&malloc`
// are what they were, wherever in the file they stand, and host code is not compiled from this at
// all. No function is replaced in C++'s sense, which CUDA forbids for operator new and delete.
//
// What it cannot do:
//   - reach code that is compiled without it: other files, libraries. Such a file must not free
//     what a file with it allocated;
//   - `__nv_aligned_device_malloc` and `cuda::std::aligned_alloc` stay CUDA's; they may be freed
//     everywhere;
//   - `new (std::nothrow)`, since CUDA has no such object in kernels; `new (std::nothrow_t{})`
//     works;
//   - hold for every compiler: CUDA's manual does not promise such symbols. One that ignores them
//     leaves kernels with CUDA's functions; nvcc 13.0 does not, which the build checks
//     (tests/device/replace_malloc/check_ptx.py).
// Rejected: macros `malloc(size)` and `free(pointer)`. They break `std::malloc(8)`, `pool.free(p)`,
// declarations of members with these names, and headers included later, and they know no `new`.
#pragma once

#include "quarry/core/abi.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#ifdef __CUDA_ARCH__
extern "C" __host__ __device__ void* malloc(std::size_t) noexcept __asm__("quarry_kernel_malloc");
extern "C" __host__ __device__ void free(void*) noexcept __asm__("quarry_kernel_free");

__host__ __device__ void* operator new(std::size_t) __asm__("quarry_kernel_malloc");
__host__ __device__ void* operator new[](std::size_t) __asm__("quarry_kernel_malloc");
__host__ __device__ void* operator new(std::size_t,
                                       std::align_val_t) __asm__("quarry_kernel_malloc_aligned");
__host__ __device__ void* operator new[](std::size_t,
                                         std::align_val_t) __asm__("quarry_kernel_malloc_aligned");

__host__ __device__ void operator delete(void*) noexcept __asm__("quarry_kernel_free");
__host__ __device__ void operator delete[](void*) noexcept __asm__("quarry_kernel_free");
__host__ __device__ void operator delete(void*, std::size_t) noexcept
    __asm__("quarry_kernel_free_sized");
__host__ __device__ void operator delete[](void*, std::size_t) noexcept
    __asm__("quarry_kernel_free_sized");
__host__ __device__ void operator delete(void*, std::align_val_t) noexcept
    __asm__("quarry_kernel_free_aligned");
__host__ __device__ void operator delete[](void*, std::align_val_t) noexcept
    __asm__("quarry_kernel_free_aligned");
__host__ __device__ void operator delete(void*, std::size_t, std::align_val_t) noexcept
    __asm__("quarry_kernel_free_sized_aligned");
__host__ __device__ void operator delete[](void*, std::size_t, std::align_val_t) noexcept
    __asm__("quarry_kernel_free_sized_aligned");

// CUDA has none of these for kernels, so that there is nothing to rename.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 20040  // "a __host__ function redeclared with __host__ __device__"
#pragma nv_diag_suppress 2620   // "declaring a new or delete operator inline is nonstandard"
inline __host__ __device__ void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
  return malloc(size);
}
inline __host__ __device__ void* operator new[](std::size_t size, std::nothrow_t const&) noexcept {
  return malloc(size);
}
inline __host__ __device__ void* operator new(std::size_t size, std::align_val_t alignment,
                                              std::nothrow_t const&) noexcept {
  return ::operator new(size, alignment);
}
inline __host__ __device__ void* operator new[](std::size_t size, std::align_val_t alignment,
                                                std::nothrow_t const&) noexcept {
  return ::operator new[](size, alignment);
}
#pragma nv_diagnostic pop
#endif
