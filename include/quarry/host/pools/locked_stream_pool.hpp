// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/stream_pool.hpp"

#include <concepts>
#include <mutex>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A stream pool with a lock: calls of several threads take turns. `deallocate` ignores the size
/// and the alignment. The pool refuses and counts an invalid pointer.
template <memory_resource Resource, stream_order Order = cuda_streams>
class locked_stream_pool {
 public:
  using pool_type = stream_pool<Resource, Order>;

  /// Constructs the pool from `arguments`. Throws what the pool's constructor throws.
  template <class... Arguments>
    requires std::constructible_from<pool_type, Arguments...>
  explicit locked_stream_pool(Arguments&&... arguments)
      : pool_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream stream) {
    std::lock_guard const lock{mutex_};
    return pool_.allocate(size, alignment, stream);
  }
  bool deallocate(void* pointer, bytes, bytes, cuda_stream stream) noexcept {
    std::lock_guard const lock{mutex_};
    return pool_.deallocate(pointer, stream);
  }
  /// Allocates in the default stream and waits for that stream; the lock is not held during the
  /// wait. Throws `resource_failed` if the wait fails.
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment) {
    void* const result = allocate(size, alignment, cuda_stream{});
    if (pool_.order().finish(cuda_stream{})) return result;
    deallocate(result, size, alignment, cuda_stream{});
    throw resource_failed{"locked_stream_pool: allocate_sync",
                          "waiting for the default stream failed; is a stream being captured?"};
  }
  void deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept {
    deallocate(pointer, size, alignment, cuda_stream{});
  }

  /// Calls `work(pool)` while no other thread uses the pool.
  template <class Work>
  decltype(auto) with(Work&& work) {
    std::lock_guard const lock{mutex_};
    return std::forward<Work>(work)(pool_);
  }
  /// The pool's counts and its violated invariants, each at one moment.
  [[nodiscard]] auto counts() const {
    std::lock_guard const lock{mutex_};
    return pool_.counts();
  }
  [[nodiscard]] auto audit() const {
    std::lock_guard const lock{mutex_};
    return pool_.audit();
  }
  [[nodiscard]] memory_location location() { return pool_.location(); }

 private:
  pool_type pool_;  // Guarded by: mutex_, except for `order().finish`
  mutable std::mutex mutex_;
};

}  // namespace quarry::inline QUARRY_ABI
