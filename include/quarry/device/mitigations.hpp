// SPDX-License-Identifier: Apache-2.0
// Safety checks that cost something, each a named bit. A double free and a foreign or interior pointer are always reported.
#pragma once

#include "quarry/core/config.hpp"

namespace quarry {

enum class mitigation : std::uint32_t {
  none = 0,
  /// Threat: writes behind an allocation. Cost: 8 bytes an allocation, a write on malloc, a read on free. Test: a kernel that
  /// writes one byte too many must leave `overflow`.
  canary = 1,
  /// Threat: writes to freed memory. Cost: writes the allocation on free, reads it on malloc. Test: a kernel that writes to
  /// what it has freed must leave `use_after_free`.
  poison = 2,
  /// Threat: re-use right after a free makes stale pointers valid. Cost: the last 1024 frees are held back. Needs `canary`,
  /// which marks what is held back. Test: an address freed must not come back at once, and a second free is reported.
  quarantine = 4,
  /// Threat: addresses that an attacker can predict. Cost: none on malloc. Test: two heaps with different seeds give different
  /// first addresses.
  random_start = 8,
};

[[nodiscard]] constexpr QUARRY_HD mitigation operator|(mitigation a, mitigation b) {
  return static_cast<mitigation>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

#ifdef QUARRY_HARDENED
inline constexpr mitigation mitigations =
    mitigation::canary | mitigation::poison | mitigation::quarantine | mitigation::random_start;
#else
inline constexpr mitigation mitigations = mitigation::none;
#endif

[[nodiscard]] constexpr QUARRY_HD bool is_on(mitigation one) {
  return (static_cast<std::uint32_t>(mitigations) & static_cast<std::uint32_t>(one)) != 0;
}

}  // namespace quarry
