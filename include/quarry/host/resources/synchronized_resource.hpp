// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Lets several threads share a resource or pool: a mutex serialises their calls.
///
/// The upstream is guarded by the mutex. `with` runs several calls as one critical section. A fork
/// waits for the thread that holds the mutex, so that the child can use the resource. If the fork
/// gives up (mutex_held_at_fork), calls in the child throw `bad_state`, and frees do nothing.
template <class Upstream>
class synchronized_resource {
 public:
  template <class... Arguments>
  explicit synchronized_resource(Arguments&&... arguments)
      : shared_{std::make_unique<state>(std::forward<Arguments>(arguments)...)} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return with([&](Upstream& upstream) { return upstream.allocate(size, alignment); });
  }
  /// Returns false if the upstream says that it has refused the pointer, or in a child whose fork
  /// gave up.
  bool deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    detail::lock_unless_lost const lock{shared_->mutex};
    return lock && plain_call{}.deallocate(shared_->upstream, pointer, size, alignment);
  }

  /// Makes the upstream return unused memory, if it keeps any (`release_unused`).
  void release() {
    with([](Upstream& upstream) { release_unused(upstream); });
  }
  /// The bytes that the upstream has reserved, nullopt if it does not count them (`reserved_by`).
  [[nodiscard]] std::optional<bytes> reserved() {
    return with([](Upstream& upstream) { return reserved_by(upstream); });
  }

  /// Returns `work(upstream)`, called while the mutex is locked.
  template <class Work>
  decltype(auto) with(Work&& work) {
    std::lock_guard const lock{shared_->mutex};
    return std::forward<Work>(work)(shared_->upstream);
  }

  /// The upstream, without locking: only for properties that do not change. Use `with` otherwise.
  [[nodiscard]] Upstream& upstream() { return shared_->upstream; }

 private:
  struct state {
    template <class... Arguments>
    explicit state(Arguments&&... arguments) : upstream(std::forward<Arguments>(arguments)...) {}
    Upstream upstream;
    detail::mutex_held_at_fork mutex;
  };
  std::unique_ptr<state> shared_;
};

}  // namespace quarry::inline QUARRY_ABI
