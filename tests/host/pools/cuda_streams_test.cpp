// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_streams.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/pools/stream_pool.hpp"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <thread>
#endif

namespace quarry::test {
namespace cuda_streams_test {

using device_pool = stream_pool<device_resource, cuda_streams>;

/// Skips its tests where there is no GPU.
struct pool_of_a_stream {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = false;
  device_pool source{
      device_resource{}, cuda_streams{}, {.first_block = 64_KiB, .next_block = 16_KiB}};

  ~pool_of_a_stream() { EXPECT_TRUE(source.audit().empty()); }
  static std::unique_ptr<pool_of_a_stream> make() {
    try {
      return std::make_unique<pool_of_a_stream>();
    } catch (resource_failed const&) {
      return nullptr;
    }
  }
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(source.size_of(pointer), size);
    EXPECT_EQ(registry::find(pointer)->location, (memory_location{memory_kind::device, 0}));
    EXPECT_TRUE(source.deallocate(pointer));
  }
};
bool const is_registered = conforms("CudaStreams", testing::Types<pool_of_a_stream>{});

TEST(CudaStreams, RefuseAMissingDevice) {
  try {
    cuda_streams const missing_device{1000};
    FAIL() << "made streams of a device that does not exist";
  } catch (error const& failure) {
    EXPECT_FALSE(failure.message().empty());
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

/// Without the second stream's wait, the first stream's fills, which take much longer, would
/// overwrite the second stream's fill.
TEST(CudaStreams, AStreamGetsAnotherStreamsMemoryAfterThatStreamsWork) {
  two_streams const streams;
  auto const [first, second] = streams.handles;
  constexpr bytes size = 256_MiB;
  device_pool source{device_resource{},
                     cuda_streams{},
                     {.first_block = size, .next_block = size, .max_bytes = size}};
  void* const of_first = source.allocate(size, first);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(cudaMemsetAsync(of_first, 1, size, first), cudaSuccess);
  source.deallocate(of_first, first);
  void* const of_second = source.allocate(size, second);
  ASSERT_EQ(of_second, of_first);
  ASSERT_EQ(cudaMemsetAsync(of_second, 2, size, second), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<unsigned char> found(size);
  ASSERT_EQ(cudaMemcpy(found.data(), of_second, size, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::count(found.begin(), found.end(), 2), static_cast<std::ptrdiff_t>(size));
  EXPECT_EQ(source.counts().waits, 1u);
  source.deallocate(of_second, second);
  for (auto const each : streams.handles) source.forget(each);
}

/// Two streams alternate and stay within one block, although each size differs from the sizes of
/// the earlier chunks.
TEST(CudaStreams, StreamsThatAlternateShareAPool) {
  two_streams const streams;
  device_pool source{device_resource{},
                     cuda_streams{},
                     {.first_block = 64_MiB, .next_block = 1_MiB, .max_bytes = 64_MiB}};
  for (int round = 0; round < 100; ++round) {
    for (auto const stream : streams.handles) {
      std::vector<void*> parts;
      bytes const size = 256_KiB << round % 7;
      for (bytes sum = 0; sum + size <= 64_MiB; sum += size) {
        parts.push_back(source.allocate(size, stream));
        ASSERT_EQ(cudaMemsetAsync(parts.back(), round, size, stream), cudaSuccess);
      }
      for (void* const part : parts) ASSERT_TRUE(source.deallocate(part, stream));
    }
  }
  EXPECT_EQ(source.counts().reserved, 64_MiB);
  EXPECT_LT(source.counts().events, 100u * 2 * 34);  // one event for each 32nd of the pool
  EXPECT_TRUE(source.audit().empty());
  for (auto const each : streams.handles) source.forget(each);
}
/// A stream that works for some time on memory of its own.
struct busy_stream {
  static constexpr bytes size = 256_MiB;
  busy_stream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, size), cudaSuccess);
  }
  void work() const {
    for (int i = 0; i < 100; ++i) ASSERT_EQ(cudaMemsetAsync(memory, i, size, handle), cudaSuccess);
  }
  ~busy_stream() { EXPECT_EQ(cudaFree(memory), cudaSuccess); }
  cudaStream_t handle = nullptr;
  void* memory = nullptr;
};

/// A destroyed stream's memory stays unavailable until that stream's work ends, although the next
/// stream may have the same handle.
TEST(CudaStreams, AStreamThatIsDestroyedKeepsItsMemoryWhileItWorks) {
  for (bytes const size : {bytes{4_KiB}, bytes{256_KiB}, bytes{32_MiB}}) {
    SCOPED_TRACE(std::to_string(size) + " bytes");
    device_pool source{device_resource{}, cuda_streams{}, {.first_block = 64_MiB}};
    busy_stream ended;
    void* const first = source.allocate(size, ended.handle);
    ended.work();
    ASSERT_EQ(cudaMemsetAsync(first, 1, size, ended.handle), cudaSuccess);
    EXPECT_TRUE(source.deallocate(first, ended.handle));
    ASSERT_EQ(cudaStreamDestroy(ended.handle), cudaSuccess);
    cudaStream_t next = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking), cudaSuccess);
    void* const second = source.allocate(size, next);
    ASSERT_EQ(cudaMemsetAsync(second, 2, size, next), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<unsigned char> found(size);
    ASSERT_EQ(cudaMemcpy(found.data(), second, size, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(std::count(found.begin(), found.end(), 2), static_cast<std::ptrdiff_t>(size));
    EXPECT_TRUE(source.deallocate(second, next));
    ASSERT_EQ(cudaStreamDestroy(next), cudaSuccess);
  }
}

TEST(CudaStreams, APoolOutlivesTheStreamsThatItServed) {
  for (int action = 0; action < 4; ++action) {
    SCOPED_TRACE(action);
    device_pool source{
        device_resource{}, cuda_streams{}, {.first_block = 64_MiB, .max_bytes = 64_MiB}};
    void* kept = nullptr;
    for (int i = 0; i < 20; ++i) {
      busy_stream ended;
      void* const small = source.allocate(10'000, ended.handle);
      void* const large = source.allocate(40_MiB, ended.handle);
      ended.work();
      EXPECT_TRUE(source.deallocate(large, ended.handle));
      if (i == 7) {
        kept = small;
      } else {
        EXPECT_TRUE(source.deallocate(small, ended.handle));
      }
      ASSERT_EQ(cudaStreamDestroy(ended.handle), cudaSuccess);
    }
    two_streams const alive;
    if (action == 1) source.release();
    if (action == 2) EXPECT_NE(source.allocate(30_MiB, alive.handles[0]), nullptr);
    if (action == 3) EXPECT_TRUE(source.deallocate(kept, alive.handles[1]));
    EXPECT_TRUE(source.audit().empty());
  }
}

/// The same handle names a different stream in each thread. No thread may get memory that another
/// thread's stream still writes or copies. No thread waits before the end.
TEST(CudaStreams, ServesThePerThreadDefaultStreams) {
  constexpr bytes size = 1_MiB;
  constexpr int rounds = 200;
  device_pool source{
      device_resource{}, cuda_streams{}, {.first_block = 64_MiB, .max_bytes = 64_MiB}};
  std::mutex mutex;
  std::atomic<int> wrong{0};
  auto const work = [&](unsigned char value) {
    unsigned char* copies = nullptr;
    if (cudaMalloc(&copies, size * rounds) != cudaSuccess) ++wrong;
    for (int round = 0; round < rounds; ++round) {
      std::unique_lock lock{mutex};
      void* const memory = source.allocate(size, cudaStreamPerThread);
      lock.unlock();
      for (int i = 0; i < 10; ++i) cudaMemsetAsync(memory, value, size, cudaStreamPerThread);
      cudaMemcpyAsync(copies + size * static_cast<bytes>(round), memory, size,
                      cudaMemcpyDeviceToDevice, cudaStreamPerThread);
      lock.lock();
      if (!source.deallocate(memory, cudaStreamPerThread)) ++wrong;
    }
    cudaStreamSynchronize(cudaStreamPerThread);
    std::vector<unsigned char> found(size * rounds);
    cudaMemcpy(found.data(), copies, found.size(), cudaMemcpyDeviceToHost);
    if (std::count(found.begin(), found.end(), value) != static_cast<std::ptrdiff_t>(found.size()))
      ++wrong;
    cudaFree(copies);
  };
  std::thread first{work, 1}, second{work, 2}, third{work, 3};
  for (auto* const each : {&first, &second, &third}) each->join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(source.counts().streams, 3u);
  EXPECT_TRUE(source.audit().empty());
}

/// A pool must not disturb another stream's capture if it can allocate without a wait for all
/// streams.
TEST(CudaStreams, DoesNotDisturbACapture) {
  for (auto const mode : {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeGlobal}) {
    two_streams const streams;
    auto const [captured, other] = streams.handles;
    device_pool source{device_resource{}, cuda_streams{}, {.first_block = 64_MiB}};
    void* const captured_memory = source.allocate(1_MiB, captured);
    ASSERT_EQ(cudaStreamBeginCapture(captured, mode), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(captured_memory, 3, 1_MiB, captured), cudaSuccess);
    EXPECT_TRUE(source.deallocate(captured_memory, captured));
    void* const other_memory = source.allocate(32_MiB, other);
    EXPECT_TRUE(source.deallocate(other_memory, other));
    void* const reused = source.allocate(1_MiB, captured);
    EXPECT_TRUE(source.deallocate(reused, captured));
    EXPECT_EQ(source.allocate(1_MiB, captured), reused);
    source.forget(captured);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}

TEST(CudaStreams, SeparatesTheStreamsOfOneCapture) {
  two_streams const streams;
  auto const [first, second] = streams.handles;
  device_pool source{device_resource{}, cuda_streams{}, {.first_block = 64_MiB}};
  cudaEvent_t forked = nullptr, joined = nullptr;
  ASSERT_EQ(cudaEventCreate(&forked), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&joined), cudaSuccess);
  source.deallocate(source.allocate(1_MiB, first), first);
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(forked, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, forked, 0), cudaSuccess);
  void* const first_memory = source.allocate(1_MiB, first);
  EXPECT_TRUE(source.deallocate(first_memory, first));
  void* const second_memory = source.allocate(1_MiB, second);
  EXPECT_NE(second_memory, first_memory) << "the graph does not order the two streams";
  EXPECT_TRUE(source.deallocate(second_memory, second));
  EXPECT_EQ(source.allocate(1_MiB, first), first_memory);
  EXPECT_TRUE(source.deallocate(first_memory, first));
  ASSERT_EQ(cudaEventRecord(joined, second), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(first, joined, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  cudaEventDestroy(forked);
  cudaEventDestroy(joined);
}

TEST(CudaStreams, GrowsWhileAStreamIsBeingCaptured) {
  for (auto const mode : {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeGlobal}) {
    two_streams const streams;
    auto const [captured, second] = streams.handles;
    device_pool source{
        device_resource{}, cuda_streams{}, {.first_block = 1_MiB, .next_block = 1_MiB}};
    ASSERT_EQ(cudaStreamBeginCapture(captured, mode), cudaSuccess);
    void* const first = source.allocate(8_MiB, captured);
    void* const two = source.allocate(8_MiB, second);
    ASSERT_EQ(cudaMemsetAsync(first, 3, 8_MiB, captured), cudaSuccess);
    EXPECT_TRUE(source.deallocate(first, captured));
    EXPECT_TRUE(source.deallocate(two, second));
    device_resource plain;
    plain.deallocate(plain.allocate(1_MiB, 256), 1_MiB, 256);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}
#endif

}  // namespace cuda_streams_test
}  // namespace quarry::test
