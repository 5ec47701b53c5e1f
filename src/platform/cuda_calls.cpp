// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_calls.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI::cuda {
namespace {

// `check` converts the driver's error codes to the runtime's without a table
static_assert(static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY) == cudaErrorMemoryAllocation &&
              static_cast<int>(CUDA_ERROR_NO_DEVICE) == cudaErrorNoDevice &&
              static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS) == cudaErrorIllegalAddress &&
              static_cast<int>(CUDA_ERROR_UNKNOWN) == cudaErrorUnknown);

/// Advice for the user about an error, or "".
char const* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "; free memory of the device or request less";
    case cudaErrorNoDevice:
      return "; check that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES does not hide it";
    case cudaErrorInsufficientDriver:
      return "; install NVIDIA's driver for CUDA 12 or later";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "; an earlier kernel failed; run the program under compute-sanitizer to find it";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
      return "; a stream capture is in progress; make the call before or after the capture";
    default:
      return "";
  }
}

std::string text_of(cudaError_t status) {
  return std::string{cudaGetErrorString(status)} + " (" + cudaGetErrorName(status) + ")" +
         advice(status);
}

}  // namespace

driver_function::driver_function(char const* name) {
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address_, 12000, cudaEnableDefault, &found), name);
  if (found != cudaDriverEntryPointSuccess)
    throw resource_failed{
        name, "the CUDA driver lacks this function; install a driver for CUDA 12 or later"};
}

driver const& driver::functions() {
  static driver const loaded;
  return loaded;
}

void fail(cudaError_t status, char const* user, char const* call, bytes size) {
  if (status != cudaErrorMemoryAllocation) fail(status, (std::string{user} + ": " + call).c_str());
  cudaGetLastError();
  throw out_of_memory{user, size, std::string{call} + ": " + text_of(status)};
}

void fail(cudaError_t status, char const* call) {
  cudaGetLastError();
  throw resource_failed{call, text_of(status)};
}

void check_device(char const* user, int device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), user, "cudaGetDeviceCount", 0);
  if (device < 0 || device >= count)
    throw bad_argument{std::string{user} + ": there is no device " + std::to_string(device) +
                       "; the machine has " + std::to_string(count) + ", numbered from 0"};
}

}  // namespace quarry::inline QUARRY_ABI::cuda
