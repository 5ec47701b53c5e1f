// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/cuda_streams.hpp"

#include "cuda_calls.hpp"

#include <cuda.h>

#include <string>

namespace quarry {

cuda_streams::cuda_streams(int device) : device_{device} { cuda::check_device(device); }

cuda_streams::~cuda_streams() {
  for (CUevent_st* const each : unused_) cudaEventDestroy(each);
}

stream_identity cuda_streams::identity(stream on) const {
  constexpr stream_identity of_legacy = ~stream_identity{0};  // the driver counts from one on
  if (on == nullptr || on == cudaStreamLegacy) return of_legacy;
  static auto const stream_id =
      cuda::driver_function<CUresult (*)(CUstream, unsigned long long*)>("cuStreamGetId");
  unsigned long long result = 0;
  auto const ask = [&](bool makes_context) {
    cuda::on_device const here{device_};
    if (makes_context) cudaFree(nullptr);
    return stream_id(on, &result);
  };
  CUresult found = on == cudaStreamPerThread ? ask(false) : stream_id(on, &result);
  // the thread did nothing on this GPU yet
  if (found == CUDA_ERROR_INVALID_CONTEXT) found = ask(true);
  if (found != CUDA_SUCCESS)
    throw bad_argument{"cuda_streams: no stream has this handle (cuStreamGetId: " +
                       std::to_string(static_cast<int>(found)) + ")"};
  return result;
}

cuda_streams::event cuda_streams::record(stream on) {
  cuda::on_device const here{device_};
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  bool const is_known = cudaStreamIsCapturing(on, &capture) == cudaSuccess;
  if (!is_known) cudaGetLastError();  // the default stream while another is captured
  if (!is_known || capture != cudaStreamCaptureStatusNone)
    throw bad_argument{"cuda_streams: the stream is being captured"};
  event result{nullptr};
  if (unused_.empty()) {
    unused_.reserve(unused_.capacity() + 1);  // so that `drop` needs no memory
    cuda::check(cudaEventCreateWithFlags(&result.handle, cudaEventDisableTiming),
                "cudaEventCreateWithFlags");
  } else {
    result.handle = unused_.back();
    unused_.pop_back();
  }
  cudaError_t const found = cudaEventRecord(result.handle, on);
  if (found != cudaSuccess) drop(result);
  cuda::check(found, "cudaEventRecord");
  return result;
}

void cuda_streams::wait(stream later, event const& earlier) {
  cuda::on_device const here{device_};
  cuda::check(cudaStreamWaitEvent(later, earlier.handle, 0), "cudaStreamWaitEvent");
}

bool cuda_streams::is_done(event const& one) noexcept {
  cudaError_t const found = cudaEventQuery(one.handle);
  if (found == cudaErrorNotReady) cudaGetLastError();  // is not to be taken for a later call's
  return found == cudaSuccess;
}

void cuda_streams::finish(event const& one) noexcept {
  if (cudaEventSynchronize(one.handle) != cudaSuccess) cudaGetLastError();
}

void cuda_streams::finish(stream one) noexcept {
  cuda::on_device const here{device_};
  if (cudaStreamSynchronize(one) == cudaSuccess) return;
  cudaGetLastError();
  if (cudaDeviceSynchronize() != cudaSuccess) cudaGetLastError();
}

bool cuda_streams::finish_all() noexcept {
  cuda::on_device const here{device_};
  if (cudaDeviceSynchronize() == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

void cuda_streams::drop(event& one) noexcept { unused_.push_back(one.handle); }

}  // namespace quarry
