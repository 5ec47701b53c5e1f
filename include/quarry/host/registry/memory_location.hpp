// SPDX-License-Identifier: Apache-2.0
// What a resource says of its memory: where the memory lies, and whether the host can touch it.
#pragma once

#include "quarry/platform/memory_kind.hpp"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// What a resource says of itself: `location()`, or its `upstream()`'s; else the host's. So what
/// stands on another resource has `upstream()`, or says of itself where its memory lies, and
/// whether it is simulated.
template <class Resource>
[[nodiscard]] memory_location location_of(Resource& from) {
  if constexpr (requires { from.location(); }) {
    return from.location();
  } else if constexpr (requires { from.upstream(); }) {
    return location_of(from.upstream());
  } else {
    return {};
  }
}

/// Waits until memory that the resource gives may be used at once by anyone: `synchronize()` of
/// those that give it in the order of a stream. Pools do so for each block.
template <class Resource>
void synchronize(Resource& from) {
  if constexpr (requires { from.synchronize(); }) {
    from.synchronize();
  } else if constexpr (requires { from.upstream(); }) {
    synchronize(from.upstream());
  }
}

/// Bytes that the resource has taken from where its memory comes from, if it keeps what its user
/// has freed: its `reserved()` or `reserved()`, or its `upstream()`'s. Nothing if none has a count.
template <class Resource>
[[nodiscard]] std::optional<std::uint64_t> reserved_by(Resource& from) {
  if constexpr (requires { from.reserved(); }) {
    return from.reserved();
  } else if constexpr (requires { from.reserved(); }) {
    return from.reserved();
  } else if constexpr (requires { from.upstream(); }) {
    return reserved_by(from.upstream());
  } else {
    return std::nullopt;
  }
}

/// Returns unused memory, if the resource keeps some: its `release()`, unless that also returns
/// what is in use (a constant `release_ends_use`). Throws what `release` throws.
template <class Resource>
void release_unused(Resource& from) {
  if constexpr (requires { from.release(); } && !requires { requires Resource::release_ends_use; })
    from.release();
}

/// Whether a resource says so of itself, by a constant `is_simulated`, or what it stands on does.
template <class Resource>
[[nodiscard]] consteval bool says_that_it_is_simulated() {
  if constexpr (requires { requires Resource::is_simulated; }) {
    return true;
  } else if constexpr (requires(Resource& from) { from.upstream(); }) {
    using upstream = decltype(std::declval<Resource&>().upstream());
    return says_that_it_is_simulated<std::remove_cvref_t<upstream>>();
  } else {
    return false;
  }
}

/// A resource whose addresses have no memory behind them, itself or at the end of its
/// `upstream()`s. No adaptor hides that, whatever it says of itself.
template <class Resource>
concept simulated = says_that_it_is_simulated<Resource>();

/// Whether the host may read and write what the resource gives: never of a simulated one, and only
/// if all that it stands on says so, too.
template <class Resource>
[[nodiscard]] bool host_can_touch(Resource& from) {
  if constexpr (simulated<Resource>) {
    return false;
  } else if constexpr (requires { from.upstream(); }) {
    return host_can_touch(from.upstream()) && location_of(from).is_touchable();
  } else {
    return location_of(from).is_touchable();
  }
}

}  // namespace quarry::inline QUARRY_ABI
