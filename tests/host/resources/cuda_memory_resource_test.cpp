// SPDX-License-Identifier: Apache-2.0
// These tests need the headers of the CUDA toolkit; without the headers, this file is empty. The
// tests on a GPU also need a CUDA compiler.
#if __has_include(<cuda_runtime_api.h>)
#include "quarry/host/interop/cuda_memory_resource.cuh"

#include "host/pools/immediate_streams.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/waiting_source.hpp"
#include "quarry/host/resources/advised_resource.hpp"
#include "quarry/host/resources/failure_callback_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/logged_resource.hpp"
#include "quarry/host/resources/ranged_resource.hpp"
#include "quarry/host/resources/stream_callback_resource.hpp"
#include "quarry/platform/cuda_pages.hpp"

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <sstream>
#include <thread>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace cuda_memory_resource_test {

namespace mr = ::cuda::mr;
using ::cuda::stream_ref;

/// Pools of host memory, with streams that finish their work at once. They need no GPU.
using host_source = locked_stream_pool<limited_resource<host_resource>, immediate_streams>;
using host_ref = stream_memory_ref<host_source, cccl_failures, mr::host_accessible>;
using host_shared = shared_stream_memory<host_source, cccl_failures, mr::host_accessible>;

#if CCCL_VERSION >= 3'001'000
static_assert(mr::synchronous_resource<cuda_device_memory>);
static_assert(mr::resource<cuda_device_memory>);
static_assert(mr::resource_with<cuda_device_memory, mr::device_accessible>);
static_assert(!mr::resource_with<cuda_device_memory, mr::host_accessible>);
static_assert(mr::resource_with<cuda_pinned_memory, mr::device_accessible, mr::host_accessible>);
static_assert(mr::resource_with<cuda_managed_memory, mr::device_accessible, mr::host_accessible>);
static_assert(mr::resource_with<shared_cuda_device_memory, mr::device_accessible>);
static_assert(!mr::resource_with<shared_cuda_device_memory, mr::host_accessible>);
static_assert(mr::synchronous_resource_with<shared_cuda_pinned_memory, mr::device_accessible,
                                            mr::host_accessible>);
static_assert(
    mr::resource_with<shared_cuda_managed_memory, mr::device_accessible, mr::host_accessible>);
static_assert(mr::resource_with<host_shared, mr::host_accessible>);
static_assert(!mr::resource_with<host_shared, mr::device_accessible>);
using any_ref = mr::resource_ref<mr::host_accessible>;
#else
static_assert(mr::resource<cuda_device_memory>);
static_assert(mr::async_resource<cuda_device_memory>);
static_assert(mr::async_resource_with<cuda_device_memory, mr::device_accessible>);
static_assert(!mr::resource_with<cuda_device_memory, mr::host_accessible>);
static_assert(
    mr::async_resource_with<cuda_pinned_memory, mr::device_accessible, mr::host_accessible>);
static_assert(
    mr::async_resource_with<cuda_managed_memory, mr::device_accessible, mr::host_accessible>);
static_assert(mr::async_resource_with<shared_cuda_device_memory, mr::device_accessible>);
static_assert(!mr::resource_with<shared_cuda_device_memory, mr::host_accessible>);
static_assert(
    mr::resource_with<shared_cuda_pinned_memory, mr::device_accessible, mr::host_accessible>);
static_assert(mr::async_resource_with<shared_cuda_managed_memory, mr::device_accessible,
                                      mr::host_accessible>);
static_assert(mr::async_resource_with<host_shared, mr::host_accessible>);
static_assert(!mr::async_resource_with<host_shared, mr::device_accessible>);
using any_ref = mr::async_resource_ref<mr::host_accessible>;
#endif
static_assert(std::is_nothrow_copy_constructible_v<shared_cuda_device_memory>);
static_assert(std::is_nothrow_move_constructible_v<shared_cuda_device_memory>);
static_assert(std::is_copy_assignable_v<shared_cuda_device_memory>);
static_assert(std::is_copy_assignable_v<cuda_device_memory>);

