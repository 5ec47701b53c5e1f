// SPDX-License-Identifier: Apache-2.0
// The GPUs of a launch, which use each other's memory.
#pragma once

#include "device_memory.hpp"
#include "gpu_part.hpp"

#include <cuda_runtime.h>

namespace quarry::inline QUARRY_ABI::mpi {

/// Makes a device current while this object lives, then the former one.
class current_gpu {
 public:
  explicit current_gpu(int device) {
    check(cudaGetDevice(&former_), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
  }
  explicit current_gpu(gpu_part const& part) : current_gpu{part.device} {}
  current_gpu(current_gpu const&) = delete;
  current_gpu& operator=(current_gpu const&) = delete;
  ~current_gpu() { (void)cudaSetDevice(former_); }

 private:
  int former_ = 0;
};

/// Lets each of the first `count` GPUs use the others' memory. Throws bad_argument if there are
/// fewer, if they are of different kinds, or if one of them cannot make atomic operations on
/// another's memory.
void connect_gpus(std::uint32_t count);

}  // namespace quarry::inline QUARRY_ABI::mpi
