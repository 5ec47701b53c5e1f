// SPDX-License-Identifier: Apache-2.0
// Resources that allocate with CUDA. In a build without CUDA the constructors throw
// `resource_failed`.
//
// Addresses are multiples of 256. An allocation with a larger alignment throws `out_of_memory`.
// Threads may share all of these resources.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/platform/cuda_stream.hpp"

namespace quarry::inline QUARRY_ABI {

/// Memory of one GPU (cudaMalloc, which waits for the device).
class QUARRY_API device_resource {
 public:
  explicit device_resource(int device = 0);
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] memory_location location() const {
    return {memory_kind::device, static_cast<std::uint8_t>(device_)};
  }

 private:
  int device_;
};

/// Stream-ordered memory of one GPU from CUDA's own pool (cudaMallocAsync), in one stream. Before
/// `synchronize`, only work of that stream may use the memory.
class QUARRY_API stream_ordered_resource {
 public:
  explicit stream_ordered_resource(cuda_stream stream = nullptr, int device = 0);
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] memory_location location() const {
    return {memory_kind::device, static_cast<std::uint8_t>(device_)};
  }
  /// Waits for the stream. Afterwards any stream may use the memory allocated so far.
  void synchronize();

 private:
  cuda_stream stream_;
  int device_;
};

/// Host memory that the GPU can access without a copy (cudaMallocHost).
class QUARRY_API pinned_resource {
 public:
  pinned_resource();
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] memory_location location() const { return {memory_kind::pinned, 0}; }
};

/// Memory that migrates to the processor that accesses it (cudaMallocManaged).
class QUARRY_API managed_resource {
 public:
  managed_resource();
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] memory_location location() const { return {memory_kind::managed, 0}; }
};

/// Checks that memory which `resource` allocated lies at the `stated` location. Throws
/// `resource_failed` if CUDA reports another location. Checks nothing while the process has not
/// loaded the CUDA driver, and does not load it.
QUARRY_API void check_location(char const* resource, void const* memory, memory_location stated);

static_assert(memory_resource<device_resource>);
static_assert(memory_resource<stream_ordered_resource>);
static_assert(memory_resource<pinned_resource>);
static_assert(memory_resource<managed_resource>);

}  // namespace quarry::inline QUARRY_ABI
