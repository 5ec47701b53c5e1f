// SPDX-License-Identifier: Apache-2.0
// Red zones: bytes after an allocation that the program must not write to. A mitigation that pools
// have as an option (pool_options::red_zone).
//
// Threat: writes past the end of an allocation, and writes before its start, which hit the red zone
// of the allocation before it. Cost: the bytes of the red zone, rounded up to the pool's alignment.
// The pool writes them when it allocates the memory and reads them when the memory is freed. Also,
// no freed chunk is cached for the next request of its size. With AddressSanitizer the bytes are
// poisoned instead, and the access itself is reported. Test: a write of one byte too many must be
// counted and reported.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI::detail::red_zone {

/// The byte that fills red zones.
inline constexpr unsigned char pattern = 0xA5;

inline void fill(void* zone, bytes size) { std::memset(zone, pattern, size); }

/// The offset of the first byte that differs from what `fill` wrote; nullopt if no byte differs.
[[nodiscard]] inline std::optional<bytes> changed_byte(void const* zone, bytes size) {
  auto const* const zone_bytes = static_cast<unsigned char const*>(zone);
  for (bytes i = 0; i < size; ++i) {
    if (zone_bytes[i] != pattern) return i;
  }
  return std::nullopt;
}

/// A line that describes an overrun. `name` is the label of the allocation, or empty. `changed` is
/// the offset of the first changed byte from the allocation's base address.
[[nodiscard]] inline std::string overrun(std::string const& pool, std::uint64_t base, bytes size,
                                         std::string const& name, bytes changed) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(base));
  return pool + ": overrun of " + address + ", " + std::to_string(size) + " bytes" +
         (name.empty() ? "" : " (" + name + ')') + ": byte " + std::to_string(changed) +
         " was written";
}

/// Passes the line to `callback`, or writes it to standard error if `callback` is null.
inline void report(std::string const& line, void (*callback)(std::string const&)) {
  if (callback != nullptr) return callback(line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace quarry::inline QUARRY_ABI::detail::red_zone
