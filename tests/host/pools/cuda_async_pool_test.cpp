// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_async_pool.hpp"

#include "conformance/resources.hpp"

#ifdef __CUDACC__
#include "quarry/host/interop/cuda_memory_resource.cuh"

#include <cuda_runtime_api.h>
#endif

namespace quarry::test {
namespace cuda_async_pool_test {

cuda_async_view make_default() { return cuda_async_view::default_pool(); }
cuda_async_pool make_device() { return cuda_async_pool{{.first = 1_MiB}}; }
cuda_async_pool make_pinned() { return cuda_async_pool{{.location = {memory_kind::pinned}}}; }
cuda_async_pool make_managed() { return cuda_async_pool{{.location = {memory_kind::managed}}}; }

/// Skips its tests where there is no GPU, or where the driver has no such pools. Only the stream
/// accesses its memory before `synchronize`.
using all =
    testing::Types<alone<&make_default, false>, alone<&make_device, false>,
                   alone<&make_pinned, false>, alone<&make_managed, false>,
                   pooled<&make_default, false, fast_fit>, pooled<&make_device, false, fast_fit>,
                   pooled<&make_pinned, true, fast_fit>, pooled<&make_managed, true, fast_fit>>;
bool const is_registered = conforms("CudaAsyncPool", all{});

/// A view needs the location of its memory. A pool does not convert to a view that can be assigned.
static_assert(!std::is_constructible_v<cuda_async_view, cuda_memory_pool>);
static_assert(!std::is_convertible_v<cuda_async_pool&, cuda_async_view&>);
static_assert(std::is_nothrow_move_constructible_v<cuda_async_pool>);
static_assert(!std::is_copy_constructible_v<cuda_async_pool>);

TEST(CudaAsyncPool, RefusesAMissingDeviceWithAReason) {
  for (auto const& make :
       {+[] { (void)cuda_async_view::default_pool(200); },
        +[] { (void)cuda_async_pool{{.location = {memory_kind::device, 200}}}; }}) {
    try {
      make();
      FAIL() << "made a pool on a device that does not exist";
    } catch (error const& failure) {
      EXPECT_FALSE(failure.message().empty());
    }
  }
}

#ifdef __CUDACC__
bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST(CudaAsyncPool, RefusesInvalidOptions) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  EXPECT_THROW(cuda_async_pool{{.location = {memory_kind::host}}}, bad_argument);
  EXPECT_THROW(cuda_async_pool{{.location = {memory_kind::file}}}, bad_argument);
  EXPECT_THROW((cuda_async_pool{{.location = {memory_kind::managed}, .max_bytes = 1_MiB}}),
               bad_argument);
  EXPECT_THROW((cuda_async_pool{{.first = 2_MiB, .max_bytes = 1_MiB}}), bad_argument);
  EXPECT_THROW((cuda_async_pool{{.max_bytes = 0}}), bad_argument)
      << "only no_limit disables the limit";
  EXPECT_THROW((cuda_async_view{nullptr, {memory_kind::device}}), bad_argument);
  auto const pool = make_default();
  EXPECT_THROW((cuda_async_view{pool.handle(), {memory_kind::device, 200}}), bad_argument);
}

TEST(CudaAsyncPool, RefusesUnsupportedAlignments) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  auto source = make_default();
  for (bytes const alignment : {0, 3, 768})
    EXPECT_THROW((void)source.allocate(8, alignment), bad_argument) << alignment;
  for (bytes const alignment : {512, 4096}) {
    EXPECT_THROW((void)source.allocate(8, alignment), out_of_memory) << alignment;
    EXPECT_THROW((void)source.allocate_sync(8, alignment), out_of_memory) << alignment;
  }
}

TEST(CudaAsyncPool, IsEqualIfItsPoolAndStreamAreEqual) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  auto const source = make_default();
  cuda_async_view const copy{source.handle(), source.location()};
  EXPECT_EQ(source, copy);
  EXPECT_FALSE(source == cuda_async_view::default_pool(0, cudaStreamPerThread));
  EXPECT_FALSE(source == make_device().view());
}

/// Allocates and frees during captures of both kinds; the captures continue.
TEST(CudaAsyncPool, AllocatesForAnyStreamDuringACapture) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  auto source = make_device();
  for (unsigned const flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    void* const memory = source.allocate_sync(4_MiB, 256);
    EXPECT_EQ(cudaMemsetAsync(memory, 1, 4_MiB, stream), cudaSuccess);
    source.deallocate_sync(source.allocate_sync(1000, 256), 1000, 256);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    std::size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, 1u);
    source.deallocate_sync(memory, 4_MiB, 256);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  EXPECT_EQ(source.allocated(), 0u);
  EXPECT_EQ(source.invalid_frees(), 0u);
}

