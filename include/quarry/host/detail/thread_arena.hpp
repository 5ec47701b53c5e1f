// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/arena_pool.hpp"
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/returned_addresses.hpp"
#include "quarry/host/detail/returned_slices.hpp"

#include <atomic>
#include <optional>

namespace quarry::inline QUARRY_ABI::detail {

/// One arena of `thread_arenas`: a pool, and what other threads than its owner returned to it.
template <memory_resource Resource>
struct QUARRY_POISONS thread_arena {
  /// Makes the pool.
  void begin(Resource const& resource, pool_options const& options) {
    arena_pool.emplace(resource, options);
    arena_pool->share_slices(slices_mutex);
    shares_chunks = arena_pool->share_chunks(chunks_mutex);
  }
  /// For any thread, before it adds to `returns`.
  void announce_returns() noexcept {
    if (has_returns.load(std::memory_order_relaxed)) return;  // (H)
    max_quick.store(0, std::memory_order_relaxed);            // (H)
    has_returns.store(true, std::memory_order_relaxed);       // (H)
  }
  /// For the owner: frees the addresses in `returns`, and lets the pool serve quickly again.
  [[gnu::noinline]] void free_returned() noexcept {
    has_returns.store(false, std::memory_order_relaxed);                  // (H)
    max_quick.store(arena_pool->max_quick(), std::memory_order_relaxed);  // (H)
    if (!arena_pool->deallocate_returned(returns, returned_slices)) announce_returns();
  }
  /// For the owner: frees all allocations that other threads returned. Also those that were late
  /// when the owner last looked, for which there is no announcement any more.
  void free_all_returned() noexcept {
    if (has_returns.load(std::memory_order_relaxed) || returns.has_late())  // (H)
      free_returned();
    while (arena_pool->deallocate_returned(returned_slices)) continue;
  }

  std::optional<detail::arena_pool<Resource>> arena_pool;
  // A cache line of their own, because other threads write these fields. `has_returns` and
  // `max_quick` are hints (H): `returns` orders their changes.
  alignas(64) std::atomic<bool> has_returns{false};
  // The largest size that the thread may request of the pool without asking for returns: the pool's
  // `max_quick`, or 0 while there are returns.
  std::atomic<bytes> max_quick{0};
  // Whether a thread has the arena. Written under the mutex of all arenas
  std::atomic<bool> is_in_use{true};
  returned_addresses returns;               // whoever holds the lock of shared chunks takes them
  detail::returned_slices returned_slices;  // its owner is the arena's thread
  mutex_held_at_fork slices_mutex;          // of the pool's slices
  mutex_held_at_fork chunks_mutex;          // of the pool's chunks
  bool shares_chunks = false;               // written by `begin`
  allocator_id lender = 0;                  // the pool that was asked last. Guarded by: the owner
};

}  // namespace quarry::inline QUARRY_ABI::detail
