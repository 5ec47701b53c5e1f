// SPDX-License-Identifier: Apache-2.0
// CUDA's stream-ordered pools (cudaMemPool_t): `cuda_async_view` refers to a pool of the program;
// `cuda_async_pool` owns its pool. In a build without CUDA the constructors throw
// `resource_failed`.
#pragma once

#include "quarry/host/resources/cuda_resources.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

struct CUmemPoolHandle_st;

namespace quarry::inline QUARRY_ABI {

/// One of CUDA's pools, as the runtime's `cudaMemPool_t`.
using cuda_memory_pool = CUmemPoolHandle_st*;

/// Memory of a pool that the program owns (cudaMallocFromPoolAsync). The pool must outlive the
/// view.
///
/// A call without a stream is ordered in the constructor's stream; any stream may use that memory
/// after `synchronize`. A call with a stream is ordered in that stream. The null stream and
/// cudaStreamPerThread mean the default streams of the GPU that has the memory. For pinned and
/// managed memory, that is the GPU that was current at construction.
///
/// Addresses are multiples of 256. All allocations throw `bad_argument` if the alignment is not a
/// power of two, `out_of_memory` if there is no memory or the alignment exceeds 256, and
/// `resource_failed`. During the capture of a stream that waits for the default stream, calls that
/// are ordered in the default stream fail; `allocate_sync` and `deallocate_sync` work. Threads may
/// share a view. Copies refer to one pool. Two views are equal if their pools, streams and GPUs are
/// equal.
class QUARRY_API cuda_async_view {
 public:
  /// `location`: the kind of the pool's memory, and the GPU of device memory. Throws `bad_argument`
  /// if `pool` is null or there is no such GPU.
  cuda_async_view(cuda_memory_pool pool, memory_location location, cuda_stream stream = nullptr);
  /// The default pool of a GPU. `cudaMallocAsync` allocates from it unless the program called
  /// cudaDeviceSetMemPool. Throws `bad_argument` if there is no such GPU.
  [[nodiscard]] static cuda_async_view default_pool(int device = 0, cuda_stream stream = nullptr);

  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream stream);
  void deallocate(void* pointer, bytes size, bytes alignment, cuda_stream stream) noexcept;
  /// Allocates memory that any stream may use at once. It allocates in a private stream and waits
  /// for that stream. May be called while streams are being captured, and is no part of the
  /// capture.
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment);
  /// Frees memory. No work may still use it. May be called while streams are being captured.
  void deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept;
  /// Waits for the constructor's stream. Afterwards any stream may use the memory that calls
  /// without a stream have allocated. Throws `resource_failed`, for instance while that stream is
  /// being captured.
  void synchronize();

  /// `reserved`: bytes that the pool holds. `allocated`: bytes that are allocated from it. Throws
  /// `resource_failed`.
  [[nodiscard]] bytes reserved() const;
  [[nodiscard]] bytes allocated() const;
  /// Returns unused memory to the system, but keeps at least `kept` bytes of the pool. Throws
  /// `resource_failed`.
  void release(bytes kept = 0);
  /// The number of deallocations that CUDA refused, for this object and its copies. CUDA does not
  /// say whether the address is wrong or the stream cannot be used now. Quarry does not retry,
  /// because the address may belong to another allocation by then. The memory of a refused
  /// deallocation stays allocated.
  [[nodiscard]] std::uint64_t invalid_frees() const;

  [[nodiscard]] cuda_memory_pool handle() const { return pool_; }
  [[nodiscard]] memory_location location() const { return location_; }
  [[nodiscard]] cuda_stream stream() const { return stream_; }
  friend bool operator==(cuda_async_view const& a, cuda_async_view const& b) noexcept {
    return a.pool_ == b.pool_ && a.stream_ == b.stream_ && a.device_ == b.device_;
  }

 private:
  struct shared_state;

  cuda_memory_pool pool_;
  memory_location location_;
  cuda_stream stream_;
  int device_ = 0;  // the GPU of the null stream
  std::shared_ptr<shared_state> shared_;
};

struct cuda_async_options {
  /// Device, pinned or managed memory
  memory_location location = {memory_kind::device};
  bytes first = 0;  ///< bytes that the constructor reserves
  /// The release threshold: unused bytes that the pool keeps when the program synchronises
  bytes kept = no_limit;
  bytes max_bytes = no_limit;  ///< limit on the pool's bytes, not 0; managed memory has no limit
};

/// Owns one of CUDA's pools, of device memory, managed memory, or pinned memory, which all GPUs may
/// use. Allocations that are in use when the pool is destroyed stay valid until they are freed.
///
/// Has the functions of `cuda_async_view`. A moved-from pool may only be assigned and destroyed.
class QUARRY_API cuda_async_pool {
 public:
  /// Throws `bad_argument` for invalid options, `resource_failed` if the driver has no such pools,
  /// and `out_of_memory` if there is no memory for the first bytes.
  explicit cuda_async_pool(cuda_async_options const& options = {}, cuda_stream stream = nullptr);
  cuda_async_pool(cuda_async_pool&& other) noexcept
      : view_{std::exchange(other.view_, std::nullopt)} {}
  cuda_async_pool& operator=(cuda_async_pool&& other) noexcept {
    view_.swap(other.view_);
    return *this;
  }
  ~cuda_async_pool();

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return view_->allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    view_->deallocate(pointer, size, alignment);
  }
  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream stream) {
    return view_->allocate(size, alignment, stream);
  }
  void deallocate(void* pointer, bytes size, bytes alignment, cuda_stream stream) noexcept {
    view_->deallocate(pointer, size, alignment, stream);
  }
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment) {
    return view_->allocate_sync(size, alignment);
  }
  void deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept {
    view_->deallocate_sync(pointer, size, alignment);
  }
  void synchronize() { view_->synchronize(); }

  [[nodiscard]] bytes reserved() const { return view_->reserved(); }
  [[nodiscard]] bytes allocated() const { return view_->allocated(); }
  void release(bytes kept = 0) { view_->release(kept); }
  [[nodiscard]] std::uint64_t invalid_frees() const { return view_->invalid_frees(); }
  [[nodiscard]] cuda_memory_pool handle() const { return view_->handle(); }
  [[nodiscard]] memory_location location() const { return view_->location(); }
  /// A view of this pool.
  [[nodiscard]] cuda_async_view const& view() const { return *view_; }

 private:
  std::optional<cuda_async_view> view_;  // nullopt if it was moved from
};

static_assert(memory_resource<cuda_async_view>);
static_assert(memory_resource<cuda_async_pool>);

}  // namespace quarry::inline QUARRY_ABI
