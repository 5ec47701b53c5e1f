// SPDX-License-Identifier: Apache-2.0
// Red zones: bytes behind an allocation that nobody may write. A mitigation that pools have as an
// option (pool_options::red_zone).
//
// Threat: writes behind an allocation; and in front of one, which hit the red zone of the one
// before. Cost: the bytes, rounded up to the pool's alignment, which are written when the memory is
// allocated and read when it is freed; and no allocation is cached for the next one of its size.
// With AddressSanitizer the bytes are poisoned instead, and the access itself is reported. Test: a
// write of one byte too many must be counted and reported.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI::detail::red_zone {

/// What red zones are filled with.
inline constexpr unsigned char pattern = 0xA5;

inline void fill(void* zone, bytes size) { std::memset(zone, pattern, size); }

/// The first byte that is not as `fill` left it, or nothing.
[[nodiscard]] inline std::optional<bytes> changed_byte(void const* zone, bytes size) {
  auto const* const at = static_cast<unsigned char const*>(zone);
  for (bytes i = 0; i < size; ++i) {
    if (at[i] != pattern) return i;
  }
  return std::nullopt;
}

/// A line that says what was overrun: `name` is the allocation's, or empty; `changed` is the first
/// byte written, counted from the allocation's begin.
[[nodiscard]] inline std::string overrun(std::string const& pool, std::uint64_t base, bytes size,
                                         std::string const& name, bytes changed) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(base));
  return pool + ": overrun of " + address + ", " + std::to_string(size) + " bytes" +
         (name.empty() ? "" : " (" + name + ')') + ": byte " + std::to_string(changed) +
         " was written";
}

/// Gives the line to `callback`, or writes it to standard error if `callback` is null.
inline void report(std::string const& line, void (*callback)(std::string const&)) {
  if (callback != nullptr) return callback(line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace quarry::inline QUARRY_ABI::detail::red_zone
