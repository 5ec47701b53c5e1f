// SPDX-License-Identifier: Apache-2.0
// The build compiles this file where RMM is installed: see QUARRY_RMM in tests/CMakeLists.txt. The
// first tests need no GPU: a pool of host memory reports itself as GPU memory, and no code accesses
// that memory.
#include "quarry/host/interop/rmm_memory_resource.cuh"

#include "host/pools/immediate_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/logged_resource.hpp"

#include <gtest/gtest.h>

#include <cuda/buffer>

#include <rmm/device_buffer.hpp>
#include <rmm/device_scalar.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/aligned_resource_adaptor.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/logging_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/polymorphic_allocator.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/prefetch_resource_adaptor.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/mr/thread_safe_resource_adaptor.hpp>
#include <rmm/mr/tracking_resource_adaptor.hpp>

#ifdef __CUDACC__
#include <rmm/device_vector.hpp>
#include <rmm/exec_policy.hpp>

#include <thrust/reduce.h>
#include <thrust/sort.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace quarry::test {
namespace rmm_memory_resource_test {

namespace mr = ::cuda::mr;
using mr::device_accessible;
using mr::host_accessible;

static_assert(mr::resource_with<rmm_device_memory, device_accessible>);
static_assert(!mr::resource_with<rmm_device_memory, host_accessible>);
static_assert(mr::resource_with<rmm_pinned_memory, device_accessible, host_accessible>);
static_assert(
    mr::synchronous_resource_with<rmm_managed_memory, device_accessible, host_accessible>);
static_assert(std::is_constructible_v<rmm::device_async_resource_ref, rmm_device_memory&>);
static_assert(std::is_constructible_v<rmm::device_resource_ref, rmm_device_memory&>);
static_assert(std::is_constructible_v<rmm::host_async_resource_ref, rmm_pinned_memory&>);
static_assert(std::is_constructible_v<rmm::host_device_async_resource_ref, rmm_pinned_memory&>);
static_assert(!std::is_constructible_v<rmm::host_async_resource_ref, rmm_device_memory&>);
static_assert(std::is_convertible_v<rmm_device_memory, mr::any_resource<device_accessible>>);
static_assert(std::is_convertible_v<rmm_memory_resource_ref<device_resource, device_accessible>,
                                    mr::any_resource<device_accessible>>);

// Resources that a reference to a resource constructs. The check whether such a class may be
// copied asks whether it is a resource, which asks whether it may be copied (CCCL's issue 8037,
// with GCC 14 and Clang).
struct adaptor_source {
  explicit adaptor_source(rmm::device_async_resource_ref);
  void* allocate(bytes, bytes, cuda_stream);
  void deallocate(void*, bytes, bytes, cuda_stream) noexcept;
  void* allocate_sync(bytes, bytes);
  void deallocate_sync(void*, bytes, bytes) noexcept;
};
using owning_adaptor = shared_stream_memory<adaptor_source, rmm_failures, device_accessible>;
static_assert(std::copy_constructible<owning_adaptor>);
static_assert(mr::resource_with<owning_adaptor, device_accessible>);
static_assert(std::is_constructible_v<owning_adaptor, rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<owning_adaptor, mr::any_resource<device_accessible>>);
struct derived_adaptor : rmm_device_memory {
  explicit derived_adaptor(rmm::device_async_resource_ref);
  explicit derived_adaptor(mr::any_resource<device_accessible>);
};
static_assert(std::copy_constructible<derived_adaptor>);
static_assert(mr::resource_with<derived_adaptor, device_accessible>);
static_assert(std::is_convertible_v<derived_adaptor, mr::any_resource<device_accessible>>);

using host_source = locked_stream_pool<limited_resource<host_resource>, immediate_streams>;
using host_memory = shared_stream_memory<host_source, rmm_failures, device_accessible>;

host_memory make(bytes limit = 1 << 20) {
  return host_memory{limited_resource{host_resource{}, limit}, immediate_streams{},
                     stream_pool_options{.first_block = 1 << 16, .next_block = 1 << 16}};
}

::cuda::stream_ref stream_number(std::uintptr_t number) {
  return ::cuda::stream_ref{reinterpret_cast<cudaStream_t>(number)};
}
::cuda::stream_ref const stream = stream_number(16);

TEST(RmmMemoryResource, ReportsExhaustionAsRmmsOutOfMemory) {
  auto resource = make();
  for (std::size_t const size : {std::size_t{1} << 30, std::size_t{1} << 50, ~std::size_t{0}}) {
    EXPECT_THROW((void)resource.allocate(stream, size), rmm::out_of_memory) << size;
    EXPECT_THROW((void)resource.allocate_sync(size), rmm::out_of_memory) << size;
  }
  try {
    (void)resource.allocate(stream, std::size_t{1} << 50);
  } catch (std::bad_alloc const& failure) {
    std::string const text = failure.what();
    EXPECT_NE(text.find("out_of_memory"), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(std::size_t{1} << 50)), std::string::npos) << text;
  }
}

