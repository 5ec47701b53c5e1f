// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/detail/make_room.hpp"

#include "platform/cuda_calls.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

/// Also true if CUDA does not tell: for the default stream while another stream is being captured.
bool is_being_captured(cudaStream_t handle) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult const found = cuda::driver::functions().is_capturing(handle, &status);
  return found == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// The id of a stream other than the legacy default stream. The calling thread's default stream is
/// that of the current device.
stream_identity identity_here(cudaStream_t handle) {
  unsigned long long number = 0;    // the driver's ids start at 1
  if (is_being_captured(handle)) {  // a query of the id would invalidate the capture
    constexpr std::uint64_t is_capture = std::uint64_t{1} << 62;
    cudaStreamCaptureStatus capture{};
    cuda::check(cudaStreamGetCaptureInfo(handle, &capture, &number), "cudaStreamGetCaptureInfo");
    return {is_capture | number, reinterpret_cast<std::uint64_t>(handle)};
  }
  CUresult const found = cuda::driver::functions().stream_id(handle, &number);
  if (found != CUDA_SUCCESS)
    throw bad_argument{"cuda_streams: no stream has this handle (cuStreamGetId: " +
                       std::to_string(static_cast<int>(found)) + ")"};
  return {number};
}

/// Makes the GPU's context for this thread, which may not have used the GPU yet.
void make_context(int device) {
  cuda::device_guard const guard{device};
  CUcontext context = nullptr;
  auto const status = cuda::driver::functions().current_context(&context);
  if (status != CUDA_SUCCESS || context == nullptr) cudaFree(nullptr);
}

}  // namespace

cuda_streams::cuda_streams(int device) : device_{device} {
  cuda::check_device("cuda_streams", device);
}

cuda_streams::~cuda_streams() {
  for (CUevent_st* const unused : unused_) cudaEventDestroy(unused);
}

stream_identity cuda_streams::identity(stream handle) const {
  if (handle == nullptr || handle == cudaStreamLegacy) return {~std::uint64_t{0}};
  if (handle != cudaStreamPerThread) return identity_here(handle);
  make_context(device_);  // otherwise the thread has no such stream yet
  cuda::device_guard const guard{device_};
  return identity_here(handle);
}

cuda_streams::event cuda_streams::record(stream handle) {
  cuda::device_guard const guard{device_};
  if (is_being_captured(handle))
    throw bad_argument{"cuda_streams: the stream is being captured; end the capture first"};
  event result{nullptr};
  if (unused_.empty()) {
    make_room(unused_, made_ + 1);  // so that `drop` allocates nothing
    cuda::check(cudaEventCreateWithFlags(&result.handle, cudaEventDisableTiming),
                "cudaEventCreateWithFlags");
    ++made_;
  } else {
    result.handle = unused_.back();
    unused_.pop_back();
  }
  cudaError_t const found = cudaEventRecord(result.handle, handle);
  if (found != cudaSuccess) drop(result);
  cuda::check(found, "cudaEventRecord");
  return result;
}

void cuda_streams::wait(stream later, event const& earlier) {
  cuda::device_guard const guard{device_};
  // A graph does not wait for work from before its capture.
  if (is_being_captured(later))
    throw bad_argument{"cuda_streams: the stream is being captured; end the capture first"};
  cuda::check(cudaStreamWaitEvent(later, earlier.handle, 0), "cudaStreamWaitEvent");
}

bool cuda_streams::is_done(event const& recorded) noexcept {
  cuda::relaxed_captures const captures;
  cudaError_t const found = cudaEventQuery(recorded.handle);
  if (found == cudaErrorNotReady) cudaGetLastError();  // clears the error
  return found == cudaSuccess;
}

void cuda_streams::finish(event const& recorded) noexcept {
  cuda::relaxed_captures const captures;
  if (cudaEventSynchronize(recorded.handle) != cudaSuccess) cudaGetLastError();
}

bool cuda_streams::finish(stream handle) noexcept {
  cuda::device_guard const guard{device_};
  if (cudaStreamSynchronize(handle) == cudaSuccess) return true;
  cudaGetLastError();
  return finish_all();
}

bool cuda_streams::finish_all() noexcept {
  cuda::device_guard const guard{device_};
  if (cudaDeviceSynchronize() == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

void cuda_streams::drop(event& recorded) noexcept { unused_.push_back(recorded.handle); }

}  // namespace quarry::inline QUARRY_ABI
