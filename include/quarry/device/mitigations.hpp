// SPDX-License-Identifier: Apache-2.0
// Optional safety checks that cost time or memory; each is a named bit. The heap always reports a
// double free, a foreign pointer and an interior pointer, without any of these bits.
#pragma once

#include "quarry/core/config.hpp"

namespace quarry::inline QUARRY_ABI {

enum class mitigation : std::uint32_t {
  none = 0,
  /// Threat: writes past the end of an allocation; frees of memory that was never allocated. Cost:
  /// 8 bytes per allocation; an exchange of the mark and a few loads on malloc and on free. Test: a
  /// kernel that writes one byte too many must record `overrun`. A kernel that frees a slice that
  /// was never allocated must record `double_free`.
  canary = 1,
  /// Threat: writes to freed memory. Not detected for large allocations: a stale write to a whole
  /// segment looks like a write by a later owner. Cost: free writes up to 4 KiB of the allocation;
  /// malloc and the end of the quarantine read them again. Needs `canary`, which marks freed
  /// allocations. Test: a kernel that writes to freed memory must record `use_after_free`.
  poison = 2,
  /// Threat: a stale pointer that points to a new allocation right after the free. Cost: the heap
  /// retains the last 1024 freed allocations of up to 4 KiB until memory runs out. A malloc that
  /// finds no memory checks and frees all of them. Needs `canary`, which marks retained
  /// allocations. Test: malloc must not return a freed address again within 1024 frees.
  quarantine = 4,
  /// Threat: addresses that an attacker can predict. Large allocations still start at the end of
  /// the region. Cost: no time on malloc. Test: different seeds produce different first addresses.
  random_start = 8,
};

[[nodiscard]] constexpr QUARRY_HD mitigation operator|(mitigation a, mitigation b) {
  return static_cast<mitigation>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

#ifndef QUARRY_HARDENED
#define QUARRY_HARDENED 0
#endif

/// The mitigations of this build: all or none, except in tests of a single mitigation.
inline constexpr auto mitigations = static_cast<mitigation>(QUARRY_HARDENED);

[[nodiscard]] constexpr QUARRY_HD bool is_on(mitigation selected) {
  return (static_cast<std::uint32_t>(mitigations) & static_cast<std::uint32_t>(selected)) != 0;
}

static_assert(is_on(mitigation::canary) ||
                  (!is_on(mitigation::poison) && !is_on(mitigation::quarantine)),
              "QUARRY_HARDENED: poison and quarantine need the canary");

/// Identifies the heap layout and the mitigations. A kernel and the library that made its heap must
/// have the same value. It fits in 7 bits (heap_ref), so versions that differ by 7 look the same.
/// It is never 0, which a default `heap_ref` has.
inline constexpr std::uint32_t heap_build =
    ((layout_version - 1) % 7 + 1) << 4 | static_cast<std::uint32_t>(mitigations);
static_assert(heap_build != 0);
static_assert(static_cast<std::uint32_t>(mitigations) < 16);

}  // namespace quarry::inline QUARRY_ABI
