// SPDX-License-Identifier: Apache-2.0
// The interface that a pool needs of the placement of its allocations.
#pragma once

#include "quarry/host/detail/chunk_table.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The size of an allocation: what the user may use, and the size of its chunk.
struct chunk_sizes {
  bytes requested = 0;
  bytes granted = 0;  ///< 0 only if there is no such allocation
  explicit operator bool() const { return granted != 0; }
};

/// A range of addresses that a pool got from its resource and cuts into chunks.
struct upstream_block {
  std::uint64_t base;
  bytes size;
};

/// Stands for any callback in the concepts below. nvcc does not accept a lambda there.
struct any_callback {
  void operator()(auto const&...) const {}
};

/// Decides where allocations lie in a pool's blocks, by their addresses; never touches memory.
/// chunk_arena and detail::tiled_blocks document the functions. Frees throw nothing and need no
/// memory, because `reserve` makes room for them before an allocation.
template <class Arena>
concept placement =
    std::constructible_from<Arena, bytes> &&
    requires(Arena& arena, chunk_sizes size, upstream_block block, std::uint64_t base, bytes count,
             any_callback call) {
      // Allocations; nullopt if a block is needed, which `allocate_in` adds.
      { arena.allocate(size) } -> std::same_as<std::optional<std::uint64_t>>;
      { arena.allocate_from_free(size) } -> std::same_as<std::optional<std::uint64_t>>;
      { arena.allocate_from_empty_block(size) } -> std::same_as<std::optional<std::uint64_t>>;
      {
        arena.allocate_for_slices(count, count, count)
      } -> std::same_as<std::optional<std::uint64_t>>;
      { arena.allocate_in(block, size) } -> std::same_as<std::uint64_t>;
      { arena.trim(base, size, count) } -> std::same_as<std::uint64_t>;
      arena.reserve();
      { arena.deallocate(base) } -> std::same_as<chunk_sizes>;
      { arena.deallocate(base, call) } -> std::same_as<chunk_sizes>;
      arena.release(call, count);

      // Quick lists, which a pool asks first. A placement without quick lists never caches a chunk.
      { Arena::caches } -> std::convertible_to<bool>;
      arena.disable_caching();
      { arena.allocate_from_cached(size, count) } -> std::same_as<std::optional<std::uint64_t>>;
      { arena.deallocate_to_cache(base) } -> std::same_as<std::optional<bytes>>;

      // Labels, and lookups of other threads.
      { arena.set_labelled(base) } -> std::same_as<bool>;
      { arena.chunks() } -> std::same_as<detail::chunk_table&>;
    } &&
    requires(Arena const& arena, std::uint64_t base, bytes count, any_callback call) {
      { arena.size_of(base) } -> std::same_as<std::optional<chunk_sizes>>;
      { arena.size_of_cut(count) } -> std::same_as<bytes>;

      // Values for heuristics and statistics.
      { arena.reserved() } -> std::same_as<bytes>;
      { arena.in_use() } -> std::same_as<bytes>;
      { arena.releasable() } -> std::same_as<bytes>;
      { arena.largest_free() } -> std::same_as<bytes>;
      { arena.footprint() } -> std::same_as<bytes>;
      { arena.releasable_blocks() } -> std::same_as<std::uint32_t>;
      { arena.blocks() } -> std::same_as<std::size_t>;
      { arena.free_chunks() } -> std::same_as<std::size_t>;
      { arena.allocated() } -> std::same_as<std::size_t>;

      arena.for_each_block(call);
      arena.for_each(call);
      { arena.audit() } -> std::same_as<std::vector<std::string>>;
    };

/// A placement that can also cut free pages out of its chunks, for stitched_pool.
template <class Arena>
concept page_placement =
    placement<Arena> &&
    requires(Arena& arena, bytes count, any_callback call) { arena.carve(count, count, call); };

}  // namespace quarry::inline QUARRY_ABI
