// SPDX-License-Identifier: Apache-2.0
// A typical program with kernels that allocate. It uses CUDA and does not mention Quarry. The tests
// compile it unchanged, with `-include quarry/device/replace_malloc.cuh`.
#include "unchanged_kernels.hpp"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace unchanged {
namespace {

struct node {
  long long value;
  node* next;
};

struct alignas(128) line {
  char bytes[128];
};

/// A free list over given nodes, whose members have the names of the C functions.
class pool {
 public:
  __host__ __device__ explicit pool(node* all) : free_{all} {}
  __host__ __device__ void* malloc(std::size_t size) {
    node* const first = size <= sizeof(node) ? free_ : nullptr;
    if (first != nullptr) free_ = first->next;
    return first;
  }
  __host__ __device__ void free(void* pointer) {
    auto* const first = static_cast<node*>(pointer);
    first->next = free_;
    free_ = first;
  }

 private:
  node* free_;
};

__host__ __device__ void* allocate_anywhere(std::size_t size) { return malloc(size); }
__host__ __device__ void free_anywhere(void* pointer) { free(pointer); }

__global__ void allocate_kernel(way kind, void** pointers) {
  unsigned const lane = blockIdx.x * blockDim.x + threadIdx.x;
  void*& result = pointers[lane];
  std::size_t const size = 16 + lane % 100;
  auto* const function = &malloc;
  switch (kind) {
    case way::c_function:
      result = malloc(size);
      break;
    case way::in_std:
      result = std::malloc(size);
      break;
    case way::by_pointer:
      result = function(size);
      break;
    case way::in_host_device_function:
      result = allocate_anywhere(size);
      break;
    case way::object:
      result = new node{lane, nullptr};
      break;
    case way::array:
      result = new int[lane % 50 + 1];
      break;
    case way::aligned_object:
      result = new line;
      break;
    case way::aligned_array:
      result = new line[2];
      break;
    case way::expression:
      result = ::operator new(size);
      break;
  }
  if (result != nullptr) memset(result, static_cast<int>(lane), 4);
}

__global__ void release_kernel(way kind, void** pointers) {
  unsigned const lane = blockIdx.x * blockDim.x + threadIdx.x;
  void* const pointer = pointers[lane];
  auto* const function = &free;
  switch (kind) {
    case way::c_function:
      free(pointer);
      break;
    case way::in_std:
      std::free(pointer);
      break;
    case way::by_pointer:
      function(pointer);
      break;
    case way::in_host_device_function:
      free_anywhere(pointer);
      break;
    case way::object:
      delete static_cast<node*>(pointer);
      break;
    case way::array:
      delete[] static_cast<int*>(pointer);
      break;
    case way::aligned_object:
      delete static_cast<line*>(pointer);
      break;
    case way::aligned_array:
      delete[] static_cast<line*>(pointer);
      break;
    case way::expression:
      ::operator delete(pointer);
      break;
  }
}

__global__ void push(node** head) {
  auto* const added = static_cast<node*>(malloc(sizeof(node)));
  if (added == nullptr) return;
  new (added) node{blockIdx.x * blockDim.x + threadIdx.x, nullptr};
  auto* const shared = reinterpret_cast<unsigned long long*>(head);
  auto const address = reinterpret_cast<unsigned long long>(added);
  unsigned long long seen = *shared;
  unsigned long long old_head;
  do {
    old_head = seen;
    added->next = reinterpret_cast<node*>(old_head);
    __threadfence();
    seen = atomicCAS(shared, old_head, address);
  } while (seen != old_head);
}

__global__ void reverse_and_drain(node* head, long long* sum) {
  pool reversed{nullptr};
  while (head != nullptr) {
    node* const next = head->next;
    reversed.free(head);
    head = next;
  }
  for (void* next = reversed.malloc(8); next != nullptr; next = reversed.malloc(8)) {
    *sum += static_cast<node*>(next)->value;
    free(next);
  }
}

template <class T>
struct managed {
  managed() { cudaMallocManaged(&object, sizeof(T)), *object = T{}; }
  ~managed() { cudaFree(object); }
  T* object = nullptr;
};

void wait_for_kernel() {
  if (auto const status = cudaDeviceSynchronize(); status != cudaSuccess) {
    std::fprintf(stderr, "kernel: %s\n", cudaGetErrorString(status));
    std::abort();
  }
}

constexpr unsigned block = 32;

}  // namespace

void allocate(way kind, void** pointers, unsigned lanes) {
  allocate_kernel<<<lanes / block, block>>>(kind, pointers);
  wait_for_kernel();
}

void release(way kind, void** pointers, unsigned lanes) {
  release_kernel<<<lanes / block, block>>>(kind, pointers);
  wait_for_kernel();
}

long long sum_of_list(unsigned lanes) {
  managed<node*> head;
  managed<long long> sum;
  push<<<lanes / block, block>>>(head.object);
  wait_for_kernel();
  reverse_and_drain<<<1, 1>>>(*head.object, sum.object);
  wait_for_kernel();
  return *sum.object;
}

bool host_code_works() {
  bool good = true;
  for (void* const memory :
       {malloc(100), std::malloc(100), allocate_anywhere(100), std::calloc(10, 10)}) {
    good = good && memory != nullptr;
    std::memset(memory, 1, 100);
    void* const longer = std::realloc(memory, 1000);
    good = good && static_cast<char*>(longer)[99] == 1;
    std::free(longer);
  }
  std::unique_ptr<void, decltype(&std::free)> const held{std::malloc(8), &std::free};
  good = good && held != nullptr;
  auto* const function = &free;
  function(malloc(8));
  std::unique_ptr<line> const aligned{new line};
  good = good && reinterpret_cast<std::size_t>(aligned.get()) % alignof(line) == 0;
  std::vector<node> nodes(10);
  pool list{nullptr};
  for (auto& element : nodes) list.free(&element);
  good = good && list.malloc(8) == &nodes.back();
  delete new (std::nothrow) node{};
  ::operator delete(::operator new(100));
  return good;
}

}  // namespace unchanged
