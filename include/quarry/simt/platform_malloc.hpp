// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

#include <cstdlib>

namespace quarry::inline QUARRY_ABI::simt {

#ifdef __CUDA_ARCH__
/// A second declaration of the C functions. In a namespace of their own they keep their symbols
/// when renamed_malloc.cuh gives other symbols to `::malloc` and `::free`.
namespace cuda_functions {
extern "C" __device__ void* malloc(std::size_t size) noexcept;
extern "C" __device__ void free(void* pointer) noexcept;
}  // namespace cuda_functions
#endif

/// The platform's malloc: CUDA's malloc in kernels (its heap has cudaLimitMallocHeapSize bytes),
/// the C library's malloc on the CPU. This also holds in files that replace the `malloc` of
/// kernels. Returns nullptr if there is no memory. Any lane may call it.
struct platform_malloc {
  /// Allocates at least `size` bytes, aligned to 16.
  [[nodiscard]] QUARRY_HD static void* malloc(std::size_t size) {
#ifdef __CUDA_ARCH__
    return cuda_functions::malloc(size);
#else
    return std::malloc(size);
#endif
  }

  /// Allocates at least `size` bytes at a multiple of `alignment`, a power of two.
  [[nodiscard]] QUARRY_HD static void* aligned_malloc(std::size_t alignment, std::size_t size) {
#ifdef __CUDA_ARCH__
    return __nv_aligned_device_malloc(size, alignment);
#else
    alignment = alignment < alignof(std::max_align_t) ? alignof(std::max_align_t) : alignment;
    return std::aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
#endif
  }

  /// Frees an allocation that either function returned; ignores nullptr.
  QUARRY_HD static void free(void* pointer) {
#ifdef __CUDA_ARCH__
    cuda_functions::free(pointer);
#else
    std::free(pointer);
#endif
  }
};

}  // namespace quarry::inline QUARRY_ABI::simt
