// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <map>

namespace quarry::inline QUARRY_ABI::detail {

/// Address ranges of one device, and the physical memory that is mapped into them, by CUDA's
/// virtual memory functions.
///
/// Memory is mapped in parts, each of which has one physical allocation, and moves or goes only as
/// a whole. Sizes and addresses are multiples of `granularity()`. Waits for nothing: no kernel may
/// use what is unmapped or moved. Works whatever device is current, and leaves it so. Not
/// thread-safe. `user` is named in errors.
class cuda_address_space {
 public:
  /// Throws `bad_argument` if there is no such device, `resource_failed` if CUDA does not work.
  cuda_address_space(char const* user, int device);

  [[nodiscard]] bytes granularity() const { return granularity_; }

  /// A range without memory. Throws `out_of_memory` or `resource_failed`.
  [[nodiscard]] std::uint64_t reserve(bytes size, bytes alignment) const;
  /// Ends a range in which nothing is mapped.
  void release(std::uint64_t address, bytes size) const noexcept;

  /// Maps fresh memory in parts of `part_bytes`; the last may be smaller. Throws `out_of_memory` or
  /// `resource_failed`, and then has changed nothing.
  void map(std::uint64_t address, bytes size, bytes part_bytes);
  /// Moves all parts of [source, source + size). Throws as `map` does, and then changed nothing.
  void move(std::uint64_t source, std::uint64_t target, bytes size);
  /// Returns all parts that begin in [address, address + size); they lie side by side.
  void unmap(std::uint64_t address, bytes size) noexcept;

  /// The lowest address of a part in [address, end), or `end`. O(log parts).
  [[nodiscard]] std::uint64_t next_part(std::uint64_t address, std::uint64_t end) const;

 private:
  struct part {
    bytes size;
    unsigned long long handle;  // CUmemGenericAllocationHandle
  };

  void map_part(std::uint64_t address, bytes size);
  void allow_access(std::uint64_t address, bytes size) const;

  char const* user_;
  int device_;
  bytes granularity_ = 0;
  std::map<std::uint64_t, part> parts_;  // by address
};

}  // namespace quarry::inline QUARRY_ABI::detail
