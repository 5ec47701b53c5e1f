// SPDX-License-Identifier: Apache-2.0
// Marks the symbols that a shared library of Quarry exports. All other symbols are hidden.
#pragma once

#include "quarry/core/abi.hpp"

/// Before a function, or after `class`: what public headers declare and src/ compiles, and types of
/// exceptions, which are one type in all shared objects then.
#define QUARRY_API __attribute__((visibility("default")))