/// A stream that no test waits for.
stream_ref stream_number(std::uintptr_t number) {
  return stream_ref{reinterpret_cast<cudaStream_t>(number)};
}

host_shared make_shared(bytes limit = 1 << 20) {
  return host_shared{limited_resource{host_resource{}, limit}, immediate_streams{},
                     stream_pool_options{.first_block = 1 << 16, .next_block = 1 << 16}};
}

TEST(CudaMemoryResource, SharesAPoolAmongItsCopiesUntilTheLastCopyIsDestroyed) {
  auto pool = std::make_shared<host_source>(limited_resource{host_resource{}, 1 << 20},
                                            immediate_streams{});
  std::weak_ptr<host_source> const observer{pool};
  auto first = std::make_unique<host_shared>(std::move(pool));
  auto other = std::make_unique<host_shared>(*first);
  EXPECT_EQ(*first, *other);
  EXPECT_NE(*first, make_shared());
  void* const memory = first->allocate(stream_number(0), 100);
  first.reset();
  other->deallocate(stream_number(0), memory, 100);
  EXPECT_EQ(other->source().counts().allocations_in_use, 0u);
  EXPECT_EQ(observer.use_count(), 1);
  other.reset();
  EXPECT_TRUE(observer.expired());
}

TEST(CudaMemoryResource, RefusesANullPool) {
  EXPECT_THROW(host_shared{std::shared_ptr<host_source>{}}, bad_argument);
}

/// The failures of a library that reports whether the process is exiting.
struct exiting_failures : cccl_failures {
  [[nodiscard]] static bool process_is_exiting() noexcept { return is_exiting; }
  static inline bool is_exiting = false;
};
struct counted_source {
  explicit counted_source(std::shared_ptr<int> living) : living_{std::move(living)} { ++*living_; }
  counted_source(counted_source const&) = delete;
  ~counted_source() { --*living_; }
  void* allocate(bytes, bytes, cuda_stream) { return nullptr; }
  void deallocate(void*, bytes, bytes, cuda_stream) noexcept {}
  void* allocate_sync(bytes, bytes) { return nullptr; }
  void deallocate_sync(void*, bytes, bytes) noexcept {}

 private:
  std::shared_ptr<int> living_;
};

TEST(CudaMemoryResource, DoesNotDestroyItsSourceWhenTheProcessIsExiting) {
  using memory = shared_stream_memory<counted_source, exiting_failures, mr::host_accessible>;
  auto const living = std::make_shared<int>(0);
  for (bool const is_exiting : {false, true}) {
    memory const made{living};
    memory const adopted{std::make_shared<counted_source>(living)};
    memory const copy = adopted;
    EXPECT_EQ(*living, 2);
    exiting_failures::is_exiting = is_exiting;
  }
  exiting_failures::is_exiting = false;
  EXPECT_EQ(*living, 2);
}

TEST(CudaMemoryResource, AllocatesInTheOrderOfTheNamedStream) {
  auto resource = make_shared();
  void* const first = resource.allocate(stream_number(16), 1000);
  void* const second = resource.allocate(stream_number(32), 1000, 512);
  EXPECT_NE(first, second);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 512, 0u);
  resource.deallocate(stream_number(16), first, 1000);
  EXPECT_EQ(resource.allocate_async(900, stream_number(16)), first);
  resource.deallocate_async(first, 900, stream_number(16));
  resource.deallocate_async(second, 1000, 512, stream_number(32));
  EXPECT_EQ(resource.source().counts().streams, 2u);
  EXPECT_EQ(resource.source().counts().invalid_frees, 0u);
  EXPECT_TRUE(resource.source().audit().empty());
}

