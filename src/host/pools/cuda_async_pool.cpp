// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_async_pool.hpp"

#include "host/resources/cuda_allocation.hpp"
#include "platform/cuda_calls.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

using cuda::device_guard;
using cuda::relaxed_captures;

namespace {

/// The GPU whose default stream the null stream means: the GPU of the memory, or the current GPU.
int device_of(memory_location location) {
  int result = location.device;
  if (location.kind != memory_kind::device) cuda::check(cudaGetDevice(&result), "cudaGetDevice");
  return result;
}

bytes attribute(cuda_memory_pool pool, cudaMemPoolAttr wanted) {
  std::uint64_t result = 0;
  cuda::check(cudaMemPoolGetAttribute(pool, wanted, &result), "cudaMemPoolGetAttribute");
  return result;
}

void check_options(cuda_async_options const& options) {
  memory_location const location = options.location;
  if (location.kind != memory_kind::device && location.kind != memory_kind::pinned &&
      location.kind != memory_kind::managed)
    throw bad_argument{std::string{"cuda_async_pool: CUDA has no pools of the kind "} +
                       name_of(location.kind) + "; they are of device, pinned or managed memory"};
  if (location.kind == memory_kind::managed && options.max_bytes != no_limit)
    throw bad_argument{"cuda_async_pool: a pool of managed memory has no limit, and max_bytes is " +
                       std::to_string(options.max_bytes)};
  if (options.max_bytes == 0)
    throw bad_argument{"cuda_async_pool: max_bytes is 0 bytes; no_limit is what sets no limit"};
  if (options.first > options.max_bytes)
    throw bad_argument{"cuda_async_pool: first is " + std::to_string(options.first) +
                       ", more than max_bytes, " + std::to_string(options.max_bytes)};
  cuda::check_device("cuda_async_pool", location.kind == memory_kind::device ? location.device : 0);
}

cudaMemPoolProps properties_of(cuda_async_options const& options) {
  cudaMemPoolProps result{};
  result.handleTypes = cudaMemHandleTypeNone;
  result.maxSize = options.max_bytes == no_limit ? 0 : options.max_bytes;  // of CUDA: 0 is none
  result.allocType = cudaMemAllocationTypePinned;
  if (options.location.kind == memory_kind::device) {
    result.location = {cudaMemLocationTypeDevice, options.location.device};
  } else if (options.location.kind == memory_kind::pinned) {
    result.location = {cudaMemLocationTypeHost, 0};
  } else {
    result.allocType = cudaMemAllocationTypeManaged;
    result.location = {cudaMemLocationTypeNone, 0};
  }
  return result;
}

/// Allows the GPUs to access host memory. By default no GPU may.
void let_all_devices_use(cuda_memory_pool pool) {
  int count = 0;
  cuda::check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<cudaMemAccessDesc> access(static_cast<std::size_t>(count));
  for (int device = 0; device < count; ++device)
    access[static_cast<std::size_t>(device)] = {{cudaMemLocationTypeDevice, device},
                                                cudaMemAccessFlagsProtReadWrite};
  cuda::check(cudaMemPoolSetAccess(pool, access.data(), access.size()), "cudaMemPoolSetAccess");
}

/// Destroys the pool unless its construction completes.
cuda_memory_pool make_pool(cuda_async_options const& options) {
  check_options(options);
  device_guard const guard{device_of(options.location)};
  cudaMemPoolProps const properties = properties_of(options);
  cuda_memory_pool result = nullptr;
  cuda::check(cudaMemPoolCreate(&result, &properties), "cudaMemPoolCreate");
  try {
    std::uint64_t kept = options.kept;
    cuda::check(cudaMemPoolSetAttribute(result, cudaMemPoolAttrReleaseThreshold, &kept),
                "cudaMemPoolSetAttribute");
    if (options.location.kind == memory_kind::pinned) let_all_devices_use(result);
    if (options.first != 0) {
      cuda_async_view first{result, options.location};
      first.deallocate_sync(first.allocate_sync(options.first, 256), options.first, 256);
    }
  } catch (...) {
    cudaMemPoolDestroy(result);
    throw;
  }
  return result;
}

}  // namespace

