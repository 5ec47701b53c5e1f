// SPDX-License-Identifier: Apache-2.0
// Pools for Thrust: as a memory resource, and as an allocator for Thrust's vectors and for the
// temporary memory of its algorithms.
#pragma once

#include "quarry/core/config.hpp"
#include "quarry/host/interop/cuda_memory_resource.cuh"

#include <nv/target>

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/mr/memory_resource.h>

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A stream-ordered source of memory that is copied by value. Examples are
/// `shared_cuda_device_memory` (its copies share the pool), `cuda_device_memory` (the pool must
/// outlive its copies), and resources of `cuda::mr` since CCCL 3.1.
template <class Memory>
concept stream_memory_value =
    std::copy_constructible<Memory> && std::equality_comparable<Memory> &&
    requires(Memory& memory, ::cuda::stream_ref stream, void* pointer, std::size_t size) {
      { memory.allocate(stream, size, size) } -> std::same_as<void*>;
      { memory.deallocate(stream, pointer, size, size) };
    };

/// A `thrust::mr::memory_resource`, for `thrust::mr::allocator`, Thrust's pools, and
/// `thrust::cuda::par(&resource)`. Only the work of one stream may use its memory: `stream`, or the
/// default stream. Two resources are equal if their memory and stream are equal. Allocations throw
/// what `Memory` throws.
template <stream_memory_value Memory, class Pointer = thrust::device_ptr<void>>
class thrust_memory_resource final : public thrust::mr::memory_resource<Pointer> {
 public:
  explicit thrust_memory_resource(Memory memory, cuda_stream stream = nullptr)
      : memory_{std::move(memory)}, stream_{stream} {}

  [[nodiscard]] Pointer do_allocate(std::size_t size, std::size_t alignment) override {
    return Pointer(memory_.allocate(::cuda::stream_ref{stream_}, size, alignment));
  }
  void do_deallocate(Pointer memory, std::size_t size, std::size_t alignment) override {
    memory_.deallocate(::cuda::stream_ref{stream_}, thrust::raw_pointer_cast(memory), size,
                       alignment);
  }
  /// Thrust requires this function for device code, too, but never calls it there.
  [[nodiscard]] QUARRY_HD bool do_is_equal(
      thrust::mr::memory_resource<Pointer> const& other) const noexcept override {
    NV_IF_ELSE_TARGET(NV_IS_HOST, (return is_same(other);), (return this == &other;))
  }

 private:
  [[nodiscard]] bool is_same(thrust::mr::memory_resource<Pointer> const& other) const noexcept {
    auto const* const peer = dynamic_cast<thrust_memory_resource const*>(&other);
    return peer != nullptr && stream_ == peer->stream_ && memory_ == peer->memory_;
  }

  Memory memory_;
  cuda_stream stream_;
};

/// An allocator for `thrust::device_vector<T, thrust_allocator<T, Memory>>`, and for the temporary
/// memory of algorithms: `thrust::cuda::par_nosync(allocator).on(stream)`.
///
/// Only the work of one stream may use its memory: `stream`, or the default stream. The stream of
/// an execution policy must be the allocator's stream. A vector's own work, such as its first fill
/// and its growth, runs on the default stream. So the stream of a vector's allocator must wait for
/// the default stream; it must not be a cudaStreamNonBlocking stream. Otherwise that stream could
/// reuse memory that the vector has freed while the default stream still uses it. Two allocators
/// are equal if their memory and stream are equal.
template <class T, stream_memory_value Memory>
class thrust_allocator {
 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<T const>;
  using void_pointer = thrust::device_ptr<void>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<T const>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  template <class Other>
  struct rebind {
    using other = thrust_allocator<Other, Memory>;
  };

  explicit thrust_allocator(Memory memory, cuda_stream stream = nullptr)
      : memory_{std::move(memory)}, stream_{stream} {}
  /// A move is a copy, so a moved-from container keeps its allocator.
  thrust_allocator(thrust_allocator const&) = default;
  thrust_allocator& operator=(thrust_allocator const&) = default;
  template <class Other>
  thrust_allocator(thrust_allocator<Other, Memory> const& other)
      : memory_{other.memory()}, stream_{other.stream()} {}

  /// Allocates memory for `count` objects. Throws what `Memory` throws, and `out_of_memory` if
  /// `count` exceeds `max_size()`.
  [[nodiscard]] pointer allocate(size_type count) {
    if (count > max_size())
      throw out_of_memory{"thrust_allocator", ~bytes{0},
                          std::to_string(count) + " objects of " + std::to_string(sizeof(T)) +
                              " bytes exceed the limit of " + std::to_string(max_size()) +
                              " objects"};
    void* const memory =
        memory_.allocate(::cuda::stream_ref{stream_}, count * sizeof(T), alignof(T));
    return pointer{static_cast<T*>(memory)};
  }
  void deallocate(pointer memory, size_type count) noexcept {
    memory_.deallocate(::cuda::stream_ref{stream_}, thrust::raw_pointer_cast(memory),
                       count * sizeof(T), alignof(T));
  }
  [[nodiscard]] static constexpr size_type max_size() {
    return std::numeric_limits<size_type>::max() / sizeof(T);
  }

  [[nodiscard]] Memory const& memory() const { return memory_; }
  [[nodiscard]] cuda_stream stream() const { return stream_; }

  template <class Other>
  friend bool operator==(thrust_allocator const& a, thrust_allocator<Other, Memory> const& b) {
    return a.stream() == b.stream() && a.memory() == b.memory();
  }

 private:
  Memory memory_;
  cuda_stream stream_;
};

}  // namespace quarry::inline QUARRY_ABI
