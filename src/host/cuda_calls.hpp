// SPDX-License-Identifier: Apache-2.0
// What the host side's CUDA sources share.
#pragma once

#include "quarry/host/errors.hpp"

#include "platform/on_device.hpp"

namespace quarry::cuda {

/// Throws `resource_failed` if the call did not succeed, whose error is not left to be taken for a
/// later call's.
inline void check(cudaError_t found, char const* call) {
  if (found == cudaSuccess) return;
  cudaGetLastError();
  throw resource_failed{call, cudaGetErrorString(found)};
}

/// A function of the driver, which the library is not linked to. Throws `resource_failed` if the
/// driver lacks it.
template <class Function>
Function driver_function(char const* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found), name);
  if (found != cudaDriverEntryPointSuccess) throw resource_failed{name, "the CUDA driver lacks it"};
  return reinterpret_cast<Function>(address);
}

/// Lets this thread wait, and take and give back memory, while it, or in another mode another one,
/// captures a stream.
class beside_captures {
 public:
  beside_captures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  beside_captures(beside_captures const&) = delete;
  beside_captures& operator=(beside_captures const&) = delete;
  ~beside_captures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Throws `bad_argument` if there is no such device.
inline void check_device(int device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (device < 0 || device >= count)
    throw bad_argument{"there is no device " + std::to_string(device) + " among " +
                       std::to_string(count)};
}

}  // namespace quarry::cuda