/// A stream that is independent of all other streams, and the count of invalid frees.
struct cuda_async_view::shared_state {
  explicit shared_state(int stream_device) : device{stream_device} {
    device_guard const guard{device};
    relaxed_captures const captures;
    cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
  }
  shared_state(shared_state const&) = delete;
  shared_state& operator=(shared_state const&) = delete;
  ~shared_state() {
    device_guard const guard{device};
    relaxed_captures const captures;
    if (cudaStreamDestroy(stream) != cudaSuccess) cudaGetLastError();
  }

  int device;
  cudaStream_t stream = nullptr;
  std::atomic<std::uint64_t> invalid_frees{0};  // relaxed suffices: it publishes no other data
};

cuda_async_view::cuda_async_view(cuda_memory_pool pool, memory_location location,
                                 cuda_stream stream)
    : pool_{pool}, location_{location}, stream_{stream} {
  if (pool == nullptr) throw bad_argument{"cuda_async_view: the pool is a null pointer"};
  cuda::check_device("cuda_async_pool", location.kind == memory_kind::device ? location.device : 0);
  device_ = device_of(location);
  shared_ = std::make_shared<shared_state>(device_);
}

cuda_async_view cuda_async_view::default_pool(int device, cuda_stream stream) {
  cuda::check_device("cuda_async_view", device);
  cuda_memory_pool pool = nullptr;
  cuda::check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  return {pool, {memory_kind::device, static_cast<std::uint8_t>(device)}, stream};
}

void* cuda_async_view::allocate(bytes size, bytes alignment) {
  return allocate(size, alignment, stream_);
}
void cuda_async_view::deallocate(void* pointer, bytes size, bytes alignment) noexcept {
  deallocate(pointer, size, alignment, stream_);
}

void* cuda_async_view::allocate(bytes size, bytes alignment, cuda_stream stream) {
  cuda::check_alignment(alignment, "cuda_async_view", size);
  if (size > max_bytes_at_once)
    throw out_of_memory{"cuda_async_view", size, "more than any memory has (2^46 bytes)"};
  device_guard const guard{device_};
  void* result = nullptr;
  cuda::check(cudaMallocFromPoolAsync(&result, cuda::at_least_one(size), pool_, stream),
              "cuda_async_view", "cudaMallocFromPoolAsync", size);
  return result;
}
void cuda_async_view::deallocate(void* pointer, bytes, bytes, cuda_stream stream) noexcept {
  if (pointer == nullptr) return;
  device_guard const guard{device_};
  if (cudaFreeAsync(pointer, stream) == cudaSuccess) return;
  cudaGetLastError();
  shared_->invalid_frees.fetch_add(1, std::memory_order_relaxed);
}

void* cuda_async_view::allocate_sync(bytes size, bytes alignment) {
  relaxed_captures const captures;
  void* const result = allocate(size, alignment, shared_->stream);
  device_guard const guard{device_};
  if (auto const found = cudaStreamSynchronize(shared_->stream); found != cudaSuccess) {
    deallocate(result, size, alignment, shared_->stream);
    cuda::fail(found, "cuda_async_view: cudaStreamSynchronize");
  }
  return result;
}
void cuda_async_view::deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept {
  relaxed_captures const captures;
  deallocate(pointer, size, alignment, shared_->stream);
}

void cuda_async_view::synchronize() {
  device_guard const guard{device_};
  relaxed_captures const captures;
  cuda::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

std::uint64_t cuda_async_view::invalid_frees() const {
  return shared_->invalid_frees.load(std::memory_order_relaxed);
}
bytes cuda_async_view::reserved() const {
  return attribute(pool_, cudaMemPoolAttrReservedMemCurrent);
}
bytes cuda_async_view::allocated() const { return attribute(pool_, cudaMemPoolAttrUsedMemCurrent); }
void cuda_async_view::release(bytes kept) {
  cuda::check(cudaMemPoolTrimTo(pool_, kept), "cudaMemPoolTrimTo");
}

cuda_async_pool::cuda_async_pool(cuda_async_options const& options, cuda_stream stream) {
  cuda_memory_pool const pool = make_pool(options);
  try {
    view_.emplace(pool, options.location, stream);
  } catch (...) {
    cudaMemPoolDestroy(pool);
    throw;
  }
}

cuda_async_pool::~cuda_async_pool() {
  if (!view_) return;
  cuda_memory_pool const pool = view_->handle();
  view_.reset();
  if (cudaMemPoolDestroy(pool) != cudaSuccess) cudaGetLastError();
}

}  // namespace quarry::inline QUARRY_ABI