TEST(RmmMemoryResource, ReportsABadAlignmentAsRmmsBadAllocAndNotAsOutOfMemory) {
  auto resource = make();
  for (std::size_t const alignment : {0, 3, 42, 257}) {
    EXPECT_THROW((void)resource.allocate(stream, 100, alignment), rmm::bad_alloc) << alignment;
    EXPECT_THROW((void)resource.allocate_sync(100, alignment), rmm::bad_alloc) << alignment;
    try {
      (void)resource.allocate(stream, 100, alignment);
    } catch (rmm::out_of_memory const& failure) {
      ADD_FAILURE() << failure.what();
    } catch (rmm::bad_alloc const& failure) {
      EXPECT_NE(std::string{failure.what()}.find("alignment"), std::string::npos);
    }
  }
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
}

struct refusing_source {
  void* allocate(bytes, bytes, cuda_stream) { throw resource_failed{"cudaMalloc", "no context"}; }
  void deallocate(void*, bytes, bytes, cuda_stream) noexcept {}
  void* allocate_sync(bytes, bytes) { throw std::bad_alloc{}; }
  void deallocate_sync(void*, bytes, bytes) noexcept {}
};

TEST(RmmMemoryResource, ReportsAnyOtherFailureAsRmmsBadAlloc) {
  shared_stream_memory<refusing_source, rmm_failures, device_accessible> resource;
  EXPECT_THROW((void)resource.allocate(stream, 100), rmm::bad_alloc);
  EXPECT_THROW((void)resource.allocate_sync(100), rmm::bad_alloc);
}

