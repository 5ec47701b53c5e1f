// SPDX-License-Identifier: Apache-2.0
// These tests need the headers of the CUDA toolkit; without the headers, this file is empty. The
// tests that run Thrust's algorithms also need a CUDA compiler and a GPU.
#if __has_include(<cuda_runtime_api.h>)
#include "quarry/host/interop/thrust_memory_resource.cuh"

#include "host/pools/immediate_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"

#include <gtest/gtest.h>

#ifdef __CUDACC__
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/mr/allocator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <random>
#include <vector>
#endif

namespace quarry::test {
namespace thrust_memory_resource_test {

using host_source = locked_stream_pool<limited_resource<host_resource>, immediate_streams>;
using host_memory = shared_stream_memory<host_source, cccl_failures, ::cuda::mr::device_accessible>;

host_memory make() {
  return host_memory{limited_resource{host_resource{}, 1 << 20}, immediate_streams{},
                     stream_pool_options{.first_block = 1 << 16, .next_block = 1 << 16}};
}

static_assert(stream_memory_value<shared_cuda_device_memory>);
static_assert(stream_memory_value<cuda_device_memory>);
static_assert(!stream_memory_value<device_resource>);

TEST(ThrustMemoryResource, IsAThrustResourceInTheOrderOfItsStream) {
  auto source = make();
  thrust_memory_resource first{source, stream_number(16)};
  thrust_memory_resource second{source, stream_number(32)};
  thrust::mr::memory_resource<thrust::device_ptr<void>>& as_thrusts = first;
  auto const first_memory = as_thrusts.allocate(1000, 512);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first_memory.get()) % 512, 0u);
  as_thrusts.deallocate(first_memory, 1000, 512);
  auto const second_memory = second.allocate(1000);
  EXPECT_EQ(source.source().counts().streams, 2u);
  second.deallocate(second_memory, 1000);
  EXPECT_THROW((void)as_thrusts.allocate(1 << 30, 256), std::bad_alloc);
  EXPECT_EQ(source.source().counts().invalid_frees, 0u);
  EXPECT_EQ(source.source().counts().allocations_in_use, 0u);
}

TEST(ThrustMemoryResource, IsEqualIfItsMemoryAndStreamAreEqual) {
  auto source = make();
  thrust_memory_resource const first{source, stream_number(16)};
  thrust_memory_resource const second{source, stream_number(16)};
  thrust_memory_resource const of_other_stream{source, stream_number(32)};
  thrust_memory_resource const of_other_memory{make(), stream_number(16)};
  thrust_memory_resource<host_memory, thrust::device_ptr<void>> const& as_thrusts = first;
  EXPECT_TRUE(as_thrusts.is_equal(first));
  EXPECT_TRUE(as_thrusts.is_equal(second));
  EXPECT_FALSE(as_thrusts.is_equal(of_other_stream));
  EXPECT_FALSE(as_thrusts.is_equal(of_other_memory));
}

TEST(ThrustMemoryResource, OwnsThePoolTogetherWithItsCopies) {
  auto source = std::make_unique<host_memory>(make());
  std::weak_ptr<host_source> const pool{source->shared()};
  {
    thrust_allocator<int, host_memory> allocator{*source, stream_number(16)};
    source.reset();
    thrust_allocator<double, host_memory> const other{allocator};
    EXPECT_TRUE(allocator == other);
    EXPECT_EQ(other.stream(), stream_number(16));
    auto const memory = allocator.allocate(100);
    EXPECT_EQ(pool.lock()->counts().allocated, 400u);
    allocator.deallocate(memory, 100);
  }
  EXPECT_TRUE(pool.expired());
}

TEST(ThrustMemoryResource, AnAllocatorMayBeUsedAfterAMove) {
  thrust_allocator<int, host_memory> allocator{make()};
  thrust_allocator<int, host_memory> const moved = std::move(allocator);
  auto const memory = allocator.allocate(100);  // NOLINT: the test is about this use
  EXPECT_TRUE(allocator == moved);
  allocator.deallocate(memory, 100);
}

TEST(ThrustMemoryResource, AllocatorsOfOtherMemoryOrStreamsAreNotEqual) {
  auto source = make();
  thrust_allocator<int, host_memory> const allocator{source, stream_number(16)};
  EXPECT_FALSE(allocator == (thrust_allocator<int, host_memory>{source, stream_number(32)}));
  EXPECT_FALSE(allocator == (thrust_allocator<int, host_memory>{make(), stream_number(16)}));
}

TEST(ThrustMemoryResource, AllocatorsRefuseSizesBeyondMemoryOrBeyondTheirSizeType) {
  thrust_allocator<double, host_memory> allocator{make()};
  EXPECT_THROW((void)allocator.allocate(1 << 20), std::bad_alloc);
  EXPECT_THROW((void)allocator.allocate(~std::size_t{0} / 4), std::bad_alloc);
  EXPECT_EQ(allocator.memory().source().counts().allocations_in_use, 0u);
}

#ifdef __CUDACC__
using allocator_of_ints = thrust_allocator<int, shared_cuda_device_memory>;
using vector_of_ints = thrust::device_vector<int, allocator_of_ints>;

