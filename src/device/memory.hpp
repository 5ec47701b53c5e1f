// SPDX-License-Identifier: Apache-2.0
// The source of a heap's memory: the host or a GPU.
#pragma once

#include "quarry/device/heap.hpp"

#include <memory>

namespace quarry::inline QUARRY_ABI::detail {

/// A reserved address range, of which a part is mapped, and memory for metadata outside the range.
/// A failing function throws std::bad_alloc (as `out_of_memory` if the system or the device has no
/// memory) or `resource_failed`, which names the call that failed.
class heap_memory {
 public:
  virtual ~heap_memory() = default;

  /// The base address of the range, a multiple of the requested alignment.
  [[nodiscard]] virtual void* region() const = 0;

  /// `map` maps memory in [begin, end) of the range; `unmap` returns it. Other bytes keep their
  /// memory.
  virtual void map(bytes begin, bytes end) = 0;
  virtual void unmap(bytes begin, bytes end) = 0;

  /// The lowest offset in [begin, end] at which `unmap` may begin. Memory is returned only in the
  /// parts in which it was mapped.
  [[nodiscard]] virtual bytes unmappable_from(bytes begin, bytes end) const = 0;

  /// Memory outside the range, aligned to 256 bytes. It may outlive this object.
  [[nodiscard]] virtual std::shared_ptr<void> allocate(bytes size) = 0;

  virtual void zero(void* memory, bytes size) = 0;
  virtual void upload(void* target, void const* source, bytes size) = 0;
  virtual void download(void* target, void const* source, bytes size) = 0;

  /// Waits for the calls above and for kernels.
  virtual void synchronize() = 0;
};

[[nodiscard]] std::shared_ptr<heap_memory> make_cpu_memory(bytes reserved, bytes alignment);

/// Memory of device `device`, or of the current device if `device` is `current_device`.
/// The devices in `peers` can use the range, too. Throws `resource_failed` if this build or this
/// machine has no CUDA, `bad_argument` if a device is missing or cannot use the range.
[[nodiscard]] std::shared_ptr<heap_memory> make_cuda_memory(int device,
                                                            std::vector<int> const& peers,
                                                            bytes reserved, bytes alignment);
[[nodiscard]] bool has_cuda_device();

}  // namespace quarry::inline QUARRY_ABI::detail
