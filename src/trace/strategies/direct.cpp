// SPDX-License-Identifier: Apache-2.0
#include "trace/replay/memory_replay.hpp"
#include "trace/strategies.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Each allocation is one of the upstream, rounded to the alignment.
struct no_pool {
  no_pool(replay_options const& options, upstream_calls& upstream_counts)
      : resource{options.upstream, upstream_counts},
        calls{upstream_counts},
        alignment{std::max<bytes>(checked(options.pool).alignment, 256)},
        max_bytes{options.pool.max_bytes} {}
  [[nodiscard]] bytes rounded(bytes size) const {
    return std::max<bytes>(alignment, (size + alignment - 1) & ~(alignment - 1));
  }
  void* allocate(event const& request) {
    if (request.size > max_bytes_at_once)
      throw out_of_memory{"replay", request.size, request_too_large};
    bytes const size = rounded(request.size);
    if (size > max_bytes || calls.reserved > max_bytes - size)
      throw out_of_memory{"replay", size, "the capacity is exhausted"};
    void* const result = resource.allocate(size, alignment);
    ++found.allocations;
    found.allocated += request.size;
    found.peak_allocated = std::max(found.peak_allocated, found.allocated);
    found.peak_reserved = std::max(found.peak_reserved, calls.reserved);
    return result;
  }
  void deallocate(void* pointer, bytes size, event const&) {
    resource.deallocate(pointer, rounded(size), alignment);
    ++found.deallocations;
    found.allocated -= size;
  }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const {
    pool_counts result = found;
    result.reserved = result.granted = calls.reserved;
    result.peak_granted = found.peak_reserved;
    result.allocations_in_use = found.allocations - found.deallocations;
    result.blocks_allocated = found.allocations;
    result.blocks_returned = found.deallocations;
    return result;
  }
  counted_resource resource;
  upstream_calls& calls;
  bytes alignment, max_bytes;
  pool_counts found = {};
};

}  // namespace

std::unique_ptr<running_replay> replay_without_pool(replay_options const& options) {
  return replay_in<no_pool>(options);
}

}  // namespace quarry::inline QUARRY_ABI::trace
