// SPDX-License-Identifier: Apache-2.0
// The library's uses of mmap and related calls: address ranges and anonymous pages of the host.
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

/// Whether the system may refuse a mapping because it could not back all of it with memory. `allow`
/// (MAP_NORESERVE) suits mappings of which the program uses only a part.
enum class overcommit : bool { refuse, allow };

/// Address ranges of the host, by mmap. Every address and size is a multiple of the page size.
/// Errors name `user`. It has no mutable state: any thread may call it.
class host_address_space {
 public:
  constexpr explicit host_address_space(char const* user, overcommit policy)
      : user_{user}, policy_{policy} {}

  /// Reserves a range without memory; any access faults. `alignment` is a power of two and at least
  /// a page. Throws `out_of_memory`.
  [[nodiscard]] std::uint64_t reserve(bytes size, bytes alignment) const;
  /// Releases a range, mapped or not.
  void release(std::uint64_t address, bytes size) const noexcept;

  /// Maps fresh memory in a part of a range; the memory reads as zeros. Throws `out_of_memory`.
  void map(std::uint64_t address, bytes size) const;
  /// Returns the memory of a part of a range. Any later access faults, unless the system has too
  /// many mappings: then the part stays accessible and reads as zeros.
  void unmap(std::uint64_t address, bytes size) const noexcept;

  /// Allocates mapped memory in a new range; the memory reads as zeros. `release` frees it. Throws
  /// `out_of_memory`.
  [[nodiscard]] void* allocate(bytes size) const;

 private:
  [[nodiscard]] void* map_new(void* address, bytes size, int protection, int flags) const noexcept;

  char const* user_;
  overcommit policy_;
};

/// Returns the memory of mapped pages to the system. The pages stay mapped and read as zeros.
/// Returns false if the system keeps the memory and its contents.
[[nodiscard]] bool discard_pages(void* memory, bytes size) noexcept;

}  // namespace quarry::inline QUARRY_ABI::detail
