// SPDX-License-Identifier: Apache-2.0
// Kernels whose stack kernel_stack_test.py measures.
#include "quarry/coalescing.hpp"
#include "quarry/heap.hpp"

namespace {

/// The calling thread's number.
__device__ std::uint32_t place() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace

__global__ void allocates(quarry::heap_ref heap, void** pointers, quarry::bytes size) {
  pointers[place()] = heap.malloc(size);
}

__global__ void frees(quarry::heap_ref heap, void** pointers) { heap.free(pointers[place()]); }

__global__ void reallocates(quarry::heap_ref heap, void** pointers, quarry::bytes size) {
  pointers[place()] = heap.realloc(pointers[place()], size);
}

__global__ void coalesces(quarry::coalescing_ref<quarry::heap_ref> heap, void** pointers,
                          quarry::bytes size) {
  heap.free(pointers[place()]);
  pointers[place()] = heap.malloc(size);
}
