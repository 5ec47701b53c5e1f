// SPDX-License-Identifier: Apache-2.0
// What the library asks of mmap and its relatives: address ranges and anonymous pages of the host.
#pragma once

#include "quarry/core/bytes.hpp"

#include <unistd.h>

namespace quarry::inline QUARRY_ABI::detail {

/// The size of the operating system's pages.
inline bytes page_size() {
  static bytes const size = static_cast<bytes>(sysconf(_SC_PAGESIZE));
  return size;
}
/// `size` rounded up to whole pages, at least one.
inline bytes whole_pages(bytes size) {
  return size == 0 ? page_size() : (size + page_size() - 1) & ~(page_size() - 1);
}

/// Whether the system may refuse memory that it could not back if all of it were written to.
/// `allow` is MAP_NORESERVE: for memory of which only a part will be used.
enum class overcommit : bool { refuse, allow };

/// Address ranges of the host, by mmap. Every address and size is a multiple of a page. `user` is
/// named in errors. Has no state: any thread may call it.
class host_address_space {
 public:
  constexpr explicit host_address_space(char const* user, overcommit policy)
      : user_{user}, policy_{policy} {}

  /// A range without memory, which nothing can access. `alignment` is a power of two and at least a
  /// page. Throws `out_of_memory`.
  [[nodiscard]] std::uint64_t reserve(bytes size, bytes alignment) const;
  /// Ends a range, mapped or not.
  void release(std::uint64_t address, bytes size) const noexcept;

  /// Makes a part of a range usable; it reads as zeros. Throws `out_of_memory`.
  void map(std::uint64_t address, bytes size) const;
  /// Returns the memory of a part of a range, which nothing can then access.
  void unmap(std::uint64_t address, bytes size) const noexcept;

  /// Usable memory at an address of its own, which reads as zeros; `release` ends it. Throws
  /// `out_of_memory`.
  [[nodiscard]] void* allocate(bytes size) const;

 private:
  [[nodiscard]] void* map_new(void* address, bytes size, int protection, int flags) const noexcept;

  char const* user_;
  overcommit policy_;
};

/// Returns the memory of usable pages to the system. They stay usable and read as zeros. False if
/// the system keeps the memory, and with it what was written.
[[nodiscard]] bool discard_pages(void* memory, bytes size) noexcept;

}  // namespace quarry::inline QUARRY_ABI::detail
