// SPDX-License-Identifier: Apache-2.0
// Runs a kernel on the current CUDA device.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/simt/launch.hpp"

#include <cuda_runtime.h>

namespace quarry::inline QUARRY_ABI::simt {

/// Throws `resource_failed`, which names the call, unless `status` says that the call succeeded.
inline void check_cuda(cudaError_t status, char const* call) {
  if (status != cudaSuccess) {
    throw resource_failed{call, cudaGetErrorString(status)};
  }
}

template <class Kernel>
__global__ void run_kernel(Kernel kernel) {
  kernel();
}

/// Starts the grid on `stream` and does not wait for it. Throws resource_failed if it cannot be
/// launched.
template <class Kernel>
void launch_cuda(grid lanes, Kernel const& kernel, cudaStream_t stream = nullptr) {
  run_kernel<<<lanes.blocks, lanes.threads, 0, stream>>>(kernel);
  check_cuda(cudaGetLastError(), "kernel launch");
}

/// Does the same, with all thread blocks resident at once, so that `grid_barrier` works.
template <class Kernel>
void launch_cuda_cooperative(grid lanes, Kernel kernel, cudaStream_t stream = nullptr) {
  void* arguments[] = {&kernel};
  check_cuda(
      cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(&run_kernel<Kernel>),
                                  dim3{lanes.blocks}, dim3{lanes.threads}, arguments, 0, stream),
      "cudaLaunchCooperativeKernel");
}

}  // namespace quarry::inline QUARRY_ABI::simt
