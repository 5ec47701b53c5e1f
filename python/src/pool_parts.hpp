// SPDX-License-Identifier: Apache-2.0
// What the pools that Python sees share: quarry.Pool, RoutedPool and PlannedPool.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/placements.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/trace/recorded_resource.hpp"

#include "recorder_handle.hpp"
#include "resources.hpp"

#include <memory>
#include <string>

namespace quarry::python {

/// Null if `handle` is null: nothing is recorded.
[[nodiscard]] inline std::shared_ptr<trace::recorder> target_of(recorder_handle const* handle) {
  return handle == nullptr ? nullptr : handle->shared();
}

/// The resource that a pool takes its blocks from. A recorder gets the blocks, under the name of
/// the pool.
[[nodiscard]] inline any_resource pool_upstream(std::string const& kind, int device,
                                                std::string const& pool_name,
                                                std::shared_ptr<trace::recorder> const& recorder) {
  auto resource = resource_named(kind, device);
  if (recorder == nullptr) return resource;
  return any_resource{trace::recorded_resource{std::move(resource), recorder, pool_name,
                                               trace::recorded_role::upstream}};
}

/// Frees an allocation of a recorded pool. Returns false if the pool refuses the free; then the
/// trace does not show it. The caller holds the pool's lock.
template <class Pool>
[[nodiscard]] bool deallocate_recorded(trace::recorded_resource<Pool>& recorded,
                                       std::uint64_t address) {
  Pool& pool = recorded.upstream();
  void* const pointer = pointer_to(address);
  if (recorded.target() != nullptr) {
    if (auto const size = pool.size_of(pointer)) {
      recorded.deallocate(pointer, *size, 1);
      return true;
    }
  }
  return pool.deallocate(pointer);
}

/// Calls `make.operator()<Placement>()` for the placement of this name. Throws `bad_argument`.
template <class Make>
[[nodiscard]] auto with_placement(std::string const& name, Make const& make) {
  return quarry::with_placement(
      name, make, [](std::string const& reason) { throw bad_argument{"pool: " + reason}; });
}

}  // namespace quarry::python
