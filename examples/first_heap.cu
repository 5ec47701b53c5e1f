// SPDX-License-Identifier: Apache-2.0
// A heap that kernels allocate from: each thread makes a vertex, and a second kernel destroys them.
#include "quarry/heap.hpp"

#include <cstdio>
#include <iostream>

using namespace quarry::literals;

struct vertex {
  explicit __device__ vertex(int id) : number{id} {}
  int number;
};

__global__ void build(quarry::heap_ref heap, vertex** vertices) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  vertices[i] = heap.make<vertex>(i);  // nullptr if the heap is full
}

__global__ void destroy(quarry::heap_ref heap, vertex** vertices) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  heap.destroy(vertices[i]);
}

int main() {
  vertex** vertices = nullptr;
  if (cudaMalloc(&vertices, 65'536 * sizeof(vertex*)) != cudaSuccess) {
    std::printf("no GPU\n");
    return 0;
  }
  quarry::heap heap{{.bytes = 1_GiB}};
  build<<<256, 256>>>(heap.ref(), vertices);
  destroy<<<256, 256>>>(heap.ref(), vertices);
  if (auto const fault = heap.first_fault()) std::cerr << *fault << '\n';

  std::size_t const leaked = heap.live_allocations().size();
  std::printf("%zu vertices are not freed\n", leaked);
  cudaFree(vertices);
  return leaked == 0 ? 0 : 1;
}
