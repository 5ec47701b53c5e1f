// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/cuda_resources.hpp"

#include "cuda_calls.hpp"

namespace quarry {

using cuda::check_device;
using cuda::on_device;

namespace {

constexpr bytes most_alignment = 256;

/// Gives what a call put into `pointer`, or throws.
void* checked(cudaError_t found, void* pointer, char const* resource, bytes size) {
  if (found == cudaSuccess) return pointer;
  cudaGetLastError();  // is not to be taken for a later call's
  if (found == cudaErrorMemoryAllocation)
    throw out_of_memory{resource, size, cudaGetErrorString(found)};
  throw resource_failed{resource, cudaGetErrorString(found)};
}

void refuse_more_than_256(bytes alignment, char const* resource) {
  if (alignment > most_alignment)
    throw bad_argument{std::string{resource} + ": alignment is " + std::to_string(alignment) +
                       ", more than 256"};
}

bytes at_least_one(bytes size) { return size == 0 ? 1 : size; }

}  // namespace

device_resource::device_resource(int device) : device_{device} { check_device(device); }

void* device_resource::allocate(bytes size, bytes alignment) {
  refuse_more_than_256(alignment, "device_resource");
  on_device const here{device_};
  void* result = nullptr;
  auto const found = cudaMalloc(&result, at_least_one(size));
  return checked(found, result, "device_resource", size);
}
void device_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  on_device const here{device_};
  cudaFree(pointer);
}

stream_ordered_resource::stream_ordered_resource(cuda_stream stream, int device)
    : stream_{stream}, device_{device} {
  check_device(device);
}

void* stream_ordered_resource::allocate(bytes size, bytes alignment) {
  refuse_more_than_256(alignment, "stream_ordered_resource");
  on_device const here{device_};
  void* result = nullptr;
  auto const found = cudaMallocAsync(&result, at_least_one(size), stream_);
  return checked(found, result, "stream_ordered_resource", size);
}
void stream_ordered_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  on_device const here{device_};
  cudaFreeAsync(pointer, stream_);
}

void stream_ordered_resource::settle() {
  on_device const here{device_};
  cuda::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

pinned_resource::pinned_resource() { check_device(0); }

void* pinned_resource::allocate(bytes size, bytes alignment) {
  refuse_more_than_256(alignment, "pinned_resource");
  void* result = nullptr;
  auto const found = cudaMallocHost(&result, at_least_one(size));
  return checked(found, result, "pinned_resource", size);
}
void pinned_resource::deallocate(void* pointer, bytes, bytes) noexcept { cudaFreeHost(pointer); }

managed_resource::managed_resource() { check_device(0); }

void* managed_resource::allocate(bytes size, bytes alignment) {
  refuse_more_than_256(alignment, "managed_resource");
  void* result = nullptr;
  auto const found = cudaMallocManaged(&result, at_least_one(size), cudaMemAttachGlobal);
  return checked(found, result, "managed_resource", size);
}
void managed_resource::deallocate(void* pointer, bytes, bytes) noexcept { cudaFree(pointer); }

}  // namespace quarry
