// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"
#include "quarry/device/heap.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Owns zeroed memory that the kernels of one backend can access, for state that the host shares
/// with kernels. The host reads and writes the memory between launches: each call first waits until
/// all kernels have ended.
class QUARRY_API kernel_memory {
 public:
  /// Throws `out_of_memory`, or `resource_failed`, which names the call that failed.
  kernel_memory(backend kind, bytes size);
  ~kernel_memory();
  kernel_memory(kernel_memory&&) noexcept;
  kernel_memory& operator=(kernel_memory&&) noexcept;

  /// Aligned to 256 bytes.
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] bytes size() const { return size_; }

  /// Copies `count` bytes to or from the memory, or zeroes them, from `offset` on. Throws
  /// `bad_range` and changes nothing if these bytes exceed the memory.
  void write(bytes offset, void const* source, bytes count);
  void read(void* destination, bytes offset, bytes count) const;
  void zero(bytes offset, bytes count);

 private:
  void check(bytes offset, bytes count) const;

  struct owner;

  owner* owner_;  // owned
  void* data_;
  bytes size_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
