// SPDX-License-Identifier: Apache-2.0
// Kinds of memory, and where memory lies.
#pragma once

#include "quarry/core/abi.hpp"

#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI {

enum class memory_kind : std::uint8_t { host, device, pinned, managed, file, shared };

[[nodiscard]] constexpr char const* name_of(memory_kind kind) {
  constexpr char const* names[] = {"host", "device", "pinned", "managed", "file", "shared"};
  return names[static_cast<std::size_t>(kind)];
}

/// The kind of memory. For memory of a GPU, also the GPU's number.
struct memory_location {
  memory_kind kind = memory_kind::host;
  std::uint8_t device = 0;

  /// True if the host may read and write the memory.
  [[nodiscard]] constexpr bool is_touchable() const { return kind != memory_kind::device; }
  friend bool operator==(memory_location const&, memory_location const&) = default;
};

}  // namespace quarry::inline QUARRY_ABI
