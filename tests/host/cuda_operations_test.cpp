// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/registry/operations.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/platform/cuda_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

namespace quarry::test {
namespace cuda_operations_test {

using namespace quarry::literals;

/// Skips its tests where there is no GPU.
struct CudaOperations : testing::Test {
  void SetUp() override {
    try {
      device = std::make_unique<pool<device_resource>>(
          device_resource{}, pool_options{.first_block = 64_MiB, .alignment = 256});
      managed = std::make_unique<pool<managed_resource>>(
          managed_resource{}, pool_options{.first_block = 64_MiB, .alignment = 256});
    } catch (resource_failed const&) {
      GTEST_SKIP() << "no GPU";
    }
  }
  std::vector<unsigned char> read(void const* memory, bytes size) {
    auto* const copy = static_cast<unsigned char*>(host.allocate(size));
    operations::copy(copy, memory, size);
    std::vector<unsigned char> result(copy, copy + size);
    host.deallocate(copy);
    return result;
  }
  pool<host_resource> host{host_resource{}, {.first_block = 64_MiB}};
  std::unique_ptr<pool<device_resource>> device;
  std::unique_ptr<pool<managed_resource>> managed;
};

TEST_F(CudaOperations, CopyAndFillBetweenHostAndDevice) {
  auto* const memory = static_cast<unsigned char*>(device->allocate(1000));
  operations::fill(memory, 7, 1000);
  operations::fill(memory + 100, 9, 10);
  auto const found = read(memory, 1000);
  for (bytes i = 0; i < 1000; ++i) ASSERT_EQ(found[i], i >= 100 && i < 110 ? 9 : 7);
  EXPECT_THROW(operations::fill(memory + 1, 0, 1000), bad_argument);
  void* const moved = operations::move(*device, memory, host);
  EXPECT_EQ(static_cast<unsigned char*>(moved)[105], 9);
}

TEST_F(CudaOperations, PrefetchAndAdviseManagedMemory) {
  void* const memory = managed->allocate(8_MiB);
  operations::fill(memory, 3, 8_MiB);
  try {
    operations::advise(memory, 8_MiB, memory_advice::read_mostly);
    operations::advise(memory, 8_MiB, memory_advice::preferred_here, {memory_kind::device, 0});
    operations::advise(memory, 8_MiB, memory_advice::accessed_by, {});
    operations::advise(memory, 8_MiB, memory_advice::not_read_mostly);
    operations::advise(memory, 8_MiB, memory_advice::no_preferred_place);
    operations::advise(memory, 8_MiB, memory_advice::not_accessed_by, {});
    operations::prefetch(memory, 8_MiB, {memory_kind::device, 0});
    operations::prefetch(memory, 8_MiB, {});
  } catch (resource_failed const& failure) {
    GTEST_SKIP() << failure.message();  // the driver or the system does not move pages
  }
  EXPECT_EQ(read(memory, 8_MiB), std::vector<unsigned char>(8_MiB, 3));
  EXPECT_THROW(operations::advise(memory, 8_MiB, memory_advice::is_random), bad_argument);
}

#ifdef __CUDACC__
/// The driver's advice for a range. `accessed_by` is the first of the locations.
struct range_advice {
  int is_read_mostly = -1, preferred = -1, accessed_by = -1;
  explicit range_advice(void const* memory, bytes size) {
    auto const ask = [&](int& answer, cudaMemRangeAttribute attribute) {
      EXPECT_EQ(cudaMemRangeGetAttribute(&answer, sizeof answer, attribute, memory, size),
                cudaSuccess);
    };
    ask(is_read_mostly, cudaMemRangeAttributeReadMostly);
    ask(preferred, cudaMemRangeAttributePreferredLocation);
    ask(accessed_by, cudaMemRangeAttributeAccessedBy);
  }
  friend bool operator==(range_advice const&, range_advice const&) = default;
};

TEST_F(CudaOperations, AdviceAppliesUntilItIsRevoked) {
  void* const memory = managed->allocate(8_MiB);
  memory_location const gpu{memory_kind::device, 0};
  range_advice const initial{memory, 8_MiB};
  EXPECT_EQ(initial.is_read_mostly, 0);
  EXPECT_EQ(initial.preferred, cudaInvalidDeviceId);
  EXPECT_EQ(initial.accessed_by, cudaInvalidDeviceId);
  try {
    operations::advise(memory, 8_MiB, memory_advice::read_mostly);
    operations::advise(memory, 8_MiB, memory_advice::preferred_here, gpu);
    operations::advise(memory, 8_MiB, memory_advice::accessed_by, gpu);
  } catch (resource_failed const& failure) {
    GTEST_SKIP() << failure.message();  // the driver or the system does not move pages
  }
  range_advice const advised{memory, 8_MiB};
  EXPECT_EQ(advised.is_read_mostly, 1);
  EXPECT_EQ(advised.preferred, 0);
  EXPECT_EQ(advised.accessed_by, 0);
  operations::advise(memory, 8_MiB, memory_advice::not_read_mostly);
  EXPECT_EQ((range_advice{memory, 8_MiB}.is_read_mostly), 0);
  EXPECT_EQ((range_advice{memory, 8_MiB}.preferred), 0) << "the other advice is unchanged";
  operations::advise(memory, 8_MiB, memory_advice::no_preferred_place);
  EXPECT_EQ((range_advice{memory, 8_MiB}.accessed_by), 0);
  operations::advise(memory, 8_MiB, memory_advice::not_accessed_by, gpu);
  EXPECT_EQ((range_advice{memory, 8_MiB}), initial);
}

/// Another stream requests the old memory at once. It must not write to that memory before the copy
/// ends.
TEST_F(CudaOperations, ReallocateOnAStreamKeepsTheOldMemoryUntilTheCopyEnds) {
  cudaStream_t first = nullptr, second = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  constexpr bytes size = 128_MiB;
  {
    stream_pool<device_resource, cuda_streams> source{
        device_resource{}, cuda_streams{}, {.first_block = 4 * size, .max_bytes = 4 * size}};
    void* const filler = source.allocate(size, first);
    void* const small = source.allocate(size, first);
    for (int i = 0; i < 50; ++i) operations::fill(filler, 1, size, first);  // keeps the stream busy
    operations::fill(small, 5, size, first);
    void* const large = operations::reallocate(source, small, 2 * size, first);
    void* const other = source.allocate(size, second);
    EXPECT_EQ(other, small);
    operations::fill(other, 6, size, second);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(read(large, size), std::vector<unsigned char>(size, 5));
    EXPECT_EQ(read(other, size), std::vector<unsigned char>(size, 6));
  }
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
}
#endif

}  // namespace cuda_operations_test
}  // namespace quarry::test
