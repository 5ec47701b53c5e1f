// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/page_source.hpp"
#include "quarry/host/registry/memory_location.hpp"

#include <unordered_map>

namespace quarry::inline QUARRY_ABI {

/// Pages of one GPU's memory, mapped by CUDA's virtual memory functions: 2 MiB each, as the driver
/// says.
///
/// Before pages move the device is waited for: what runs may still use what was freed. Without CUDA
/// the constructor throws `resource_failed`. Not thread-safe.
class QUARRY_API cuda_pages {
 public:
  explicit cuda_pages(int device = 0);
  cuda_pages(cuda_pages&&) = default;
  cuda_pages& operator=(cuda_pages&&) = default;

  [[nodiscard]] bytes page_bytes() const { return page_; }
  [[nodiscard]] std::uint64_t reserve(bytes size);
  void give_up(std::uint64_t address, bytes size) noexcept;
  void map(std::uint64_t address, bytes size);
  void move(std::uint64_t from, std::uint64_t to, bytes size);
  void unmap(std::uint64_t address, bytes size) noexcept;
  [[nodiscard]] memory_location location() const {
    return {memory_kind::device, static_cast<std::uint8_t>(device_)};
  }

 private:
  int device_;
  bytes page_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> handles_;  // of the page at an address
};

static_assert(page_source<cuda_pages>);

}  // namespace quarry::inline QUARRY_ABI
