// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes, and the literals that write them: 64_KiB, 8_GiB.
#pragma once

#include "quarry/core/config.hpp"

namespace quarry::inline QUARRY_ABI {

using bytes = std::uint64_t;

/// A limit that no size exceeds: the default of every limit in options. (In C and Fortran a limit
/// of 0 means the same.)
inline constexpr bytes no_limit = ~bytes{0};

/// The maximum size of a request: 64 TiB. Resources refuse larger requests themselves, because the
/// library or system that they call may fail on them.
inline constexpr bytes max_bytes_at_once = bytes{1} << 46;

inline namespace literals {
constexpr bytes operator""_KiB(unsigned long long n) { return n << 10; }
constexpr bytes operator""_MiB(unsigned long long n) { return n << 20; }
constexpr bytes operator""_GiB(unsigned long long n) { return n << 30; }
}  // namespace literals

}  // namespace quarry::inline QUARRY_ABI
