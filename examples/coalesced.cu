// SPDX-License-Identifier: Apache-2.0
// The lanes of a warp that allocate together share one allocation.
#include "quarry/coalescing.hpp"
#include "quarry/heap.hpp"

#include <cstdio>

using namespace quarry::literals;

// The elements i of all lanes of a warp are adjacent, so an access of the warp is one transaction.
__global__ void sum(quarry::heap_ref heap, float* sums) {
  auto numbers = quarry::lane_array<float>::make(heap, 100);
  float result = 0;
  for (unsigned i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  for (unsigned i = 0; i < numbers.size(); ++i) result += numbers[i];
  sums[blockIdx.x * blockDim.x + threadIdx.x] = result;
  numbers.destroy(heap);
}

int main() {
  quarry::heap heap{{.bytes = 1_GiB}};
  float* sums = nullptr;
  if (cudaMallocManaged(&sums, 65'536 * sizeof(float)) != cudaSuccess) {
    std::printf("no GPU\n");
    return 0;
  }
  sum<<<256, 256>>>(heap.ref(), sums);
  cudaDeviceSynchronize();
  bool const is_right = sums[0] == 4950 && sums[65'535] == 4950 && !heap.first_fault();
  std::printf("%s\n", is_right ? "right" : "wrong");
  cudaFree(sums);
  return is_right ? 0 : 1;
}
