// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/platform/memory_kind.hpp"
#include "quarry/platform/page_source.hpp"

#include <memory>

namespace quarry::inline QUARRY_ABI {

namespace detail {
class cuda_address_space;
}

/// Pages of one GPU's memory, mapped by CUDA's virtual memory functions. The driver determines the
/// page size (2 MiB on H100 and H200).
///
/// `move` and `unmap` first wait for the device, since kernels may still use freed memory. In a
/// build without CUDA the constructor throws `resource_failed`. Not thread-safe.
class QUARRY_API cuda_pages {
 public:
  /// Throws `bad_argument` if there is no such device, `resource_failed` without a driver.
  explicit cuda_pages(int device = 0);
  cuda_pages(cuda_pages&&) = default;
  cuda_pages& operator=(cuda_pages&&) = default;

  [[nodiscard]] bytes page_bytes() const { return page_; }
  [[nodiscard]] std::uint64_t reserve(bytes size);
  void release(std::uint64_t address, bytes size) noexcept;
  void map(std::uint64_t address, bytes size);
  void move(std::uint64_t source, std::uint64_t target, bytes size);
  void unmap(std::uint64_t address, bytes size) noexcept;
  [[nodiscard]] memory_location location() const {
    return {memory_kind::device, static_cast<std::uint8_t>(device_)};
  }

 private:
  int device_;
  bytes page_ = 0;
  std::shared_ptr<detail::cuda_address_space> space_;  // not shared; its type is incomplete
};

static_assert(page_source<cuda_pages>);

}  // namespace quarry::inline QUARRY_ABI
