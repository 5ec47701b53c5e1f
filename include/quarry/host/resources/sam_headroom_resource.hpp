// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>

namespace quarry::inline QUARRY_ABI {

namespace detail {

/// The number of bytes, from the start of an allocation of `size` bytes, that should lie on a GPU
/// so that `headroom` bytes of its `free` bytes stay free. A multiple of 256.
[[nodiscard]] constexpr bytes part_beyond_headroom(bytes size, bytes free, bytes headroom) {
  bytes const usable = free > headroom ? free - headroom : 0;
  return std::min(size, usable) / 256 * 256;
}

}  // namespace detail

/// System memory (malloc) on a machine whose GPU can access it, with some of the GPU's memory kept
/// free. Corresponds to RMM's sam_headroom_memory_resource.
///
/// System memory moves to the GPU when kernels use it, and does not move back. So it can fill the
/// GPU until other CUDA calls fail. This resource asks the driver to keep only the start of an
/// allocation on the GPU, and the rest on the host. So `headroom` bytes of the GPU stay free. Each
/// allocation asks CUDA for the free memory. So put a pool or a `binned_resource` over this
/// resource for small sizes.
///
/// Addresses are multiples of 256 at least. Deallocation does not wait for kernels that use the
/// memory. Threads may share it.
class QUARRY_API sam_headroom_resource {
 public:
  /// Throws `bad_argument` if there is no such device. Throws `resource_failed` if the device
  /// cannot access pageable memory, if the machine has no CUDA, or in a build without CUDA.
  explicit sam_headroom_resource(bytes headroom, int device = 0);

  /// Throws as `host_resource` does, and `resource_failed` if CUDA refuses.
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    host_resource{}.deallocate(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return {}; }
  [[nodiscard]] bytes headroom() const { return headroom_; }

 private:
  bytes headroom_;
  int device_;
};

static_assert(memory_resource<sam_headroom_resource>);

}  // namespace quarry::inline QUARRY_ABI
