// SPDX-License-Identifier: Apache-2.0
// Common code of all CUDA calls: the driver's functions, checks, the current device.
#pragma once

#include "quarry/core/errors.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace quarry::inline QUARRY_ABI::cuda {

/// A function of the driver, by its name. Throws `resource_failed` if there is no driver, or if the
/// driver does not have the function.
class driver_function {
 public:
  explicit driver_function(char const* name);
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address_);
  }

 private:
  void* address_ = nullptr;
};

/// The driver's functions that the library calls. The first use looks them up, so programs link
/// without the driver's library and start on machines without a driver.
struct driver {
  using find = driver_function;

  decltype(&::cuMemAddressReserve) reserve = find{"cuMemAddressReserve"};
  decltype(&::cuMemAddressFree) release_range = find{"cuMemAddressFree"};
  decltype(&::cuMemCreate) create = find{"cuMemCreate"};
  decltype(&::cuMemRelease) release = find{"cuMemRelease"};
  decltype(&::cuMemMap) map = find{"cuMemMap"};
  decltype(&::cuMemUnmap) unmap = find{"cuMemUnmap"};
  decltype(&::cuMemSetAccess) set_access = find{"cuMemSetAccess"};
  decltype(&::cuMemGetAllocationGranularity) granularity = find{"cuMemGetAllocationGranularity"};
  decltype(&::cuCtxGetCurrent) current_context = find{"cuCtxGetCurrent"};
  decltype(&::cuStreamGetId) stream_id = find{"cuStreamGetId"};
  decltype(&::cuStreamIsCapturing) is_capturing = find{"cuStreamIsCapturing"};

  /// Throws like `driver_function`.
  static driver const& functions();
};

/// Throws the exception for a failed call: `out_of_memory` of `user` if CUDA had no memory for
/// `size` bytes, otherwise `resource_failed`. Clears the error, so that no later call reports it.
[[noreturn]] void fail(cudaError_t status, char const* user, char const* call, bytes size);
[[noreturn]] void fail(cudaError_t status, char const* call);

/// Throws `resource_failed` unless the call succeeded.
inline void check(cudaError_t status, char const* call) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, call);
}
/// For a call that allocates `size` bytes: throws `out_of_memory` or `resource_failed` unless the
/// call succeeded.
inline void check(cudaError_t status, char const* user, char const* call, bytes size) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, user, call, size);
}
/// The same for the driver, whose error codes equal the runtime's.
inline void check(CUresult status, char const* user, char const* call, bytes size) {
  check(static_cast<cudaError_t>(status), user, call, size);
}

/// Throws `bad_argument` if there is no such device, `resource_failed` if the machine has no CUDA.
void check_device(char const* user, int device);

/// The properties of memory that `driver::create` makes on the device.
[[nodiscard]] inline CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp result{};
  result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  result.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  result.location.id = device;
  return result;
}

/// Makes `device` current while this object lives.
class device_guard {
 public:
  explicit device_guard(int device) {
    cudaGetDevice(&previous_);
    if (previous_ != device) cudaSetDevice(device);
  }
  device_guard(device_guard const&) = delete;
  device_guard& operator=(device_guard const&) = delete;
  ~device_guard() {
    int current = previous_;
    cudaGetDevice(&current);
    if (current != previous_) cudaSetDevice(previous_);
  }

 private:
  int previous_ = 0;
};

/// While this object lives, its thread may wait, allocate and free during stream captures: during
/// its own captures, and during other threads' captures in CUDA's global capture mode.
class relaxed_captures {
 public:
  relaxed_captures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  relaxed_captures(relaxed_captures const&) = delete;
  relaxed_captures& operator=(relaxed_captures const&) = delete;
  ~relaxed_captures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace quarry::inline QUARRY_ABI::cuda
