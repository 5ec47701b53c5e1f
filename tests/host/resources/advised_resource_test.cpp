// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/advised_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/pools/locked_stream_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/file_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

namespace quarry::test {
namespace advised_resource_test {

advised_resource<file_resource> make_file() {
  return {file_resource{testing::TempDir()},
          {{memory_advice::is_sequential}, {memory_advice::will_be_used}},
          memory_location{}};
}
advised_resource<host_resource> make_host() {
  return {host_resource{}, {{memory_advice::is_random}}};
}
using all = testing::Types<alone<&make_file, true>, alone<&make_host, true>,
                           pooled<&make_file, true, fast_fit>>;
bool const is_registered = conforms("AdvisedResource", all{});

TEST(AdvisedResource, FreesTheMemoryIfTheAdviceDoesNotApply) {
  advised_resource<simulated_resource> source{simulated_resource{}, {{memory_advice::read_mostly}}};
  EXPECT_THROW((void)source.allocate(100, 16), bad_argument);
  EXPECT_EQ(source.upstream().reserved(), 0u);
}

TEST(AdvisedResource, PassesStreamsOn) {
  advised_resource<recording_source> source{
      recording_source{}, {}, memory_location{memory_kind::device}};
  expect_calls_pass(source, *source.upstream().calls);
}

/// CUDA refuses to prefetch foreign addresses.
TEST(AdvisedResource, FreesTheMemoryIfCudaRefusesThePrefetch) {
  advised_resource<recording_source_over<simulated_resource>> source{
      {},
      memory_location{memory_kind::device},
      std::in_place,
      memory_location{memory_kind::managed}};
  auto const stream = cuda_stream{};
  EXPECT_THROW((void)source.allocate(100, 16, stream), resource_failed);
  EXPECT_THROW((void)source.allocate_sync(200, 16), resource_failed);
  EXPECT_EQ(*source.upstream().calls,
            (std::vector<std::string>{"allocate 100 on 0", "deallocate 100 on 0",
                                      "allocate_sync 200", "deallocate_sync 200"}));
}

#ifdef __CUDACC__
/// Returns CUDA's last prefetch location of the memory, or cudaInvalidDeviceId if there is none.
int last_prefetched_to(void* memory, bytes size) {
  int device = 0;
  EXPECT_EQ(cudaMemRangeGetAttribute(&device, sizeof device,
                                     cudaMemRangeAttributeLastPrefetchLocation, memory, size),
            cudaSuccess);
  return device;
}
bool moves_pages(int device) {
  int can = 0;
  return cudaDeviceGetAttribute(&can, cudaDevAttrConcurrentManagedAccess, device) == cudaSuccess &&
         can != 0;
}

using managed_pool = locked_stream_pool<managed_resource>;
advised_resource<managed_pool> make_prefetched(int device) {
  auto const number = static_cast<std::uint8_t>(device);
  return {{},
          memory_location{memory_kind::device, number},
          std::in_place,
          managed_resource{},
          cuda_streams{device}};
}

TEST(AdvisedResource, PrefetchesManagedMemoryInTheOrderOfTwoStreams) {
  if (!moves_pages(0)) GTEST_SKIP() << "no GPU, or the GPU does not move pages";
  auto source = make_prefetched(0);
  for (int i = 0; i < 2; ++i) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    void* const memory = source.allocate(4_MiB, 256, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(last_prefetched_to(memory, 4_MiB), 0);
    source.deallocate(memory, 4_MiB, 256, stream);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  void* const memory = source.allocate_sync(4_MiB, 256);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(last_prefetched_to(memory, 4_MiB), 0);
  source.deallocate_sync(memory, 4_MiB, 256);
}

/// The prefetch uses the default stream of the target device, whichever device is current.
TEST(AdvisedResource, PrefetchesManagedMemoryInTheDefaultStreamOfTheTarget) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2 || !moves_pages(1))
    GTEST_SKIP() << "fewer than two GPUs, or the GPUs do not move pages";
  auto source = make_prefetched(1);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  void* const memory = source.allocate(4_MiB, 256, cuda_stream{});
  int current = -1;
  EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 1, 4_MiB, nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(last_prefetched_to(memory, 4_MiB), 1);
  source.deallocate(memory, 4_MiB, 256, cuda_stream{});
}
#endif

}  // namespace advised_resource_test
}  // namespace quarry::test
