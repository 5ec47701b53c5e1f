// SPDX-License-Identifier: Apache-2.0
// Kernels that call malloc and free use a heap of Quarry without changes.
#include "quarry/device/replace_malloc.cuh"

#include <cstdio>

using namespace quarry::literals;

__global__ void work(int* failures) {
  auto* const numbers = static_cast<int*>(malloc(100 * sizeof(int)));
  if (numbers == nullptr) {
    atomicAdd(failures, 1);
    return;
  }
  for (int i = 0; i < 100; ++i) numbers[i] = i;
  free(numbers);
}

int main() {
  int* failures = nullptr;
  if (cudaMallocManaged(&failures, sizeof(int)) != cudaSuccess) {
    std::printf("no GPU\n");
    return 0;
  }
  *failures = 0;

  quarry::heap heap{{.bytes = 1_GiB}};
  quarry::replace_malloc(heap);  // malloc in kernels allocates from the heap
  work<<<256, 256>>>(failures);
  quarry::restore_malloc();  // malloc is CUDA's again

  std::printf("%d of 65,536 threads got no memory\n", *failures);
  int const status = *failures == 0 ? 0 : 1;
  cudaFree(failures);
  return status;
}
