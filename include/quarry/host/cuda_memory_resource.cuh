// SPDX-License-Identifier: Apache-2.0
// Pools as CCCL's memory resources (cuda::mr), for containers of CCCL, RMM and what is written for
// them.
#pragma once

#include "quarry/host/cuda_streams.hpp"
#include "quarry/host/stream_pool.hpp"

#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <cstddef>
#include <mutex>

namespace quarry {

/// A stream pool that threads may share, one at a time, as a `cuda::mr` resource in the order of
/// streams, and a synchronous one. Copies stand for one pool, and are equal; the pool outlives
/// them.
///
/// The names are those of CCCL 3.0 (`allocate_async`) and those since 3.1 (`allocate` with a stream
/// first, `allocate_sync`). `Properties`: what the memory is to CCCL, for instance
/// `cuda::mr::device_accessible`. Sizes are not needed to give back; a wrong pointer is ignored,
/// and counted by the pool.
template <class Resource, class... Properties>
class cuda_memory_resource {
 public:
  using pool_type = stream_pool<Resource, cuda_streams>;
  /// The pool with its lock, to be made once.
  struct owner {
    template <class... Arguments>
    explicit owner(Arguments&&... arguments) : pool(std::forward<Arguments>(arguments)...) {}
    pool_type pool;
    std::mutex mutex;
  };
  static constexpr std::size_t default_alignment = 256;

  cuda_memory_resource(owner& from)
      : from_{&from} {}  // NOLINT: is to be made from one without a word

  [[nodiscard]] void* allocate_async(std::size_t size, std::size_t alignment,
                                     ::cuda::stream_ref on) {
    return take(size, alignment, on.get());
  }
  [[nodiscard]] void* allocate_async(std::size_t size, ::cuda::stream_ref on) {
    return take(size, default_alignment, on.get());
  }
  void deallocate_async(void* memory, std::size_t, std::size_t, ::cuda::stream_ref on) {
    give(memory, on.get());
  }
  void deallocate_async(void* memory, std::size_t, ::cuda::stream_ref on) {
    give(memory, on.get());
  }
  [[nodiscard]] void* allocate(::cuda::stream_ref on, std::size_t size,
                               std::size_t alignment = default_alignment) {
    return take(size, alignment, on.get());
  }
  void deallocate(::cuda::stream_ref on, void* memory, std::size_t,
                  std::size_t = default_alignment) noexcept {
    give(memory, on.get());
  }

  /// Memory for any stream at once: waits until nothing uses it.
  [[nodiscard]] void* allocate_sync(std::size_t size, std::size_t alignment = default_alignment) {
    std::lock_guard const held{from_->mutex};
    void* const result = from_->pool.allocate(size, alignment, cuda_stream{});
    if (from_->pool.order().finish(cuda_stream{})) return result;
    (void)from_->pool.deallocate(result, cuda_stream{});
    throw resource_failed{"cuda_memory_resource: allocate_sync",
                          "what the default stream has cannot be waited for now"};
  }
  /// Nothing may use it any more.
  void deallocate_sync(void* memory, std::size_t, std::size_t = default_alignment) noexcept {
    give(memory, nullptr);
  }
  [[nodiscard]] void* allocate(std::size_t size, std::size_t alignment = default_alignment) {
    return allocate_sync(size, alignment);
  }
  void deallocate(void* memory, std::size_t size,
                  std::size_t alignment = default_alignment) noexcept {
    deallocate_sync(memory, size, alignment);
  }

  friend bool operator==(cuda_memory_resource const& a, cuda_memory_resource const& b) {
    return a.from_ == b.from_;
  }

  template <class Property>
    requires(std::is_same_v<Property, Properties> || ...)
  friend void get_property(cuda_memory_resource const&, Property) noexcept {}

 private:
  /// In a program with per-thread default streams, whose `cudaStream_t{}` is the thread's own.
  [[nodiscard]] static cuda_stream named(cuda_stream on) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    if (on == nullptr) return cudaStreamPerThread;
#endif
    return on;
  }
  [[nodiscard]] void* take(std::size_t size, std::size_t alignment, cuda_stream on) {
    std::lock_guard const held{from_->mutex};
    return from_->pool.allocate(size, alignment, named(on));
  }
  void give(void* memory, cuda_stream on) noexcept {
    std::lock_guard const held{from_->mutex};
    (void)from_->pool.deallocate(memory, named(on));
  }

  owner* from_;
};

/// Of a GPU's memory; of pinned memory, which the host sees, too.
using cuda_device_memory = cuda_memory_resource<device_resource, ::cuda::mr::device_accessible>;
using cuda_pinned_memory = cuda_memory_resource<pinned_resource, ::cuda::mr::device_accessible,
                                                ::cuda::mr::host_accessible>;

}  // namespace quarry
