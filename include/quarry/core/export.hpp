// SPDX-License-Identifier: Apache-2.0
// Marks the symbols that a shared library of Quarry exports. All other symbols are hidden.
#pragma once

#include "quarry/core/abi.hpp"

/// Stands before a function or after `class`. Mark every function and class that a public header
/// declares and src/ defines. Mark also every exception class, so that it is the same type in all
/// shared objects.
#define QUARRY_API __attribute__((visibility("default")))
