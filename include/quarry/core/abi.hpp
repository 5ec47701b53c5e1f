// SPDX-License-Identifier: Apache-2.0
// Keeps the versions of Quarry apart if one program contains several versions.
//
// A program and its plugins may each have a copy of Quarry, and the copies may differ in version.
// If a program and a plugin define the same symbol, the dynamic linker uses the program's symbol
// for both. This includes inline functions and templates. So all of Quarry lies in an inline
// namespace that is named after its version: code says `quarry::pool`, and the linker sees
// `quarry::v0_1_layout_7::pool`.
#pragma once

#include "quarry/core/version.h"

/// The layout number of the state that all copies of Quarry in a process share
/// (host/detail/process_state.hpp). Raise it whenever a type of `process_state`, `registration`,
/// `process_lists` or type-stable memory changes in its layout or in the meaning of its bits.
/// Copies with different numbers share nothing. src/host/registry/process_layout.cpp does not
/// compile if a layout changed.
#define QUARRY_STATE_LAYOUT 7

/// The inline namespace. Its name holds the major and minor version, which may break the interface,
/// and the layout number.
#define QUARRY_ABI_OF(major, minor, layout) v##major##_##minor##_layout_##layout
#define QUARRY_ABI_OF_MACROS(major, minor, layout) QUARRY_ABI_OF(major, minor, layout)
#define QUARRY_ABI \
  QUARRY_ABI_OF_MACROS(QUARRY_VERSION_MAJOR, QUARRY_VERSION_MINOR, QUARRY_STATE_LAYOUT)