/// Checks that every kind of allocation fails: with a stream, without a stream, and by the old
/// names.
template <class Failure, class Resource>
void expect_failure(Resource& resource, std::size_t size, std::size_t alignment) {
  EXPECT_THROW((void)resource.allocate(stream_number(16), size, alignment), Failure) << size;
  EXPECT_THROW((void)resource.allocate_sync(size, alignment), Failure) << size;
  EXPECT_THROW((void)resource.allocate_async(size, alignment, stream_number(16)), Failure) << size;
  EXPECT_THROW((void)resource.allocate(size, alignment), Failure) << size;
}

TEST(CudaMemoryResource, ReportsExhaustionAsBadAlloc) {
  auto resource = make_shared();
  for (std::size_t const size : {std::size_t{1} << 30, std::size_t{1} << 50, ~std::size_t{0}}) {
    expect_failure<std::bad_alloc>(resource, size, 256);
    expect_failure<out_of_memory>(resource, size, 1);
  }
  expect_failure<std::bad_alloc>(resource, 16, std::size_t{1} << 40);
  expect_failure<std::bad_alloc>(resource, 16, std::size_t{1} << 63);
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
}

/// CCCL's own resources report the same error.
TEST(CudaMemoryResource, ReportsAnInvalidAlignmentAsInvalidArgument) {
  auto resource = make_shared();
  for (std::size_t const alignment : {0, 3, 42, 257, 1337}) {
    expect_failure<std::invalid_argument>(resource, 100, alignment);
    expect_failure<bad_argument>(resource, 100, alignment);
  }
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
}

/// A driver that refuses each request for another reason than exhaustion.
struct refusing_source {
  void* allocate(bytes, bytes, cuda_stream) { throw resource_failed{"cudaMalloc", "no context"}; }
  void deallocate(void*, bytes, bytes, cuda_stream) noexcept {}
  void* allocate_sync(bytes, bytes) { throw resource_failed{"cudaMalloc", "no context"}; }
  void deallocate_sync(void*, bytes, bytes) noexcept {}
};

TEST(CudaMemoryResource, ReportsADriversRefusalAsBadAllocWithItsReason) {
  refusing_source source;
  stream_memory_ref<refusing_source, cccl_failures, mr::device_accessible> resource{source};
  expect_failure<std::bad_alloc>(resource, 100, 256);
  try {
    (void)resource.allocate_sync(12345);
  } catch (out_of_memory const& failure) {
    EXPECT_NE(failure.message().find("no context"), std::string::npos) << failure.message();
    EXPECT_NE(failure.message().find("12345"), std::string::npos) << failure.message();
  }
}

TEST(CudaMemoryResource, MayBePassedByReference) {
  auto resource = make_shared();
  auto second = make_shared();
  any_ref any{resource};
  any_ref other{second};
  EXPECT_TRUE(any == any_ref{resource});
  EXPECT_FALSE(any == other);
#if CCCL_VERSION >= 3'001'000
  void* const memory = any.allocate(stream_number(16), 100, 64);
  any.deallocate(stream_number(16), memory, 100, 64);
  EXPECT_THROW((void)any.allocate(stream_number(16), 100, 3), std::invalid_argument);
  EXPECT_THROW((void)any.allocate_sync(std::size_t{1} << 50, 64), std::bad_alloc);
#else
  void* const memory = any.allocate_async(100, 64, stream_number(16));
  any.deallocate_async(memory, 100, 64, stream_number(16));
  EXPECT_THROW((void)any.allocate_async(100, 3, stream_number(16)), std::invalid_argument);
  EXPECT_THROW((void)any.allocate(std::size_t{1} << 50, 64), std::bad_alloc);
#endif
  EXPECT_EQ(resource.source().counts().allocations, 1u);
  EXPECT_EQ(second.source().counts().allocations, 0u);
}

#if CCCL_VERSION >= 3'002'000
static_assert(std::is_same_v<cuda_device_memory::default_queries,
                             mr::properties_list<mr::device_accessible>>);
static_assert(std::is_same_v<shared_cuda_pinned_memory::default_queries,
                             mr::properties_list<mr::device_accessible, mr::host_accessible>>);