TEST(CudaAsyncPool, CountsDeallocationsThatCudaRefuses) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  auto source = make_device();
  auto copy = source.view();
  void* const memory = source.allocate_sync(1000, 256);
  int foreign[2];
  source.deallocate(&foreign[0], 4, 256);
  copy.deallocate_sync(&foreign[1], 4, 256);
  source.deallocate(nullptr, 4, 256);
  EXPECT_EQ(source.invalid_frees(), 2u);
  EXPECT_EQ(copy.invalid_frees(), 2u);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a later call would report this failure";
  source.deallocate_sync(memory, 1000, 256);
  EXPECT_EQ(source.invalid_frees(), 2u);
}

/// Pinned memory is in the order of the default stream, whichever device is current at each call.
TEST(CudaAsyncPool, UsesTheDefaultStreamOfTheDeviceThatWasCurrentAtConstruction) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "fewer than two GPUs";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  auto source = make_pinned();
  cuda_async_view const of_first = [&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return cuda_async_view{source.handle(), {memory_kind::pinned}};
  }();
  EXPECT_FALSE(source.view() == of_first);
  void* const memory = source.allocate(1000, 256);
  source.synchronize();
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 1, 1000, nullptr), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  source.deallocate(memory, 1000, 256);
  source.synchronize();
  EXPECT_EQ(source.invalid_frees(), 0u);
}

TEST(CudaAsyncPool, AllocatesFromAForeignPoolInTheOrderOfTwoStreams) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  {
    cuda_async_view source{pool, {memory_kind::device}};
    cuda_async_view const copy = source;
    EXPECT_EQ(source, copy);
    EXPECT_FALSE(source == cuda_async_view::default_pool());
    cudaStream_t streams[2];
    void* parts[2];
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
      parts[i] = source.allocate(1_MiB, 256, streams[i]);
      EXPECT_EQ(cudaMemsetAsync(parts[i], i, 1_MiB, streams[i]), cudaSuccess);
    }
    EXPECT_NE(parts[0], parts[1]);
    EXPECT_GE(source.allocated(), 2_MiB);
    EXPECT_GE(source.reserved(), source.allocated());
    for (int i = 0; i < 2; ++i) {
      source.deallocate(parts[i], 1_MiB, 256, streams[i]);
      EXPECT_EQ(cudaStreamSynchronize(streams[i]), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(streams[i]), cudaSuccess);
    }
    EXPECT_EQ(source.allocated(), 0u);
    source.release();
    EXPECT_EQ(source.reserved(), 0u);
  }
  void* memory = nullptr;  // the view has not destroyed the pool
  EXPECT_EQ(cudaMallocFromPoolAsync(&memory, 100, pool, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(memory, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST(CudaAsyncPool, ReservesItsFirstBytesAndEnforcesItsLimit) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  cuda_async_pool source{{.first = 64_MiB, .max_bytes = 128_MiB}};
  EXPECT_GE(source.reserved(), 64_MiB);
  EXPECT_EQ(source.allocated(), 0u);
  EXPECT_THROW((void)source.allocate_sync(256_MiB, 256), out_of_memory);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cuda_async_pool moved = std::move(source);
  moved.deallocate_sync(moved.allocate_sync(1_MiB, 256), 1_MiB, 256);
}

/// The host reads what the GPU wrote, and the GPU keeps what the host wrote.
void expect_shared_with_the_host(memory_location location) {
  std::optional<cuda_async_pool> source;
  try {
    source.emplace(cuda_async_options{.location = location});
  } catch (resource_failed const& failure) {
    GTEST_SKIP() << failure.what();
  }
  auto* const memory = static_cast<unsigned char*>(source->allocate_sync(1000, 256));
  memory[10] = 7;
  EXPECT_EQ(cudaMemset(memory, 3, 10), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(memory[9], 3);
  EXPECT_EQ(memory[10], 7);
  check_location("cuda_async_pool", memory, location);
  source->deallocate_sync(memory, 1000, 256);
}
TEST(CudaAsyncPool, AllocatesPinnedMemoryThatTheHostCanAccess) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  expect_shared_with_the_host({memory_kind::pinned});
}
TEST(CudaAsyncPool, AllocatesManagedMemoryThatTheHostCanAccess) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  expect_shared_with_the_host({memory_kind::managed});
}

using shared_async_pool =
    shared_stream_memory<cuda_async_pool, cccl_failures, ::cuda::mr::device_accessible>;
static_assert(stream_memory_source<cuda_async_view>);
static_assert(stream_memory_source<cuda_async_pool>);

TEST(CudaAsyncPool, MayBeASharedCcclResource) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  shared_async_pool source{cuda_async_options{.first = 1_MiB}};
  shared_async_pool other = source;
  void* const memory = source.allocate(::cuda::stream_ref{cudaStream_t{}}, 1000);
  EXPECT_EQ(cudaMemsetAsync(memory, 1, 1000, nullptr), cudaSuccess);
  other.deallocate(::cuda::stream_ref{cudaStream_t{}}, memory, 1000);
  EXPECT_THROW((void)source.allocate_sync(std::size_t{1} << 50), std::bad_alloc);
  EXPECT_THROW((void)source.allocate_sync(5, 42), std::invalid_argument);
  EXPECT_EQ(source, other);
}
#endif

}  // namespace cuda_async_pool_test
}  // namespace quarry::test