/// Skips its tests where there is no GPU.
std::optional<shared_cuda_device_memory> make_device_memory() {
  try {
    return shared_cuda_device_memory{device_resource{}, cuda_streams{},
                                     stream_pool_options{.first_block = 64 << 20}};
  } catch (resource_failed const&) {
    return std::nullopt;
  }
}

struct two_streams {
  two_streams() {
    for (auto& each : handles)
      EXPECT_EQ(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking), cudaSuccess);
  }
  ~two_streams() {
    for (auto const each : handles) EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess);
  }
  cudaStream_t handles[2];
};

std::vector<int> random_numbers(std::size_t count) {
  std::mt19937 random{7};
  std::vector<int> result(count);
  for (int& each : result) each = static_cast<int>(random() % 1000);
  return result;
}

TEST(ThrustMemoryResourceOnAGpu, ServesVectors) {
  auto memory = make_device_memory();
  if (!memory) GTEST_SKIP() << "no GPU";
  auto const& pool = memory->source();
  {
    allocator_of_ints const allocator{*memory};
    vector_of_ints ones(100'000, 1, allocator);
    vector_of_ints grows(allocator);
    for (int i = 0; i < 100; ++i) grows.push_back(i);
    vector_of_ints copy = ones;
    vector_of_ints moved = std::move(copy);
    EXPECT_EQ(thrust::reduce(moved.begin(), moved.end()), 100'000);
    EXPECT_EQ(thrust::reduce(grows.begin(), grows.end()), 4950);
    EXPECT_TRUE(registry::find(thrust::raw_pointer_cast(moved.data())).has_value());
    EXPECT_GE(pool.counts().allocations_in_use, 3u);
  }
  EXPECT_EQ(pool.counts().allocations_in_use, 0u);
  EXPECT_EQ(pool.counts().invalid_frees, 0u);
}

/// There is no wait between the algorithms: the next algorithm gets the memory of the previous
/// algorithm while the previous algorithm still runs.
TEST(ThrustMemoryResourceOnAGpu, ServesAlgorithmsInTheOrderOfTheirStream) {
  auto memory = make_device_memory();
  if (!memory) GTEST_SKIP() << "no GPU";
  auto const& pool = memory->source();
  std::vector<int> const numbers = random_numbers(1'000'000);
  std::vector<int> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  two_streams const streams;
  for (int round = 0; round < 10; ++round) {
    vector_of_ints first(numbers.begin(), numbers.end(), allocator_of_ints{*memory});
    vector_of_ints second(numbers.begin(), numbers.end(), allocator_of_ints{*memory});
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    vector_of_ints* const vectors[] = {&first, &second};
    for (int i = 0; i < 2; ++i) {
      thrust_allocator<char, shared_cuda_device_memory> temporary{*memory, streams.handles[i]};
      auto const policy = thrust::cuda::par_nosync(temporary).on(streams.handles[i]);
      thrust::sort(policy, vectors[i]->begin(), vectors[i]->end(), thrust::greater<int>{});
      thrust::sort(policy, vectors[i]->begin(), vectors[i]->end());
      thrust::inclusive_scan(policy, vectors[i]->begin(), vectors[i]->end(), vectors[i]->begin());
    }
    for (cudaStream_t const each : streams.handles)
      ASSERT_EQ(cudaStreamSynchronize(each), cudaSuccess);
    int sum = 0;
    for (auto const* each : vectors) {
      std::vector<int> found(each->size());
      thrust::copy(each->begin(), each->end(), found.begin());
      sum = 0;
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], sum += sorted[i]) << i;
    }
  }
  EXPECT_GT(pool.counts().allocations, 20u);
  EXPECT_EQ(pool.counts().allocations_in_use, 0u);
  EXPECT_EQ(pool.counts().invalid_frees, 0u);
}

TEST(ThrustMemoryResourceOnAGpu, ServesUsersOfThrustsMemoryResource) {
  auto memory = make_device_memory();
  if (!memory) GTEST_SKIP() << "no GPU";
  using resource = thrust_memory_resource<shared_cuda_device_memory>;
  resource source{*memory};
  {
    thrust::mr::allocator<int, resource> const allocator{&source};
    thrust::device_vector<int, thrust::mr::allocator<int, resource>> numbers(1000, 3, allocator);
    EXPECT_EQ(thrust::reduce(thrust::cuda::par(&source), numbers.begin(), numbers.end()), 3000);
  }
  EXPECT_GE(memory->source().counts().allocations, 2u);
  EXPECT_EQ(memory->source().counts().allocations_in_use, 0u);
}

TEST(ThrustMemoryResourceOnAGpu, RefusesAVectorThatIsTooLarge) {
  auto memory = make_device_memory();
  if (!memory) GTEST_SKIP() << "no GPU";
  allocator_of_ints const allocator{*memory};
  EXPECT_THROW(vector_of_ints(std::size_t{1} << 48, allocator), std::bad_alloc);
  vector_of_ints const fits(10, 1, allocator);
  EXPECT_EQ(fits[9], 1);
}
#endif

}  // namespace thrust_memory_resource_test
}  // namespace quarry::test
#endif
