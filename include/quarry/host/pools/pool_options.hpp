// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/block_source.hpp"
#include "quarry/host/pools/heuristic.hpp"

#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

struct pool_options {
  /// Minimum size of the block that the pool requests while it has no block, at most 64 TiB; 0
  /// means 64 MiB. The first allocation requests the block, not the constructor
  bytes first_block = 0;
  bytes next_block = 0;  ///< minimum size of each later block, at most 64 TiB; 0 means 8 MiB
  /// Minimum size of each later block, as a percentage of the reserved bytes: at most 1000
  std::uint32_t growth_percent = 4;
  /// Alignment of all allocations: a power of two from 16 to 16 KiB. Sizes are rounded up to it
  bytes alignment = 16;
  /// Limit on the reserved bytes. Chunks are cut up to 1/32 larger than the rounded size, and all
  /// of a chunk counts. Small allocations of one size class share blocks of 64 KiB. One allocation
  /// in use keeps its block from serving other sizes, which matters at the limit
  bytes max_bytes = no_limit;
  /// When the pool coalesces. Without a heuristic, the pool returns empty blocks before it takes a
  /// block, if none of them is large enough for the request, and only beyond its peak use
  heuristic coalesce = heuristic::never();
  /// Every `shrink_after` frees, the pool returns unused blocks beyond the peak use during these
  /// frees; 0 means never
  std::uint64_t shrink_after = 0;
  std::string name = {};  ///< for reports
  /// The registry knows the pool's allocations; never those of a simulated resource
  bool is_tracked = true;
  /// Bytes after each allocation that detect overruns, at most 65536; 0 means none. The constructor
  /// throws `bad_argument` if the host cannot access the memory. The pool then keeps no freed
  /// allocation whole for the next request of its size. See host/detail/red_zone.hpp
  bytes red_zone = 0;
  /// Receives a line of text for each write to a red zone; null means standard error. Exceptions
  /// that it throws are dropped
  void (*on_overrun)(std::string const& line) = nullptr;
  /// Leak reports list the callers of each allocation, up to 32 addresses, if the pool is tracked.
  /// The pool then keeps no freed allocation whole for the next request of its size
  bool keeps_backtraces = false;
};

/// Counts of a pool. `reserved`: bytes of its blocks. `allocated`: bytes that were requested and
/// are in use. `granted`: bytes of the chunks that serve them. A chunk includes the bytes that
/// alignment adds and the excess of a reused chunk; a slice block counts as a whole. `allocations`
/// counts all allocations until now, `allocations_in_use` the allocations that are not freed yet.
struct pool_counts : pool_state {
  bytes peak_reserved = 0;
  std::uint64_t allocations = 0, deallocations = 0;         // all calls until now
  std::uint64_t blocks_allocated = 0, blocks_returned = 0;  // from and to the resource
  std::uint64_t coalesces = 0;                              // that took a block
  std::uint64_t invalid_frees = 0;  // frees of addresses that were not in use
  std::uint64_t overruns = 0;       // frees of allocations with a changed red zone
  std::size_t allocations_in_use = 0;
  bytes largest_free = 0;  // the largest free chunk
};

/// The options with the defaults filled in. Throws `bad_argument`.
[[nodiscard]] inline pool_options checked(pool_options options) {
  if (options.red_zone > 64_KiB)
    throw bad_argument{"pool_options: red_zone is " + std::to_string(options.red_zone) +
                       " bytes, more than 65536"};
  return detail::checked_blocks("pool_options", std::move(options));
}

}  // namespace quarry::inline QUARRY_ABI
