// SPDX-License-Identifier: Apache-2.0
// What a resource states about its memory: where the memory lies, and whether the host can touch
// it.
#pragma once

#include "quarry/platform/memory_kind.hpp"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// The location of a resource's memory: its `location()`, otherwise the location of its
/// `upstream()`, otherwise the host. So a resource that takes memory from another one must have
/// `upstream()`, or must state its location and whether it is simulated.
template <class Resource>
[[nodiscard]] memory_location location_of(Resource& resource) {
  if constexpr (requires { resource.location(); }) {
    return resource.location();
  } else if constexpr (requires { resource.upstream(); }) {
    return location_of(resource.upstream());
  } else {
    return {};
  }
}

/// Waits until any stream or thread may use the memory that the resource has allocated. Calls
/// `synchronize()`, which stream-ordered resources have. Pools call this for each block.
template <class Resource>
void synchronize(Resource& resource) {
  if constexpr (requires { resource.synchronize(); }) {
    resource.synchronize();
  } else if constexpr (requires { resource.upstream(); }) {
    synchronize(resource.upstream());
  }
}

/// The bytes that a resource has reserved, if it keeps memory that its user has freed: its
/// `reserved()`, otherwise the count of its `upstream()`. Returns nullopt if neither has a count.
template <class Resource>
[[nodiscard]] std::optional<std::uint64_t> reserved_by(Resource& resource) {
  if constexpr (requires { resource.reserved(); }) {
    return resource.reserved();
  } else if constexpr (requires { resource.upstream(); }) {
    return reserved_by(resource.upstream());
  } else {
    return std::nullopt;
  }
}

/// Returns unused memory, if the resource keeps some: calls its `release()`, otherwise that of its
/// `upstream()`. Skips a `release` that would also free allocations in use (a constant
/// `release_ends_use`). Throws what `release` throws.
template <class Resource>
void release_unused(Resource& resource) {
  if constexpr (
      requires { resource.release(); } && !requires { requires Resource::release_ends_use; }) {
    resource.release();
  } else if constexpr (requires { resource.upstream(); }) {
    release_unused(resource.upstream());
  }
}

/// Whether a resource, or a resource upstream of it, has a constant `is_simulated` that is true.
template <class Resource>
[[nodiscard]] consteval bool says_that_it_is_simulated() {
  if constexpr (requires { requires Resource::is_simulated; }) {
    return true;
  } else if constexpr (requires(Resource& resource) { resource.upstream(); }) {
    using upstream = decltype(std::declval<Resource&>().upstream());
    return says_that_it_is_simulated<std::remove_cvref_t<upstream>>();
  } else {
    return false;
  }
}

/// A resource whose addresses have no memory, or whose upstream is such a resource. No adaptor can
/// hide that.
template <class Resource>
concept simulated = says_that_it_is_simulated<Resource>();

/// Whether the host may read and write the resource's memory. False for a simulated resource. True
/// only if it also holds for each resource upstream.
template <class Resource>
[[nodiscard]] bool host_can_touch(Resource& resource) {
  if constexpr (simulated<Resource>) {
    return false;
  } else if constexpr (requires { resource.upstream(); }) {
    return host_can_touch(resource.upstream()) && location_of(resource).is_touchable();
  } else {
    return location_of(resource).is_touchable();
  }
}

}  // namespace quarry::inline QUARRY_ABI
