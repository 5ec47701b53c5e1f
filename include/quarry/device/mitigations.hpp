// SPDX-License-Identifier: Apache-2.0
// Safety checks that cost something, each a named bit. A double free and a foreign or interior
// pointer are always reported.
#pragma once

#include "quarry/core/config.hpp"

namespace quarry::inline QUARRY_ABI {

enum class mitigation : std::uint32_t {
  none = 0,
  /// Threat: writes behind an allocation; frees of what was never handed out. Cost: 8 bytes an
  /// allocation, a write on malloc, a read on free, and there two loads more. Test: a kernel that
  /// writes one byte too many must leave `overflow`, and one that frees a slice nobody has,
  /// `double_free`.
  canary = 1,
  /// Threat: writes to freed memory. Of whole segments it finds nothing: what used them since
  /// cannot be told from a stale write. Cost: writes the allocation on free, at most 4 KiB of it,
  /// and reads that when it leaves the quarantine and on malloc. Needs `canary`, which tells what
  /// was freed. Test: a kernel that writes to what it has freed must leave `use_after_free`.
  poison = 2,
  /// Threat: re-use right after a free makes stale pointers valid. Cost: the last 1024 frees of up
  /// to 4 KiB are held back, until memory runs out; a failing malloc looks at all of them. Needs
  /// `canary`, which marks what is held back. Test: an address freed must not come back for 1024
  /// frees.
  quarantine = 4,
  /// Threat: addresses that an attacker can predict. Large allocations still come from the far end.
  /// Cost: none on malloc. Test: heaps with different seeds give different first addresses.
  random_start = 8,
};

[[nodiscard]] constexpr QUARRY_HD mitigation operator|(mitigation a, mitigation b) {
  return static_cast<mitigation>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

#ifndef QUARRY_HARDENED
#define QUARRY_HARDENED 0
#endif

/// The bits that this build turns on: all or none, save in tests of one at a time.
inline constexpr auto mitigations = static_cast<mitigation>(QUARRY_HARDENED);

[[nodiscard]] constexpr QUARRY_HD bool is_on(mitigation one) {
  return (static_cast<std::uint32_t>(mitigations) & static_cast<std::uint32_t>(one)) != 0;
}

static_assert(is_on(mitigation::canary) ||
                  (!is_on(mitigation::poison) && !is_on(mitigation::quarantine)),
              "QUARRY_HARDENED: poison and quarantine need the canary");

/// What a kernel and the library that made its heap must have in common: the layout and the
/// mitigations. In 7 bits: heap_ref.
inline constexpr std::uint32_t heap_build =
    layout_version << 4 | static_cast<std::uint32_t>(mitigations);
static_assert(layout_version < 8 && static_cast<std::uint32_t>(mitigations) < 16);

}  // namespace quarry::inline QUARRY_ABI
