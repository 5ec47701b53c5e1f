// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_stream_pool.hpp"

#include "platform/cuda_calls.hpp"

namespace quarry::inline QUARRY_ABI {

cuda_stream_pool::cuda_stream_pool(std::size_t size, int device, stream_kind kind)
    : device_{device}, turns_{size} {
  if (size == 0) throw bad_argument{"cuda_stream_pool: size is 0; it must be at least 1"};
  cuda::check_device("cuda_stream_pool", device);
  cuda::device_guard const guard{device};
  streams_.reserve(size);
  unsigned const flags =
      kind == stream_kind::non_blocking ? cudaStreamNonBlocking : cudaStreamDefault;
  while (streams_.size() != size) {
    cudaStream_t fresh = nullptr;
    cudaError_t const found = cudaStreamCreateWithFlags(&fresh, flags);
    if (found != cudaSuccess) {
      for (cuda_stream const made : streams_) cudaStreamDestroy(made);
      cuda::fail(found, "cuda_stream_pool: cudaStreamCreateWithFlags");
    }
    streams_.push_back(fresh);
  }
}

cuda_stream_pool::~cuda_stream_pool() {
  cuda::device_guard const guard{device_};
  for (cuda_stream const made : streams_) cudaStreamDestroy(made);
}

}  // namespace quarry::inline QUARRY_ABI
