// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <map>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// Address ranges of one device, and the physical memory that is mapped in them, through CUDA's
/// virtual memory functions.
///
/// Memory is mapped in parts. Each part has one physical allocation, and is moved or unmapped only
/// as a whole. Sizes and addresses are multiples of `granularity()`. No call waits for the device:
/// no kernel may use memory while it is unmapped or moved. Every call works with any current
/// device, and does not change it. Not thread-safe. Errors name `user`.
class cuda_address_space {
 public:
  /// Kernels on the devices in `peers` can use the memory, too; `device` may be among them. Throws
  /// `bad_argument` if a device is missing, or if a peer cannot use the memory of `device`. Throws
  /// `resource_failed` if CUDA does not work.
  cuda_address_space(char const* user, int device, std::vector<int> const& peers = {});

  [[nodiscard]] bytes granularity() const { return granularity_; }

  /// A range without memory. Throws `out_of_memory` or `resource_failed`.
  [[nodiscard]] std::uint64_t reserve(bytes size, bytes alignment) const;
  /// Releases a range in which no memory is mapped.
  void release(std::uint64_t address, bytes size) const noexcept;

  /// Maps fresh memory in parts of `part_bytes`; the last part may be smaller. Throws
  /// `out_of_memory` or `resource_failed` and then changes nothing.
  void map(std::uint64_t address, bytes size, bytes part_bytes);
  /// Moves all parts of [source, source + size). Throws like `map`, and then changes nothing.
  void move(std::uint64_t source, std::uint64_t target, bytes size);
  /// Unmaps all parts that begin in [address, address + size). These parts must be adjacent.
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
  std::vector<int> peers_;               // devices that can use the memory, too
  std::map<std::uint64_t, part> parts_;  // by address
};

}  // namespace quarry::inline QUARRY_ABI::detail
