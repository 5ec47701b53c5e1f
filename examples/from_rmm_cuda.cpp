// SPDX-License-Identifier: Apache-2.0
// Pools as resources of CCCL and of Thrust; see docs/guide/from_rmm.md. Needs nvcc and a GPU.
#include "quarry/host/interop/cuda_memory_resource.cuh"
#include "quarry/host/interop/thrust_memory_resource.cuh"
#include "quarry/host/resources/failure_callback_resource.hpp"
#include "quarry/host/resources/nvtx_ranges.hpp"
#include "quarry/host/resources/ranged_resource.hpp"

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <cstdio>
#include <functional>
#include <utility>

namespace {

void resources() {
  // This resource and its copies own a stream pool together. Threads may share it.
  quarry::shared_cuda_device_memory memory{quarry::device_resource{0}, quarry::cuda_streams{0},
                                           quarry::stream_pool_options{.first_block = 64 << 20}};
  quarry::shared_cuda_device_memory const copy = memory;

  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  void* const pointer = memory.allocate(stream, 1000);
  memory.deallocate(stream, pointer, 1000);
  std::printf("%zu allocations\n", static_cast<std::size_t>(copy.source().counts().allocations));
  cudaStreamDestroy(stream);

  try {
    (void)memory.allocate_sync(std::size_t{1} << 50);
  } catch (std::bad_alloc const& failure) {
    std::printf("%s\n", failure.what());
  }
}

void callbacks() {
  std::function<void()> free_cache;
  auto const make_room = [&](quarry::bytes) {
    if (!free_cache) return false;
    std::exchange(free_cache, nullptr)();
    return true;
  };
  // The callback frees a cache in the same pool. Then the resource tries the allocation again.
  using source =
      quarry::failure_callback_resource<quarry::locked_stream_pool<quarry::device_resource>>;
  quarry::shared_stream_memory<source, quarry::cccl_failures, ::cuda::mr::device_accessible> memory{
      make_room, std::in_place, quarry::device_resource{0}, quarry::cuda_streams{0},
      quarry::stream_pool_options{.first_block = 64 << 20, .max_bytes = 1 << 30}};

  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  void* const cache = memory.allocate(stream, 600 << 20);
  free_cache = [&] { memory.deallocate(stream, cache, 600 << 20); };
  memory.deallocate(stream, memory.allocate(stream, 700 << 20), 700 << 20);
  std::printf("the cache %s\n", free_cache ? "is still there" : "made room");
  cudaStreamDestroy(stream);
}

void ranges() {
  // The profiler shows a range for each call, "solver allocate" or "solver deallocate".
  using source = quarry::ranged_resource<quarry::locked_stream_pool<quarry::device_resource>,
                                         quarry::nvtx_ranges>;
  quarry::shared_stream_memory<source, quarry::cccl_failures, ::cuda::mr::device_accessible> memory{
      quarry::nvtx_ranges{}, "solver", std::in_place, quarry::device_resource{0},
      quarry::cuda_streams{0}};
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  memory.deallocate(stream, memory.allocate(stream, 1000), 1000);
  cudaStreamDestroy(stream);
}

void algorithms() {
  using memory = quarry::shared_cuda_device_memory;
  memory const pool{quarry::device_resource{0}, quarry::cuda_streams{0}};

  using allocator = quarry::thrust_allocator<int, memory>;
  thrust::device_vector<int, allocator> numbers(1'000'000, 1, allocator{pool});

  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamSynchronize(nullptr);  // the default stream filled the vector
  quarry::thrust_allocator<char, memory> temporary{pool, stream};
  thrust::sort(thrust::cuda::par_nosync(temporary).on(stream), numbers.begin(), numbers.end());
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
}

}  // namespace

int main() {
  try {
    resources();
    callbacks();
    ranges();
    algorithms();
  } catch (quarry::resource_failed const& failure) {
    std::printf("no GPU: %s\n", failure.what());
  }
}
