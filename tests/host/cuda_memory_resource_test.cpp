// SPDX-License-Identifier: Apache-2.0
// Needs a CUDA compiler: without one there is nothing to see here.
#ifdef __CUDACC__
#include "quarry/host/cuda_memory_resource.cuh"

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

namespace quarry::test {
namespace {

namespace mr = ::cuda::mr;
static_assert(mr::resource<cuda_device_memory>);
static_assert(mr::async_resource<cuda_device_memory>);
static_assert(mr::async_resource_with<cuda_device_memory, mr::device_accessible>);
static_assert(!mr::resource_with<cuda_device_memory, mr::host_accessible>);
static_assert(
    mr::async_resource_with<cuda_pinned_memory, mr::device_accessible, mr::host_accessible>);

/// Skipped where there is no GPU.
std::unique_ptr<cuda_device_memory::owner> make_owner() {
  try {
    return std::make_unique<cuda_device_memory::owner>(device_resource{}, cuda_streams{});
  } catch (resource_failed const&) {
    return nullptr;
  }
}

TEST(CudaMemoryResource, ServesWhoeverTakesCcclsResources) {
  auto const owner = make_owner();
  if (!owner) GTEST_SKIP() << "no GPU";
  cuda_device_memory from{*owner};
  mr::async_resource_ref<mr::device_accessible> any{from};
  void* const one = any.allocate_async(1000, 256, ::cuda::stream_ref{cudaStream_t{}});
  EXPECT_EQ(cudaMemset(one, 7, 1000), cudaSuccess);
  EXPECT_EQ(registry::find(one)->size, 1000u);
  any.deallocate_async(one, 1000, 256, ::cuda::stream_ref{cudaStream_t{}});
  mr::resource_ref<mr::device_accessible> plain{from};
  void* const other = plain.allocate(1000, 256);
  EXPECT_EQ(other, one);
  plain.deallocate(other, 1000, 256);
  EXPECT_EQ(owner->pool.counts().pieces_live, 0u);
  EXPECT_EQ(from, cuda_device_memory{*owner});
}

TEST(CudaMemoryResource, ServesMoreThanThePoolsAlignment) {
  auto const owner = make_owner();
  if (!owner) GTEST_SKIP() << "no GPU";
  cuda_device_memory from{*owner};
  void* const one = from.allocate(100, 512);
  void* const other = from.allocate_async(100, 8192, ::cuda::stream_ref{cudaStream_t{}});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) % 512, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other) % 8192, 0u);
  from.deallocate_async(other, 100, 8192, ::cuda::stream_ref{cudaStream_t{}});
  from.deallocate(one, 100, 512);
  EXPECT_EQ(owner->pool.counts().refused, 0u);
  EXPECT_TRUE(owner->pool.audit().empty());
}

}  // namespace
}  // namespace quarry::test
#endif
