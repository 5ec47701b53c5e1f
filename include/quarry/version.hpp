// SPDX-License-Identifier: Apache-2.0
// The version of Quarry's headers, and the version of the library that a program is linked with.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/core/version.h"

#include <compare>

namespace quarry::inline QUARRY_ABI {

/// A version in the sense of SemVer 2.0; a later version compares greater.
struct version_number {
  int major, minor, patch;
  friend constexpr auto operator<=>(version_number const&, version_number const&) = default;
};

/// The version of the headers that this source was compiled with.
inline constexpr version_number version{QUARRY_VERSION_MAJOR, QUARRY_VERSION_MINOR,
                                        QUARRY_VERSION_PATCH};
/// The same as text: "1.2.3".
inline constexpr char version_text[] = QUARRY_VERSION_TEXT;

/// The version of the library that the program runs with. The library may differ from the headers
/// only in the patch number. A program does not link with a library of another major or minor
/// version (QUARRY_ABI).
[[nodiscard]] QUARRY_API version_number library_version() noexcept;

}  // namespace quarry::inline QUARRY_ABI
