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

// Behind kernels that it concerns: its place does not matter.
#include <quarry/device/replace_malloc.cuh>

namespace other_file {
namespace {

__global__ void allocate_nothrow_kernel(nothrow how, void** pointers) {
  void*& result = pointers[blockIdx.x * blockDim.x + threadIdx.x];
  switch (how) {
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

void run_to_its_end() {
  quarry::simt::check_cuda(cudaGetLastError(), "kernel launch");
  quarry::simt::check_cuda(cudaDeviceSynchronize(), "kernel");
}

}  // namespace

void release(void** pointers, unsigned lanes) {
  release_kernel<<<lanes / block, block>>>(pointers);
  run_to_its_end();
}

void allocate(std::size_t size, void** pointers, unsigned lanes) {
  allocate_kernel<<<lanes / block, block>>>(size, pointers);
  run_to_its_end();
}

void allocate_nothrow(nothrow how, void** pointers, unsigned lanes) {
  allocate_nothrow_kernel<<<lanes / block, block>>>(how, pointers);
  run_to_its_end();
}

}  // namespace other_file
