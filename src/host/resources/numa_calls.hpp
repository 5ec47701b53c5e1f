// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

namespace quarry::inline QUARRY_ABI::numa {

/// Throws `bad_argument`, which names `call`, if the system has no such node.
void check_node(char const* call, unsigned node);

/// Moves the pages that [memory, memory + size) touches to a node, if they are there. Throws
/// `bad_argument` or `resource_failed`.
void move(void* memory, bytes size, unsigned node);

}  // namespace quarry::inline QUARRY_ABI::numa
