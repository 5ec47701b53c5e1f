// SPDX-License-Identifier: Apache-2.0
// A user's CUDA program. If there is no GPU, the host makes the same calls.
#include <quarry/heap.hpp>

#include <cstdio>

__host__ __device__ void allocate_and_free(quarry::heap_ref heap) {
  if (void* const memory = heap.malloc(100)) heap.free(memory);
}

__global__ void use(quarry::heap_ref heap) { allocate_and_free(heap); }

int main() {
  quarry::heap heap{{.bytes = 1 << 20, .segment_bytes = 1 << 16}};
  if (heap.backend_kind() == quarry::backend::cuda) {
    use<<<1, 32>>>(heap.ref());
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  } else {
    allocate_and_free(heap.ref());
  }
  if (auto const fault = heap.first_fault()) {
    std::fputs(quarry::name_of(fault->kind), stderr);
    return 1;
  }
  return heap.stats().allocations_in_use == 0 ? 0 : 1;
}