/// The first call of the callback frees memory, and the allocation succeeds. The second call has
/// nothing to free, and the allocation fails.
TEST(RmmMemoryResource, LetsRmmsFailureCallbackFreeMemory) {
  auto resource = make(1 << 20);
  void* kept = resource.allocate(stream, 900'000);
  int calls = 0;
  rmm::mr::failure_callback_resource_adaptor<> adaptor{
      resource,
      [&](std::size_t, void*) {
        ++calls;
        if (kept == nullptr) return false;
        resource.deallocate(stream, std::exchange(kept, nullptr), 900'000);
        return true;
      },
      nullptr};
  void* const memory = adaptor.allocate(stream, 800'000, 256);
  EXPECT_EQ(calls, 1);
  EXPECT_THROW((void)adaptor.allocate(stream, 800'000, 256), rmm::out_of_memory);
  EXPECT_EQ(calls, 2);
  EXPECT_THROW((void)adaptor.allocate(stream, 100, 3), rmm::bad_alloc);
  EXPECT_EQ(calls, 2);
  adaptor.deallocate(stream, memory, 800'000, 256);
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
}

TEST(RmmMemoryResource, WorksUnderRmmsAdaptors) {
  auto resource = make();
  rmm::mr::statistics_resource_adaptor statistics{resource};
  rmm::mr::tracking_resource_adaptor tracking{statistics};
  rmm::mr::limiting_resource_adaptor limiting{tracking, 10'240};
  rmm::mr::aligned_resource_adaptor aligned{limiting, 1024};
  rmm::mr::thread_safe_resource_adaptor thread_safe{aligned};
  std::ostringstream log;
  rmm::mr::logging_resource_adaptor logging{thread_safe, log, true};
  void* const first = logging.allocate(stream, 1000, 256);
  void* const second = logging.allocate(stream_number(32), 2000, 256);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 1024, 0u);
  EXPECT_EQ(tracking.get_outstanding_allocations().size(), 2u);
  EXPECT_EQ(statistics.get_allocations_counter().value, 2);
  EXPECT_THROW((void)logging.allocate(stream, 20'000, 256), rmm::out_of_memory);
  logging.deallocate(stream, first, 1000, 256);
  logging.deallocate(stream_number(32), second, 2000, 256);
  EXPECT_EQ(statistics.get_bytes_counter().value, 0);
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
  EXPECT_EQ(resource.source().counts().invalid_frees, 0u);
  EXPECT_NE(log.str().find("allocate failure"), std::string::npos) << log.str();
}

/// Returns each line without its time.
std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream lines{text};
  std::vector<std::string> result;
  for (std::string line; std::getline(lines, line);) {
    auto const comma = line.find(',');
    bool const has_time = line.find("Thread") == std::string::npos;
    result.push_back(has_time ? line.substr(0, comma) + line.substr(line.find(',', comma + 1))
                              : line);
  }
  return result;
}

TEST(RmmMemoryResource, LogsTheLinesThatRmmLogs) {
  std::ostringstream our_text, rmms_text;
  using source = logged_resource<host_source>;
  shared_stream_memory<source, rmm_failures, device_accessible> resource{
      std::make_shared<allocation_log>(our_text), std::in_place,
      limited_resource{host_resource{}, bytes{1} << 20}, immediate_streams{}};
  rmm::mr::logging_resource_adaptor logging{resource, rmms_text, true};
  for (std::uintptr_t number : {0, 1, 2, 0x1234}) {
    auto const stream_handle = stream_number(number);
    void* const memory = logging.allocate(stream_handle, 1000 + number, 256);
    EXPECT_THROW((void)logging.allocate(stream_handle, std::size_t{1} << 50, 256),
                 rmm::out_of_memory);
    logging.deallocate(stream_handle, memory, 1000 + number, 256);
  }
  logging.flush();
  EXPECT_EQ(lines_of(our_text.str()), lines_of(rmms_text.str()));
  EXPECT_EQ(lines_of(our_text.str()).size(), 13u);
}

TEST(RmmMemoryResource, ServesTheBinsOfRmmsBinningResource) {
  auto resource = make();
  auto bins = make();
  rmm::mr::binning_memory_resource binning{resource};
  binning.add_bin(1024, rmm::device_async_resource_ref{bins});
  void* const small = binning.allocate(stream, 1000, 256);
  void* const large = binning.allocate(stream, 10'000, 256);
  EXPECT_EQ(bins.source().counts().allocations, 1u);
  EXPECT_EQ(resource.source().counts().allocations, 1u);
  binning.deallocate(stream, small, 1000, 256);
  binning.deallocate(stream, large, 10'000, 256);
}

TEST(RmmMemoryResource, IsStoredByValueAsADevicesResource) {
  rmm::cuda_device_id const device{7};
  std::weak_ptr<host_source> pool;
  {
    auto resource = make();
    pool = resource.shared();
    (void)rmm::mr::set_per_device_resource(device, resource);
  }
  EXPECT_FALSE(pool.expired());
  auto ref = rmm::mr::get_per_device_resource_ref(device);
  void* const memory = ref.allocate(stream, 100, 256);
  EXPECT_EQ(pool.lock()->counts().allocations_in_use, 1u);
  ref.deallocate(stream, memory, 100, 256);
  (void)rmm::mr::reset_per_device_resource(device);
  EXPECT_TRUE(pool.expired());
}

/// A wrapper of a wrapper must hold the resource itself. Otherwise equal resources compare as
/// different, as in RMM before its change 2349, or the wrapper refers to a resource that is gone.
TEST(RmmMemoryResource, IsTheSameResourceInEveryWrapper) {
  std::weak_ptr<host_source> pool;
  using owner = mr::any_resource<device_accessible>;
  auto const wrap = [&] {
    auto resource = make();
    pool = resource.shared();
    rmm::device_async_resource_ref const ref{resource};
    owner direct{resource}, by_ref{ref};
    EXPECT_EQ(direct, by_ref);
    EXPECT_EQ(ref, rmm::device_async_resource_ref{by_ref});
    EXPECT_EQ(rmm::device_async_resource_ref{resource}, rmm::device_async_resource_ref{direct});
    auto other = make();
    EXPECT_NE(direct, owner{rmm::device_async_resource_ref{other}});
    return owner{rmm::device_async_resource_ref{by_ref}};
  };
  owner wrapped = wrap();
  auto* const resource = mr::resource_cast<host_memory>(&wrapped);
  ASSERT_NE(resource, nullptr);
  EXPECT_EQ(resource->shared(), pool.lock());
  EXPECT_EQ(pool.use_count(), 1);
  void* const memory = wrapped.allocate(stream, 100, 256);
  EXPECT_EQ(pool.lock()->counts().allocations_in_use, 1u);
  wrapped.deallocate(stream, memory, 100, 256);
}

/// RMM keeps the resource until the process ends, after `main`.
TEST(RmmMemoryResource, MayBeADevicesResourceWhenTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const end = [] {
    auto resource = make();
    (void)resource.allocate(stream, 100);
    (void)rmm::mr::set_per_device_resource(rmm::cuda_device_id{7}, resource);
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

struct printing_source : refusing_source {
  ~printing_source() { std::fputs("destroyed\n", stderr); }
};
TEST(RmmMemoryResource, DoesNotDestroyItsSourceWhenTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using memory = shared_stream_memory<printing_source, rmm_failures, device_accessible>;
  auto const end = [](bool resets) {
    rmm::cuda_device_id const device{7};
    (void)rmm::mr::set_per_device_resource(device, memory{});
    if (resets) (void)rmm::mr::reset_per_device_resource(device);
    std::fputs("end\n", stderr);
    std::exit(0);
  };
  EXPECT_EXIT(end(false), testing::ExitedWithCode(0), "^end\n$");
  EXPECT_EXIT(end(true), testing::ExitedWithCode(0), "^destroyed\nend\n$");
}

TEST(RmmMemoryResource, ServesRmmsAllocators) {
  auto resource = make();
  rmm::mr::polymorphic_allocator<double> allocator{resource};
  double* const memory = allocator.allocate(100, stream);
  EXPECT_EQ(resource.source().counts().allocated, 800u);
  EXPECT_TRUE(allocator == rmm::mr::polymorphic_allocator<double>{resource});
  EXPECT_FALSE(allocator == rmm::mr::polymorphic_allocator<double>{make()});
  allocator.deallocate(memory, 100, stream);
}

TEST(RmmMemoryResource, ServesCcclsBuffer) {
  auto resource = make();
  auto const allocated = [&] { return resource.source().counts().allocated; };
  {
    ::cuda::buffer<int, device_accessible> const numbers{stream, resource, 100, ::cuda::no_init};
    EXPECT_EQ(allocated(), 400u);
  }
  EXPECT_EQ(allocated(), 0u);
}

/// The remaining tests need a GPU.
bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// Makes a resource the current device's resource until destruction.
struct current_resource {
  explicit current_resource(mr::any_resource<device_accessible> resource)
      : previous{rmm::mr::set_current_device_resource(std::move(resource))} {}
  ~current_resource() { (void)rmm::mr::set_current_device_resource(std::move(previous)); }
  mr::any_resource<device_accessible> previous;
};

struct two_streams {
  two_streams() {
    for (auto& each : handles)
      EXPECT_EQ(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking), cudaSuccess);
  }
  ~two_streams() {
    for (auto const each : handles) {
      EXPECT_EQ(cudaStreamSynchronize(each), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess);
    }
  }
  cudaStream_t handles[2];
};

template <class Memory>
void expect_containers_work(Memory resource) {
  auto const& pool = resource.source();
  two_streams const streams;
  {
    current_resource const current{resource};
    for (cudaStream_t const each : streams.handles) {
      ::cuda::stream_ref const stream_handle{each};
      std::vector<int> const values{3, 1, 4, 1, 5};
      rmm::device_uvector<int> numbers{values.size(), stream_handle};
      ASSERT_EQ(cudaMemcpyAsync(numbers.data(), values.data(), numbers.size() * sizeof(int),
                                cudaMemcpyDefault, each),
                cudaSuccess);
      EXPECT_EQ(numbers.element(4, stream_handle), 5);
      numbers.resize(100'000, stream_handle);
      EXPECT_EQ(numbers.element(2, stream_handle), 4);
      rmm::device_buffer const copy{numbers.data(), 5 * sizeof(int), stream_handle};
      double const value = 2.5;
      rmm::device_scalar<double> const scalar{value, stream_handle};
      EXPECT_EQ(scalar.value(stream_handle), value);
      EXPECT_EQ(copy.size(), 20u);
      EXPECT_GE(pool.counts().allocations_in_use, 3u);
    }
    EXPECT_THROW((rmm::device_buffer{std::size_t{1} << 50, streams.handles[0]}),
                 rmm::out_of_memory);
  }
  EXPECT_EQ(pool.counts().allocations_in_use, 0u);
  EXPECT_EQ(pool.counts().invalid_frees, 0u);
  EXPECT_TRUE(pool.audit().empty());
}

TEST(RmmMemoryResourceOnAGpu, IsTheCurrentResourceOfRmmsContainers) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  expect_containers_work(rmm_device_memory{device_resource{}, cuda_streams{}});
  expect_containers_work(rmm_managed_memory{managed_resource{}, cuda_streams{}});
  expect_containers_work(rmm_pinned_memory{pinned_resource{}, cuda_streams{}});
}

TEST(RmmMemoryResourceOnAGpu, WorksUnderRmmsPrefetchAdaptorAndPool) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  rmm_managed_memory resource{managed_resource{}, cuda_streams{}};
  two_streams const streams;
  {
    rmm::mr::prefetch_resource_adaptor prefetching{resource};
    rmm::mr::pool_memory_resource pool{prefetching, 1 << 20};
    rmm::device_uvector<int> const first{1000, streams.handles[0], pool};
    rmm::device_uvector<int> const second{1000, streams.handles[1], prefetching};
    EXPECT_NE(first.data(), second.data());
  }
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
}

#ifdef __CUDACC__
TEST(RmmMemoryResourceOnAGpu, ServesThrustByRmmsPolicyAndVector) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  rmm_device_memory resource{device_resource{}, cuda_streams{}};
  current_resource const current{resource};
  {
    rmm::device_vector<int> numbers(100'000, 1);
    EXPECT_EQ(thrust::reduce(numbers.begin(), numbers.end()), 100'000);
    two_streams const streams;
    for (cudaStream_t const each : streams.handles) {
      thrust::sort(rmm::exec_policy_nosync(::cuda::stream_ref{each}, resource), numbers.begin(),
                   numbers.end());
      EXPECT_EQ(cudaStreamSynchronize(each), cudaSuccess);
    }
  }
  EXPECT_GT(resource.source().counts().allocations, 2u);
  EXPECT_EQ(resource.source().counts().allocations_in_use, 0u);
}
#endif

}  // namespace rmm_memory_resource_test
}  // namespace quarry::test
