// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/page_source.hpp"

namespace quarry::inline QUARRY_ABI {

/// The host's pages. To move one is to let it go and take a fresh one: the system keeps no order
/// among them. `page` is a multiple of the system's: larger ones are fewer mappings, of which Linux
/// gives a process 65,530 (vm.max_map_count).
class QUARRY_API host_pages {
 public:
  /// Throws `bad_argument` if `page` is no power of two, or less than the system's page.
  explicit host_pages(bytes page = bytes{64} << 10);

  [[nodiscard]] bytes page_bytes() const { return page_; }
  [[nodiscard]] std::uint64_t reserve(bytes size);
  void give_up(std::uint64_t address, bytes size) noexcept;
  void map(std::uint64_t address, bytes size);
  void move(std::uint64_t from, std::uint64_t to, bytes size);
  void unmap(std::uint64_t address, bytes size) noexcept;

 private:
  bytes page_;
};

static_assert(page_source<host_pages>);

}  // namespace quarry::inline QUARRY_ABI