TEST(CudaMemoryResource, MayBePassedByValueToOwnersOfResources) {
  auto resource = make_shared();
  std::weak_ptr<host_source> const pool{resource.shared()};
  mr::any_resource<mr::host_accessible> any{resource};
  mr::any_synchronous_resource<mr::host_accessible> any_synchronous{resource};
  auto shared = mr::make_shared_resource<host_shared>(resource.shared());
  void* const memory = any.allocate(stream_number(16), 100, 64);
  void* const other = any_synchronous.allocate_sync(100, 64);
  void* const third = shared.allocate(stream_number(32), 100, 64);
  EXPECT_EQ(resource.source().counts().allocations_in_use, 3u);
  any.deallocate(stream_number(16), memory, 100, 64);
  any_synchronous.deallocate_sync(other, 100, 64);
  shared.deallocate(stream_number(32), third, 100, 64);
  EXPECT_EQ(resource.source().counts().invalid_frees, 0u);
  EXPECT_EQ(pool.use_count(), 4);
}
#endif

TEST(CudaMemoryResource, IsSharedByThreads) {
  auto resource = make_shared(1 << 24);
  std::vector<std::thread> threads;
  for (std::uintptr_t number = 1; number <= 2; ++number) {
    threads.emplace_back([copy = resource, stream = stream_number(16 * number)]() mutable {
      for (std::size_t i = 0; i < 1000; ++i)
        copy.deallocate(stream, copy.allocate(stream, 1 + i % 3000), 1 + i % 3000);
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(resource.source().counts().allocations, 2000u);
  EXPECT_EQ(resource.source().counts().invalid_frees, 0u);
  EXPECT_TRUE(resource.source().audit().empty());
}

/// The build also compiles this file with per-thread default streams.
TEST(CudaMemoryResource, NamesTheDefaultStreamOfTheProgram) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  std::string const handle = "2";  // cudaStreamPerThread
#else
  std::string const handle = "0";
#endif
  recording_source source;
  stream_memory_ref<recording_source, cccl_failures, mr::host_accessible> resource{source};
  resource.deallocate(stream_number(0), resource.allocate(stream_number(0), 100), 100);
  resource.deallocate(stream_number(16), resource.allocate(stream_number(16), 200), 200);
  EXPECT_EQ(*source.calls,
            (std::vector<std::string>{"allocate 100 on " + handle, "deallocate 100 on " + handle,
                                      "allocate 200 on 16", "deallocate 200 on 16"}));
}

/// An adaptor of a source is a source.
static_assert(stream_memory_source<logged_resource<locked_stream_pool<device_resource>>>);
static_assert(stream_memory_source<advised_resource<locked_stream_pool<managed_resource>>>);
static_assert(stream_memory_source<waiting_source<stitched_pool<cuda_pages>>>);

TEST(CudaMemoryResource, WorksOverAdaptorsOfItsSource) {
  struct no_ranges {
    void push(char const*) noexcept {}
    void pop() noexcept {}
  };
  using source = logged_resource<advised_resource<ranged_resource<host_source, no_ranges>>>;
  std::ostringstream text;
  shared_stream_memory<source, cccl_failures, mr::host_accessible> resource{
      std::make_shared<allocation_log>(text),
      std::in_place,
      std::vector<advised_resource<ranged_resource<host_source, no_ranges>>::advice>{},
      std::nullopt,
      std::in_place,
      no_ranges{},
      "pool",
      std::in_place,
      limited_resource{host_resource{}, bytes{1} << 20},
      immediate_streams{}};
  auto copy = resource;
  void* const first = resource.allocate(stream_number(16), 100);
  void* const second = copy.allocate_sync(200);
  copy.deallocate(stream_number(16), first, 100);
  resource.deallocate_sync(second, 200);
  EXPECT_THROW((void)resource.allocate(stream_number(16), std::size_t{1} << 50), std::bad_alloc);
  EXPECT_NE(text.str().find(",100,0x10"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("allocate failure,(nil),1125899906842624,0x10"), std::string::npos);
}

TEST(CudaMemoryResource, PassesItsStreamToFunctionsOfTheUser) {
  using memory = shared_stream_memory<stream_callback_resource, cccl_failures, mr::host_accessible>;
  std::vector<std::optional<cuda_stream>> streams;
  memory resource{
      [&](bytes size, bytes alignment, std::optional<cuda_stream> stream) {
        streams.push_back(stream);
        return host_resource{}.allocate(size, alignment);
      },
      [&](void* pointer, bytes size, bytes alignment, std::optional<cuda_stream> stream) {
        streams.push_back(stream);
        host_resource{}.deallocate(pointer, size, alignment);
      },
      memory_location{}};
  void* const first = resource.allocate(stream_number(16), 100);
  resource.deallocate(stream_number(32), first, 100);
  resource.deallocate_sync(resource.allocate_sync(100), 100);
  EXPECT_EQ(streams,
            (std::vector<std::optional<cuda_stream>>{
                stream_number(16).get(), stream_number(32).get(), std::nullopt, std::nullopt}));
}

/// As with RMM's adaptor over a pool, the callback may free memory through the resource, also from
/// another thread.
TEST(CudaMemoryResource, LetsAFailureCallbackFreeMemoryThroughIt) {
  using source = failure_callback_resource<host_source>;
  using memory = shared_stream_memory<source, cccl_failures, mr::host_accessible>;
  std::vector<void*> caches;
  memory* self = nullptr;
  int calls = 0;
  auto const make_room = [&](bytes) {
    ++calls;
    if (caches.empty()) return false;
    std::thread{[&] { self->deallocate(stream_number(16), caches.back(), 400'000); }}.join();
    caches.pop_back();
    return true;
  };
  memory resource{make_room, std::in_place, limited_resource{host_resource{}, bytes{1} << 20},
                  immediate_streams{},
                  stream_pool_options{.first_block = 1 << 16, .next_block = 1 << 16}};
  self = &resource;
  for (int i = 0; i < 2; ++i) caches.push_back(resource.allocate(stream_number(16), 400'000));
  void* const first_memory = resource.allocate(stream_number(16), 900'000);
  EXPECT_EQ(calls, 2);
  EXPECT_THROW((void)resource.allocate_sync(900'000), std::bad_alloc);
  EXPECT_EQ(calls, 3);
  resource.deallocate(stream_number(16), first_memory, 900'000);
  EXPECT_EQ(resource.source().upstream().counts().allocations_in_use, 0u);
}

#ifdef __CUDACC__
/// Skips its tests where there is no GPU.
std::unique_ptr<cuda_device_memory::owner> make_owner() {
  try {
    return std::make_unique<cuda_device_memory::owner>(device_resource{}, cuda_streams{});
  } catch (resource_failed const&) {
    return nullptr;
  }
}

TEST(CudaMemoryResource, ServesUsersOfCcclsResources) {
  auto const owner = make_owner();
  if (!owner) GTEST_SKIP() << "no GPU";
  cuda_device_memory resource{*owner};
#if CCCL_VERSION >= 3'001'000
  mr::resource_ref<mr::device_accessible> any{resource};
  void* const first = any.allocate(stream_ref{cudaStream_t{}}, 1000, 256);
  EXPECT_EQ(cudaMemset(first, 7, 1000), cudaSuccess);
  EXPECT_EQ(registry::find(first)->size, 1000u);
  any.deallocate(stream_ref{cudaStream_t{}}, first, 1000, 256);
  mr::synchronous_resource_ref<mr::device_accessible> plain{resource};
  void* const second = plain.allocate_sync(1000, 256);
  EXPECT_EQ(second, first);
  plain.deallocate_sync(second, 1000, 256);
#else
  mr::async_resource_ref<mr::device_accessible> any{resource};
  void* const first = any.allocate_async(1000, 256, stream_ref{cudaStream_t{}});
  EXPECT_EQ(cudaMemset(first, 7, 1000), cudaSuccess);
  EXPECT_EQ(registry::find(first)->size, 1000u);
  any.deallocate_async(first, 1000, 256, stream_ref{cudaStream_t{}});
  mr::resource_ref<mr::device_accessible> plain{resource};
  void* const second = plain.allocate(1000, 256);
  EXPECT_EQ(second, first);
  plain.deallocate(second, 1000, 256);
#endif
  EXPECT_EQ(owner->counts().allocations_in_use, 0u);
  EXPECT_EQ(resource, cuda_device_memory{*owner});
}

TEST(CudaMemoryResource, ServesMoreThanThePoolsAlignment) {
  auto const owner = make_owner();
  if (!owner) GTEST_SKIP() << "no GPU";
  cuda_device_memory resource{*owner};
  void* const first = resource.allocate(100, 512);
  void* const second = resource.allocate_async(100, 8192, stream_ref{cudaStream_t{}});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 512, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 8192, 0u);
  resource.deallocate_async(second, 100, 8192, stream_ref{cudaStream_t{}});
  resource.deallocate(first, 100, 512);
  EXPECT_EQ(owner->counts().invalid_frees, 0u);
  EXPECT_TRUE(owner->audit().empty());
}

/// A stitched pool may pass returned memory to any stream at once, so the source waits for the
/// stream first. Without that wait, the first stream's fills, which take much longer, would
/// overwrite the second stream's.
TEST(CudaMemoryResource, WaitsForTheStreamBeforeAFreeReachesAPoolWithoutStreams) {
  if (!make_owner()) GTEST_SKIP() << "no GPU";
  using source = waiting_source<stitched_pool<cuda_pages>>;
  shared_stream_memory<source, cccl_failures, mr::device_accessible> resource{cuda_streams{},
                                                                              cuda_pages{}};
  constexpr std::size_t size = 256 << 20;
  cudaStream_t streams[2];
  for (auto& each : streams)
    ASSERT_EQ(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking), cudaSuccess);
  void* const of_first = resource.allocate(streams[0], size);
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(cudaMemsetAsync(of_first, 1, size, streams[0]), cudaSuccess);
  resource.deallocate(streams[0], of_first, size);
  EXPECT_EQ(cudaStreamQuery(streams[0]), cudaSuccess);
  void* const of_second = resource.allocate(streams[1], size);
  EXPECT_EQ(of_second, of_first);
  resource.deallocate(streams[1], of_second, size);
  for (auto const each : streams) EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess);
}

/// The largest GPU has less than 32 TiB. The test does not try how much memory the host can pin.
TEST(CudaMemoryResource, FailsOnAGpuAsItsCallersExpect) {
  auto const owner = make_owner();
  if (!owner) GTEST_SKIP() << "no GPU";
  shared_cuda_device_memory device{device_resource{}, cuda_streams{}};
  shared_cuda_pinned_memory pinned{pinned_resource{}, cuda_streams{}};
  shared_cuda_managed_memory managed{managed_resource{}, cuda_streams{}};
  auto const check = [](auto& resource, std::size_t too_large) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    for (std::size_t const size : {too_large, std::size_t{1} << 50}) {
      EXPECT_THROW((void)resource.allocate(stream, size), std::bad_alloc);
      EXPECT_THROW((void)resource.allocate_sync(size), std::bad_alloc);
    }
    for (std::size_t const alignment : {0, 3, 42, 1337}) {
      EXPECT_THROW((void)resource.allocate(stream, 5, alignment), std::invalid_argument);
      EXPECT_THROW((void)resource.allocate_sync(5, alignment), std::invalid_argument);
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a later call would report this failure";
    void* const memory = resource.allocate(stream, 1000);
    EXPECT_EQ(cudaMemsetAsync(memory, 1, 1000, stream), cudaSuccess);
    resource.deallocate(stream, memory, 1000);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  };
  check(device, std::size_t{1} << 45);
  check(pinned, std::size_t{1} << 47);
  check(managed, std::size_t{1} << 47);
}
#endif

}  // namespace cuda_memory_resource_test
}  // namespace quarry::test
#endif
