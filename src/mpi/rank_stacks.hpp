// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

#include "quarry/simt/launch.hpp"

#include <optional>

namespace quarry::inline QUARRY_ABI::mpi {

/// The stacks of ranks on the CPU. The system provides the memory when a rank first uses it, so
/// that a large stack costs little. Below each stack is a gap. It is protected, so that an overflow
/// is a fault, unless the system allows too few protected ranges for so many ranks.
class rank_stacks {
 public:
  static constexpr bytes default_size = bytes{1} << 20;
  static constexpr bytes least_size = 64 * 1024;  // the runtime's own functions need this

  /// `size`: of each stack; 0: the default. Throws out_of_memory.
  rank_stacks(std::uint32_t ranks, bytes size);
  rank_stacks(rank_stacks const&) = delete;
  ~rank_stacks();

  [[nodiscard]] simt::fiber_stacks memory() const;
  [[nodiscard]] bytes size() const { return size_; }
  [[nodiscard]] bool is_protected() const { return is_protected_; }

  /// The rank whose stack has grown to the address. Safe in a signal handler.
  [[nodiscard]] std::optional<std::uint32_t> overflowed(void const* address) const;

 private:
  [[nodiscard]] bytes total() const { return ranks_ * (gap + size_); }

  static constexpr bytes gap = 64 * 1024;  // a frame may pass over a smaller one
  std::uint32_t ranks_;
  bytes size_;
  char* memory_ = nullptr;  // of each rank: gap, stack
  bool is_protected_ = false;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
