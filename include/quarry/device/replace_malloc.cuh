// SPDX-License-Identifier: Apache-2.0
// A file whose kernels call malloc, free, new or delete includes this header, anywhere. Then
// `quarry::replace_malloc` (replace_malloc.hpp) makes these calls use a heap, and
// `quarry::restore_malloc` makes them use CUDA's malloc again. Before the first call of
// `replace_malloc` they use CUDA's malloc. Host code is not affected. Every file whose kernels free
// memory of such a file must include this header; `nvcc -include quarry/device/replace_malloc.cuh`
// includes it everywhere. The header works with and without -rdc. With -rdc, nvlink warns that it
// does not know the stack size; --suppress-stack-size-warning silences the warning.
// simt/renamed_malloc.cuh explains the method and its limits.
#pragma once

#include "quarry/device/replace_malloc.hpp"
#include "quarry/simt/launch.cuh"
#include "quarry/simt/renamed_malloc.cuh"

namespace quarry::inline QUARRY_ABI::replaced {
namespace {  // in a header on purpose: each file that includes it has its own route

/// Guarded by: the host changes it while no kernel runs.
__constant__ malloc_route route;

[[maybe_unused]] file_with_route const this_file{
    backend::cuda,
    [] {
      malloc_route result;
      simt::check_cuda(cudaDeviceSynchronize(), "kernels before a change of malloc");
      simt::check_cuda(cudaMemcpyFromSymbol(&result, route, sizeof(result)),
                       "cudaMemcpyFromSymbol of malloc's route");
      return result;
    },
    [](malloc_route const& wanted) {
      simt::check_cuda(cudaDeviceSynchronize(), "kernels before a change of malloc");
      simt::check_cuda(cudaMemcpyToSymbol(route, &wanted, sizeof(wanted)),
                       "cudaMemcpyToSymbol of malloc's route");
    }};

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::replaced

// The functions that the kernels' calls reach: renamed_malloc.cuh gives these symbols to the calls.
// `used` keeps the functions, because no code refers to them by these names. With -rdc the linker
// may use the functions of one file for all files; that is correct because all routes are equal.
// `delete` does not check its size argument, because the check would need a second lookup.
#define QUARRY_KERNEL_FUNCTION extern "C" inline __attribute__((used)) __device__

QUARRY_KERNEL_FUNCTION void* quarry_kernel_malloc(std::size_t size) noexcept {
  return quarry::replaced::route.malloc(size);
}
QUARRY_KERNEL_FUNCTION void* quarry_kernel_malloc_aligned(std::size_t size,
                                                          std::align_val_t alignment) noexcept {
  return quarry::replaced::route.aligned_malloc(static_cast<std::size_t>(alignment), size);
}
QUARRY_KERNEL_FUNCTION void quarry_kernel_free(void* pointer) noexcept {
  quarry::replaced::route.free(pointer);
}
QUARRY_KERNEL_FUNCTION void quarry_kernel_free_sized(void* pointer, std::size_t) noexcept {
  quarry_kernel_free(pointer);
}
QUARRY_KERNEL_FUNCTION void quarry_kernel_free_aligned(void* pointer, std::align_val_t) noexcept {
  quarry_kernel_free(pointer);
}
QUARRY_KERNEL_FUNCTION void quarry_kernel_free_sized_aligned(void* pointer, std::size_t,
                                                             std::align_val_t) noexcept {
  quarry_kernel_free(pointer);
}

#undef QUARRY_KERNEL_FUNCTION
