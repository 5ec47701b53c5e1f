// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace quarry::inline QUARRY_ABI::cuda {

/// Makes `device` current for as long as it lives.
class on_device {
 public:
  explicit on_device(int device) {
    cudaGetDevice(&before_);
    if (before_ != device) cudaSetDevice(device);
  }
  on_device(on_device const&) = delete;
  on_device& operator=(on_device const&) = delete;
  ~on_device() {
    int now = before_;
    cudaGetDevice(&now);
    if (now != before_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::cuda
