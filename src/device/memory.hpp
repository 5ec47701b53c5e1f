// SPDX-License-Identifier: Apache-2.0
// Where a heap's memory comes from: the host's, or a GPU's.
#pragma once

#include "quarry/device/heap.hpp"

#include <memory>

namespace quarry::inline QUARRY_ABI {

/// A reserved range of addresses, of which a part has memory, and metadata beside it. Throws
/// `out_of_memory`, or `resource_failed` that names the call.
class heap_memory {
 public:
  virtual ~heap_memory() = default;

  /// Start of the range, a multiple of the alignment it was made with.
  [[nodiscard]] virtual void* region() const = 0;

  /// Gives memory to, or takes it from, [begin, end) of the range. The other bytes are left alone.
  virtual void map(bytes begin, bytes end) = 0;
  virtual void unmap(bytes begin, bytes end) = 0;

  /// The lowest offset from `begin` to `end` from which on `unmap` works: memory goes back in the
  /// parts in which it came.
  [[nodiscard]] virtual bytes unmappable_from(bytes begin, bytes end) const = 0;

  /// Memory apart from the range, aligned to 256 bytes; freed by `release` or with this object.
  [[nodiscard]] virtual void* metadata(bytes size) = 0;
  virtual void release(void* metadata) = 0;

  /// The same, but it outlives this object.
  [[nodiscard]] virtual std::shared_ptr<void> detached(bytes size) = 0;

  virtual void zero(void* to, bytes size) = 0;
  virtual void upload(void* to, void const* from, bytes size) = 0;
  virtual void download(void* to, void const* from, bytes size) = 0;

  /// Waits until what was asked for above, and kernels, are done.
  virtual void synchronize() = 0;
};

[[nodiscard]] std::shared_ptr<heap_memory> make_cpu_memory(bytes reserved, bytes alignment);

/// Of the device with this number, or the `current_device`. Throws `resource_failed` if this build
/// or this machine has no CUDA device, `bad_argument` if it has none with this number.
[[nodiscard]] std::shared_ptr<heap_memory> make_cuda_memory(int device, bytes reserved,
                                                            bytes alignment);
[[nodiscard]] bool has_cuda_device();

}  // namespace quarry::inline QUARRY_ABI
