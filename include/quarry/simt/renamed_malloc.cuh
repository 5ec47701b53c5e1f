// SPDX-License-Identifier: Apache-2.0
// Gives other symbols to `malloc`, `free`, `new` and `delete` in the kernels of a file that
// includes this header. replace_malloc.cuh defines these symbols, such as quarry_kernel_malloc.
//
// Method. nvcc compiles a file once for the host and once for each GPU. When nvcc compiles for a
// GPU, this header declares CUDA's functions again with other symbols (`__asm__`). C++ does not see
// the change: names, types, lookup, members called `free`, `std::malloc` and `&malloc` work as
// before, anywhere in the file. Host code is unchanged. No function is replaced in C++'s sense;
// CUDA forbids that for operator new and delete.
//
// Limits:
//   - Code compiled without this header (other files, libraries) keeps CUDA's functions. It must
//     not free memory that a file with this header allocated.
//   - `__nv_aligned_device_malloc` and `cuda::std::aligned_alloc` stay CUDA's. Every file may free
//     their memory.
//   - Kernels cannot use `new (std::nothrow)`, since the object `std::nothrow` does not exist in
//     kernels. They can use `new (std::nothrow_t{})`.
//   - CUDA's manual does not promise such symbols. If a compiler ignores them, kernels call CUDA's
//     functions. nvcc 13.0 honours them; the build checks this
//     (tests/device/replace_malloc/check_ptx.py).
// Rejected: macros `malloc(size)` and `free(pointer)`. They break `std::malloc(8)`, `pool.free(p)`,
// declarations of members with these names, and headers included later. They do not replace `new`.
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

// CUDA has no nothrow operators for kernels, so there is no symbol to rename.
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
