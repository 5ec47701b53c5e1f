// SPDX-License-Identifier: Apache-2.0
// What the host side's CUDA sources share.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"

#include "platform/on_device.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI::cuda {

/// Throws `resource_failed` if the call did not succeed, whose error is not left to be taken for a
/// later call's.
inline void check(cudaError_t found, char const* call) {
  if (found == cudaSuccess) return;
  cudaGetLastError();
  throw resource_failed{call, cudaGetErrorString(found)};
}

/// Gives what a call that allocates put into `pointer`; throws `out_of_memory` or
/// `resource_failed`.
inline void* checked(cudaError_t found, void* pointer, char const* resource, bytes size) {
  if (found == cudaSuccess) return pointer;
  cudaGetLastError();  // is not to be taken for a later call's
  if (found == cudaErrorMemoryAllocation)
    throw out_of_memory{resource, size, cudaGetErrorString(found)};
  throw resource_failed{resource, cudaGetErrorString(found)};
}

/// CUDA's allocations are aligned to 256. Throws `bad_argument` for what is no power of two, and
/// `out_of_memory` for more: another resource may have that.
inline void check_alignment(bytes alignment, char const* resource, bytes size) {
  check_power_of_two(resource, alignment);
  if (alignment > 256)
    throw out_of_memory{resource, size,
                        "alignment is " + std::to_string(alignment) + ", and CUDA aligns to 256"};
}

/// CUDA has no address for 0 bytes.
inline bytes at_least_one(bytes size) { return size == 0 ? 1 : size; }

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

/// Lets this thread wait, and take and return memory, while it, or in another mode another one,
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

}  // namespace quarry::inline QUARRY_ABI::cuda
