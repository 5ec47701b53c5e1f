// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/held_at_fork.hpp"
#include "quarry/host/resources/resource.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Lets several threads use one resource or pool: one at a time.
///
/// Upstream is Guarded by: the mutex. `with` runs what must not be interrupted. A fork waits for
/// the thread that is in it, so that the child can use it (held_at_fork).
template <class Upstream>
class synchronized_resource {
 public:
  template <class... Arguments>
  explicit synchronized_resource(Arguments&&... arguments)
      : shared_{std::make_unique<state>(std::forward<Arguments>(arguments)...)} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return with([&](Upstream& from) { return from.allocate(size, alignment); });
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    with([&](Upstream& from) { from.deallocate(pointer, size, alignment); });
  }

  template <class Work>
  decltype(auto) with(Work&& work) {
    std::lock_guard const reserved{shared_->mutex};
    return std::forward<Work>(work)(shared_->upstream);
  }

  /// For what does not change: `with` is for all else.
  [[nodiscard]] Upstream& upstream() { return shared_->upstream; }

 private:
  struct state {
    template <class... Arguments>
    explicit state(Arguments&&... arguments) : upstream(std::forward<Arguments>(arguments)...) {}
    Upstream upstream;
    std::mutex mutex;
    held_at_fork reserved{mutex};
  };
  std::unique_ptr<state> shared_;
};

}  // namespace quarry::inline QUARRY_ABI
