// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/cuda_streams.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/stream_pool.hpp"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

namespace quarry::test {
namespace {

using device_pool = stream_pool<device_resource, cuda_streams>;

/// Skipped where there is no GPU.
struct pool_of_a_stream {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = false;
  device_pool from{
      device_resource{}, cuda_streams{}, {.first_block = 64_KiB, .next_block = 16_KiB}};

  ~pool_of_a_stream() { EXPECT_TRUE(from.audit().empty()); }
  static std::unique_ptr<pool_of_a_stream> make() {
    try {
      return std::make_unique<pool_of_a_stream>();
    } catch (resource_failed const&) {
      return nullptr;
    }
  }
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(from.size_of(pointer), size);
    EXPECT_EQ(registry::find(pointer)->place, (memory_place{memory_kind::device, 0}));
    EXPECT_TRUE(from.deallocate(pointer));
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(CudaStreams, ResourceConformance, pool_of_a_stream);

TEST(CudaStreams, RefuseADeviceThatIsNotThere) {
  try {
    cuda_streams const none{1000};
    FAIL() << "made one";
  } catch (error const& refused) {
    EXPECT_FALSE(refused.message().empty());
  }
}

#ifdef __CUDACC__
struct two_streams {
  two_streams() {
    for (auto& each : handles)
      EXPECT_EQ(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking), cudaSuccess);
  }
  ~two_streams() {
    for (auto const each : handles) cudaStreamDestroy(each);
  }
  cudaStream_t handles[2];
};

/// If the second stream did not wait, the first's fills, which take much longer, would write over
/// the second's.
TEST(CudaStreams, AStreamGetsAnothersMemoryAfterTheOthersWork) {
  two_streams const streams;
  auto const [first, second] = streams.handles;
  constexpr bytes size = 256_MiB;
  device_pool from{
      device_resource{}, cuda_streams{}, {.first_block = size, .next_block = size, .most = size}};
  void* const of_first = from.allocate(size, first);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(cudaMemsetAsync(of_first, 1, size, first), cudaSuccess);
  from.deallocate(of_first, first);
  void* const of_second = from.allocate(size, second);
  ASSERT_EQ(of_second, of_first);
  ASSERT_EQ(cudaMemsetAsync(of_second, 2, size, second), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<unsigned char> found(size);
  ASSERT_EQ(cudaMemcpy(found.data(), of_second, size, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::count(found.begin(), found.end(), 2), static_cast<std::ptrdiff_t>(size));
  EXPECT_EQ(from.counts().waits, 1u);
  from.deallocate(of_second, second);
  for (auto const each : streams.handles) from.forget(each);
}

/// Two streams that alternate, with sizes that never fit again, stay within one block.
TEST(CudaStreams, StreamsThatAlternateShareAPool) {
  two_streams const streams;
  device_pool from{device_resource{},
                   cuda_streams{},
                   {.first_block = 64_MiB, .next_block = 1_MiB, .most = 64_MiB}};
  for (int round = 0; round < 100; ++round) {
    for (auto const on : streams.handles) {
      std::vector<void*> parts;
      bytes const size = 256_KiB << round % 7;
      for (bytes sum = 0; sum + size <= 64_MiB; sum += size) {
        parts.push_back(from.allocate(size, on));
        ASSERT_EQ(cudaMemsetAsync(parts.back(), round, size, on), cudaSuccess);
      }
      for (void* const part : parts) ASSERT_TRUE(from.deallocate(part, on));
    }
  }
  EXPECT_EQ(from.counts().held, 64_MiB);
  EXPECT_LT(from.counts().events, 400u);
  EXPECT_TRUE(from.audit().empty());
  for (auto const each : streams.handles) from.forget(each);
}
#endif

}  // namespace
}  // namespace quarry::test
