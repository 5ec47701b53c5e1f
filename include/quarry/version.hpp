// SPDX-License-Identifier: Apache-2.0
// The version of Quarry: of these headers, and of the library that a program is linked with.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/core/version.h"

#include <compare>

namespace quarry::inline QUARRY_ABI {

/// A version after SemVer 2.0; a later version compares greater.
struct version_number {
  int major, minor, patch;
  friend constexpr auto operator<=>(version_number const&, version_number const&) = default;
};

/// The version of the headers that this source was compiled with.
inline constexpr version_number version{QUARRY_VERSION_MAJOR, QUARRY_VERSION_MINOR,
                                        QUARRY_VERSION_PATCH};
/// The same as text: "1.2.3".
inline constexpr char version_text[] = QUARRY_VERSION_TEXT;

/// The version of the library that the program runs with. Its patch number may differ from that of
/// the headers; a library of another minor version does not link (QUARRY_ABI).
[[nodiscard]] QUARRY_API version_number library_version() noexcept;

}  // namespace quarry::inline QUARRY_ABI
