// SPDX-License-Identifier: Apache-2.0
// Who can touch memory: what a resource says of itself, and a record of its allocations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarry {

enum class memory_kind : std::uint8_t { host, device, pinned, managed, file, shared };

[[nodiscard]] constexpr char const* name_of(memory_kind kind) {
  constexpr char const* names[] = {"host", "device", "pinned", "managed", "file", "shared"};
  return names[static_cast<std::size_t>(kind)];
}

/// The kind of memory, and the GPU's number if it is one's.
struct memory_place {
  memory_kind kind = memory_kind::host;
  std::uint8_t device = 0;

  /// The host may read and write it.
  [[nodiscard]] constexpr bool is_touchable() const { return kind != memory_kind::device; }
  friend bool operator==(memory_place const&, memory_place const&) = default;
};

/// What a resource says of itself: `place()`, or its `upstream()`'s; else the host's.
template <class Resource>
[[nodiscard]] memory_place place_of(Resource& from) {
  if constexpr (requires { from.place(); }) {
    return from.place();
  } else if constexpr (requires { from.upstream(); }) {
    return place_of(from.upstream());
  } else {
    return {};
  }
}

/// Waits until memory that the resource gives may be used at once by anyone: `settle()` of those
/// that give it in the order of a stream. Pools do so for each block.
template <class Resource>
void settle(Resource& from) {
  if constexpr (requires { from.settle(); }) {
    from.settle();
  } else if constexpr (requires { from.upstream(); }) {
    settle(from.upstream());
  }
}

/// A resource whose addresses have no memory behind them.
template <class Resource>
concept simulated = requires { requires Resource::is_simulated; };

}  // namespace quarry
