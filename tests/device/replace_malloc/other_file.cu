// SPDX-License-Identifier: Apache-2.0
#include "other_file.hpp"

#include "quarry/simt/launch.cuh"

namespace other_file {
namespace {

struct alignas(64) line {
  char bytes[64];
};

__global__ void release_kernel(void** pointers) {
  free(pointers[blockIdx.x * blockDim.x + threadIdx.x]);
}

__global__ void allocate_kernel(std::size_t size, void** pointers) {
  pointers[blockIdx.x * blockDim.x + threadIdx.x] = malloc(size);
}

}  // namespace
}  // namespace other_file

// The include follows kernels that it affects: its position does not matter.
#include <quarry/device/replace_malloc.cuh>

namespace other_file {
namespace {

__global__ void allocate_nothrow_kernel(nothrow way, void** pointers) {
  void*& result = pointers[blockIdx.x * blockDim.x + threadIdx.x];
  switch (way) {
    case nothrow::object:
      result = new (std::nothrow_t{}) int;
      break;
    case nothrow::array:
      result = new (std::nothrow_t{}) int[100];
      break;
    case nothrow::aligned_object:
      result = new (std::nothrow_t{}) line;
      break;
  }
}

constexpr unsigned block = 32;

void wait_for_kernel() {
  quarry::simt::check_cuda(cudaGetLastError(), "kernel launch");
  quarry::simt::check_cuda(cudaDeviceSynchronize(), "kernel");
}

}  // namespace

void release(void** pointers, unsigned lanes) {
  release_kernel<<<lanes / block, block>>>(pointers);
  wait_for_kernel();
}

void allocate(std::size_t size, void** pointers, unsigned lanes) {
  allocate_kernel<<<lanes / block, block>>>(size, pointers);
  wait_for_kernel();
}

void allocate_nothrow(nothrow way, void** pointers, unsigned lanes) {
  allocate_nothrow_kernel<<<lanes / block, block>>>(way, pointers);
  wait_for_kernel();
}

}  // namespace other_file
