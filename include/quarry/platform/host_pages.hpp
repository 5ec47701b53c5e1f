// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/platform/page_source.hpp"

namespace quarry::inline QUARRY_ABI {

/// Pages of the host. `move` unmaps the pages and maps fresh ones at the target.
///
/// By default Linux limits a process to 65,530 mappings (vm.max_map_count). Larger pages need fewer
/// mappings.
class QUARRY_API host_pages {
 public:
  /// Throws `bad_argument` unless `page` is a power of two and at least the system's page size.
  explicit host_pages(bytes page = bytes{64} << 10);

  [[nodiscard]] bytes page_bytes() const { return page_; }
  [[nodiscard]] std::uint64_t reserve(bytes size);
  void release(std::uint64_t address, bytes size) noexcept;
  void map(std::uint64_t address, bytes size);
  void move(std::uint64_t source, std::uint64_t target, bytes size);
  void unmap(std::uint64_t address, bytes size) noexcept;

 private:
  bytes page_;
};

static_assert(page_source<host_pages>);

}  // namespace quarry::inline QUARRY_ABI
